"""The one WebSocket: a frame at once, then one whenever something changed, about one a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_gpushare.session.errors import PublicError
from jupyter_gpushare.session.principal import KernelTokenMixin, permitted
from jupyter_gpushare.session.snapshot import view_of

if TYPE_CHECKING:
    from asyncio import Future

    from jupyter_gpushare.session.session import Session
    from jupyter_gpushare.session.wire import Snapshot

__all__ = ["ROUTE", "Frame", "StreamHandler"]


class Frame:
    """One snapshot on its way to all watchers, encoded once for users and once for each kernel that watches."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._encoded: dict[str | None, bytes | None] = {}

    def for_watcher(self, kernel_id: str | None) -> bytes | None:
        """The bytes for a user (None) or for one kernel; None for a kernel that is not there."""
        if kernel_id not in self._encoded:
            body = self._snapshot if kernel_id is None else view_of(self._snapshot, kernel_id)
            self._encoded[kernel_id] = None if body is None else msgspec.json.encode(body)
        return self._encoded[kernel_id]


class StreamHandler(KernelTokenMixin, ExtensionHandlerMixin, WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One watcher. It says nothing; what it sends is ignored."""

    speaking_kernel: str | None = None
    _watching = False
    _written: Future[None] | None = None
    _newest: Frame | None = None

    @property
    def gpushare(self) -> Session:
        """This server's session."""
        session: Session = self.extensionapp.session  # type: ignore[attr-defined]
        return session

    @permitted("read", kernels="own")
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the WebSocket for somebody who may read."""
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Begin to watch."""
        super().open(*args, **kwargs)
        self.set_nodelay(True)
        self._watching = True
        self.gpushare.watch(self)

    def on_message(self, message: str | bytes) -> None:
        """Nothing is expected from a watcher."""

    def on_close(self) -> None:
        """Watch no more."""
        super().on_close()
        if self._watching:
            self._watching = False
            self.gpushare.unwatch(self)

    def show(self, frame: Frame) -> None:
        """Send *frame*; a watcher that has gone without a word is forgotten."""
        body = frame.for_watcher(self.speaking_kernel)
        if body is None:
            return
        if self._written is not None and not self._written.done():
            self._newest = frame  # it reads slowly: what came before this one is out of date by the time it does
            return
        try:
            self._written = self.write_message(body)
        except WebSocketClosedError:
            self.on_close()
        else:
            self._written.add_done_callback(self._go_on)

    def _go_on(self, written: Future[None]) -> None:
        """Send what came meanwhile. A write that failed means that the watcher is gone, which `on_close` sees to."""
        newest, self._newest = self._newest, None
        if not written.cancelled() and written.exception() is None and newest is not None and self._watching:
            self.show(newest)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Give a public error its own status; there is no body to show it in."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        super().send_error(error.status if isinstance(error, PublicError) else status_code, **kwargs)

    def write_error(self, status_code: int, **kwargs: Any) -> None:  # noqa: ARG002  # tornado's signature
        """A refused WebSocket has no page."""
        self.finish()

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """An error for people is no fault: no traceback in the log."""
        if not isinstance(value, PublicError):
            super().log_exception(typ, value, tb)


ROUTE = (r"/gpushare/api/v1/stream", StreamHandler)
