"""One budget of host memory for everything that is parked on this host, whichever server parks it.

Each server writes its bookings to a file of its own and keeps that file locked (flock(2)) while it lives, so a
booking ends with its server, and no user can change another's. One more lock makes "add up, then book" one step.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from jupyter_gpushare.parking import trouble
from jupyter_gpushare.parking.device_token import open_shared
from jupyter_gpushare.parking.headroom import cgroup_headroom, memory_available

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.rules.message import Message

__all__ = ["Booking", "HostMemory"]

_MARGIN: Final = 512 << 20
_LOCK_S: Final = 10.0
_LONGEST_FILE: Final = 1 << 20
_PREFIX: Final = "host-memory-"


@dataclass(frozen=True, slots=True)
class Booking:
    """*size* bytes of host memory, promised to one kernel until they are given back."""

    kernel_id: str
    size: int


class _Line(msgspec.Struct, frozen=True):
    """What others read. *landed*: the memory is taken already, so the host's own figures count it."""

    size: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    landed: bool = False


class HostMemory:
    """The bookings of this server, and the sum of all servers'. Blocking; any thread may call.

    Args:
        directory: the same for every server of the host (`device_token.shared_directory`).
        budget: bytes for everything parked on this host.
        margin: bytes that the host and every control group keep beyond a booking.
        available: what the host has left, None when unknown.
        headroom: what a process may still take, None without a limit.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        budget: int,
        *,
        margin: int = _MARGIN,
        available: Callable[[], int | None] = memory_available,
        headroom: Callable[[int], int | None] = cgroup_headroom,
    ) -> None:
        self.budget = budget
        self._directory = Path(directory)
        self._margin = margin
        self._available = available
        self._headroom = headroom
        self._name = f"{_PREFIX}{uuid.uuid4().hex}.json"
        self._file: int | None = None
        self._own: dict[str, _Line] = {}
        self._threads = threading.Lock()

    def book(self, kernel_id: str, size: int, processes: Iterable[Identity] = ()) -> Booking | Message:
        """Promise *size* bytes to *kernel_id*, in place of what it had; or say why not.

        Args:
            kernel_id: whose GPU memory is to move.
            size: bytes.
            processes: where the copies land; each one's limits must hold all of it.
        """
        with self._alone():
            others = self._others()
            own = {name: line for name, line in self._own.items() if name != kernel_id}
            refusal = self._refusal(size, processes, others, list(own.values()))
            if refusal is not None:
                return refusal
            self._write({**own, kernel_id: _Line(size)})
        return Booking(kernel_id, size)

    def landed(self, kernel_id: str) -> None:
        """The promised memory of *kernel_id* is in use now, and shows in the host's own figures."""
        with self._alone():
            if (line := self._own.get(kernel_id)) is not None:
                self._write({**self._own, kernel_id: _Line(line.size, landed=True)})

    def give_back(self, kernel_id: str) -> None:
        """*kernel_id* needs its host memory no more."""
        with self._alone():
            if kernel_id in self._own:
                self._write({name: line for name, line in self._own.items() if name != kernel_id})

    def booked(self) -> int:
        """Bytes promised on this host now, by all living servers."""
        with self._alone():
            return sum(line.size for line in [*self._others(), *self._own.values()])

    def close(self) -> None:
        """Give everything back."""
        with self._alone():
            file, self._file, self._own = self._file, None, {}
            if file is not None:
                (self._directory / self._name).unlink(missing_ok=True)
                os.close(file)

    def _refusal(
        self, size: int, processes: Iterable[Identity], others: list[_Line], own: list[_Line]
    ) -> Message | None:
        left = self.budget - sum(line.size for line in [*others, *own])
        if size > left:
            return trouble.budget_short(size, max(0, left), self.budget)
        coming_own = sum(line.size for line in own if not line.landed)
        coming = coming_own + sum(line.size for line in others if not line.landed)
        available = self._available()
        if available is not None and size + self._margin > available - coming:
            return trouble.host_short(size + self._margin, max(0, available - coming))
        # Kernels of one server are mostly in one group; those of others need not be in ours.
        rooms = [room - coming_own for process in processes if (room := self._headroom(process.pid)) is not None]
        if rooms and size + self._margin > min(rooms):
            return trouble.cgroup_short(size + self._margin, max(0, min(rooms)))
        return None

    def _write(self, lines: dict[str, _Line]) -> None:
        if self._file is None:
            self._file = self._create()
        body = msgspec.json.encode(lines)
        os.pwrite(self._file, body, 0)
        os.ftruncate(self._file, len(body))
        self._own = lines

    def _create(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._directory / self._name, flags, 0o644)
        os.fchmod(file, 0o644)  # open(2) took the umask off, and other users' servers must read it
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def _others(self) -> list[_Line]:
        """What every other living server has booked."""
        found: list[_Line] = []
        for path in self._directory.glob(f"{_PREFIX}*.json"):
            if path.name != self._name:
                found += _read(path)
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other server, and no other thread, adds up or books meanwhile."""
        with self._threads:
            file = open_shared(self._directory, "host-memory.lock")
            try:
                _lock(file)
                yield
            finally:
                os.close(file)


def _lock(file: int) -> None:
    deadline = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Held for microseconds, unless its holder was stopped or means harm.
            if time.monotonic() > deadline:
                raise TimeoutError("the host's memory bookings are locked by another process for too long") from None
            time.sleep(0.005)
        else:
            return


_lines: Final = msgspec.json.Decoder(dict[str, _Line])


def _read(path: Path) -> list[_Line]:
    """One server's bookings; none when it is dead, and then the file is removed if we may."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return []
        if _is_abandoned(file):
            with suppress(OSError):  # another user's, in a directory where only the owner may remove it
                path.unlink()
            return []
        return list(_lines.decode(os.read(file, _LONGEST_FILE)).values())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return []  # somebody else's nonsense: what the host itself has left still protects us
    finally:
        os.close(file)


def _is_abandoned(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
