"""Tells the server, after a cell, what the GPU frameworks here hold, for as long as the server wants it.

Where the driver cannot say which process holds what (pods, MIG), this is how a notebook's row gets its
figure. A thread does it, so that no cell is ever delayed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.notebook.address import Address, ServerError
from jupyter_gpushare.notebook.cache import held_bytes
from jupyter_gpushare.notebook.frameworks import imported_frameworks

if TYPE_CHECKING:
    from jupyter_gpushare.notebook.server import Server

__all__ = ["Reporter"]


class Reporter:
    """Reports after cells, at most once in *interval_s*, and only once a GPU framework is imported.

    Args:
        address: where to.
        interval_s: the shortest time between two reports.

    Attributes:
        problem: the last thing that went wrong, for `%gpushare status`; empty when nothing did.
    """

    def __init__(self, address: Address, *, interval_s: float = 1.0) -> None:
        self.problem = ""
        self._address = address
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._due = False
        self._running = False
        self._stopped = threading.Event()

    def cell_ended(self, *_: Any) -> None:
        """A cell has ended: report soon. Returns at once and raises nothing."""
        if self._stopped.is_set() or not imported_frameworks():
            return
        with self._lock:
            self._due = True
            if self._running:
                return
            self._running = True
        try:
            threading.Thread(target=self._run, name="gpushare-report", daemon=True).start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            self._running = False
            self.problem = f"This notebook's use could not be reported: {error}"

    def stop(self) -> None:
        """Report no more."""
        self._stopped.set()

    def _run(self) -> None:
        while self._next():
            self._report()
            self._stopped.wait(self._interval_s)

    def _next(self) -> bool:
        with self._lock:
            self._running = self._due and not self._stopped.is_set()
            self._due = False
            return self._running

    def _report(self) -> None:
        try:
            held = held_bytes()
            if held is not None and not self._server().report(held):
                self.stop()
            self.problem = ""
        except ServerError as error:
            self.problem = f"This notebook's use could not be reported: {error}"
            if error.code == "TOKEN_REFUSED":
                self.stop()
        except Exception as error:  # noqa: BLE001  # a framework may raise anything; it is shown, not thrown
            self.problem = f"This notebook's use could not be read: {type(error).__name__}: {error}"

    def _server(self) -> Server:
        # Late, so that a kernel without a GPU framework starts as fast as before.
        from jupyter_gpushare.notebook.server import Server

        return Server(self._address)
