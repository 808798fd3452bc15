"""The part of the simulated driver that lives in each program, and carries out what controllers ask of it.

A stopped program does not answer, as with CUDA: whoever asks waits until it is continued.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from jupyter_gpushare.devices.simulated.driver_wire import Answer, Request, peer_of, receive, send

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["THREAD_NAME", "DriverThread"]

THREAD_NAME: Final = "gpushare-simulated-driver"

_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.05
_BACKLOG: Final = 64


class DriverThread:
    """Listens at *address* and answers one request after the other with *carry_out*, in a thread of its own."""

    def __init__(self, address: bytes, carry_out: Callable[[Request], Answer]) -> None:
        self._carry_out = carry_out
        self._is_stopping = False
        self._talking: socket.socket | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(address)
            self._listener.listen(_BACKLOG)
        except BaseException:
            self._listener.close()
            raise
        _running.add(self)
        self._thread = threading.Thread(target=self._serve, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more. A request that is carried out now is answered."""
        self._is_stopping = True
        self._listener.shutdown(socket.SHUT_RDWR)
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._listener.close()

    def close_in_child(self) -> None:
        """In a forked child: let go of the sockets, or their other ends would not see this process's parent end."""
        self._listener.close()
        if self._talking is not None:
            self._talking.close()

    def _serve(self) -> None:
        while not self._is_stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # Stopped, or out of file descriptors for the moment.
                time.sleep(0 if self._is_stopping else _PAUSE_S)
                continue
            with connection, suppress(OSError):  # Whoever asked may be gone by now.
                self._talking = connection
                connection.settimeout(_PATIENCE_S)
                send(connection, self._answer(connection))
            self._talking = None

    def _answer(self, connection: socket.socket) -> Answer:
        if peer_of(connection).uid != os.getuid():
            return Answer("not_permitted", "this process belongs to another user: ask as its owner")
        try:
            request = msgspec.json.decode(receive(connection), type=Request)
        except (msgspec.DecodeError, ValueError) as trouble:
            return Answer("unknown", f"this is no request to a simulated driver: {trouble}")
        try:
            return self._carry_out(request)
        except Exception as trouble:  # noqa: BLE001  # whatever it is, who asked must hear of it and the next be served
            return Answer("unknown", f"{type(trouble).__name__}: {trouble}", "failed")


_running: weakref.WeakSet[DriverThread] = weakref.WeakSet()


def _close_inherited() -> None:
    for one in list(_running):
        one.close_in_child()
    _running.clear()


os.register_at_fork(after_in_child=_close_inherited)
