"""What holds a process's GPU calls back while the driver has locked the process."""

from __future__ import annotations

import ctypes
import os
import select
import threading
import time

__all__ = ["Latch"]


class Latch:
    """Open: calls pass, one at a time. Shut: they wait, and as in CUDA neither Ctrl-C nor SIGTERM's handler ends that.

    A call holds `calls` while it lasts and calls `wait` inside, so that nobody is past it once `shut` returned.

    Attributes:
        calls: held by each call. The interpreter takes and leaves it in one step: an interrupt never leaves it taken.
        is_shut: whether calls wait.
        is_away: whether the process's memory is not on the device, where synchronising crashes.
    """

    def __init__(self) -> None:
        self.calls = threading.RLock()
        self.is_shut = False
        self.is_away = False
        self._passing = os.eventfd(1, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def wait(self) -> None:
        """Return when it is open."""
        while self.is_shut:
            _wait_readable(self._passing)

    def shut(self, deadline: float | None) -> bool:
        """Hold new calls back once those that run have ended; False if they had not by *deadline* (monotonic)."""
        left = -1 if deadline is None else max(0.0, deadline - time.monotonic())
        if not self.calls.acquire(timeout=left):
            return False
        try:
            self.is_shut = True
            os.eventfd_read(self._passing)
        finally:
            self.calls.release()
        return True

    def open(self) -> None:
        """Let the calls pass."""
        self.is_away = self.is_shut = False
        os.eventfd_write(self._passing, 1)

    def close(self) -> None:
        """Let go of what it takes of the system. It must be open, and stays so."""
        passing, self._passing = self._passing, -1
        if passing >= 0:
            os.close(passing)


class _PollFd(ctypes.Structure):
    """struct pollfd of poll(2)."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


_SIGNAL_SET_BYTES = 128
_every_signal = (ctypes.c_ubyte * _SIGNAL_SET_BYTES)(*[0xFF] * _SIGNAL_SET_BYTES)
_ppoll = ctypes.CDLL(None).ppoll
_ppoll.argtypes = (ctypes.POINTER(_PollFd), ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p)


def _wait_readable(fd: int) -> None:
    # Python's own waits end with KeyboardInterrupt. ppoll(2) with every signal blocked is one call that cannot.
    _ppoll(ctypes.byref(_PollFd(fd, select.POLLIN, 0)), 1, None, ctypes.byref(_every_signal))
