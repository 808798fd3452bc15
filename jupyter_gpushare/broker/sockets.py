"""The two WebSockets: holders, who hold leases, and watchers, who look on."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.conversation import Conversation, GoneError
from jupyter_gpushare.broker.handlers import API, BrokerHandler
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.public_error import PublicError, message_model
from jupyter_gpushare.broker.reconciler import StoppedError
from jupyter_gpushare.broker.showing import message_about, sees, show
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.reconciler import Published

__all__ = ["ROUTES", "HolderHandler", "StreamHandler"]

_LOG: Final = logging.getLogger(__name__)
_STUCK_S: Final = 30.0
_GOING_AWAY: Final = 1001
_POLICY: Final = 1008
_SLOWEST_READER: Final = 1000
_encode = msgspec.json.Encoder().encode


class SocketHandler(BrokerHandler, WebSocketHandler):
    """A WebSocket that never waits for a slow reader."""

    def initialize(self, broker: Any) -> None:
        """The broker that is asked."""
        super().initialize(broker)
        self._written: asyncio.Future[None] | None = None
        self._since = 0.0
        self._queue: list[bytes] = []
        self._ending: tuple[int, str] | None = None

    async def prepare(self) -> None:
        """As of every route; and over a network nobody may keep too many of them."""
        await super().prepare()
        self.broker.bounds.check_token(self.request, self.person)

    def is_stuck(self) -> bool:
        """Whether the other side has not read for long. Asked of thousands at once: mostly nothing is on its way."""
        return self._written is not None and time.monotonic() - self._since > _STUCK_S

    def send(self, body: bytes) -> None:
        """Send *body*, after what is still on its way."""
        if self._written is not None:
            self._queue.append(body)
            return
        try:
            written = asyncio.ensure_future(self.write_message(body.decode()))
        except WebSocketClosedError:
            return  # `on_close` sees to it
        self._since = time.monotonic()
        self._written = written
        written.add_done_callback(self._go_on)

    def end(self, reason: str = "", code: int = _GOING_AWAY) -> None:
        """Close, after what is still on its way; at once if the other side does not read."""
        if self._written is not None and not self.is_stuck():
            self._ending = (code, reason)
        else:
            self.close(code, reason[:120])

    def _go_on(self, written: asyncio.Future[None]) -> None:
        """Send what came meanwhile. A write that failed means that the other side is gone, which `on_close` sees to."""
        self._written = None
        if written.cancelled() or written.exception() is not None:
            return
        if self._queue:
            self.send(self._queue.pop(0))
        elif self._ending is not None:
            self.close(*self._ending)

    def on_message(self, message: str | bytes) -> Any:
        """Nothing is expected."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Before it is a WebSocket it is refused as any request."""
        BrokerHandler.write_error(self, status_code, **kwargs)


class HolderHandler(SocketHandler):
    """One holder."""

    route = "holder"

    def initialize(self, broker: Any) -> None:
        """The broker that is asked."""
        super().initialize(broker)
        self._talk: Conversation | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._newest: wire.ToHolder | None = None

    def open(self) -> None:
        """Wait for its hello, and not for ever."""
        self.set_nodelay(True)
        self._talk = Conversation(self.broker.desk, self.person, self)
        self._patience = asyncio.get_running_loop().call_later(self.broker.settings.hello_s, self._give_up)

    async def on_message(self, message: str | bytes) -> None:
        """Take one message; the next one is not read before that is done."""
        if self._talk is None:
            return
        if self._patience is not None:
            # How long the answer takes is the broker's own affair.
            self._patience.cancel()
        try:
            await self._talk.hear(message)
        except PublicError as error:
            self.push(wire.RefusedMessage(message_model(error.message), is_final=True))
            self.end("refused", _POLICY)
        except (GoneError, LedgerError, StoppedError):
            self.end("come again")
        except Exception:  # noqa: BLE001  # logged; it must go on
            _LOG.exception("A holder's message could not be taken; its connection is closed")
            self.end("an error of the broker's")

    def on_close(self) -> None:
        """It is gone; perhaps it comes back."""
        if self._patience is not None:
            self._patience.cancel()
        if self._talk is not None:
            self._talk.over()

    def push(self, message: wire.ToHolder) -> None:
        """Send *message*. Of leases that are still to be sent only the newest is."""
        body = _encode(message)
        if isinstance(message, wire.LeaseMessage) and self._queue and isinstance(self._newest, wire.LeaseMessage):
            self._queue[-1] = body
        else:
            self.send(body)
        self._newest = message

    def _give_up(self) -> None:
        text = Message("NO_HELLO", "No hello came in time; connect again.")
        self.push(wire.RefusedMessage(message_model(text), is_final=False))
        self.end("no hello", _POLICY)


class StreamHandler(SocketHandler):
    """One watcher: the whole state first, then every lease that it may see whenever that changes."""

    route = "stream"

    def initialize(self, broker: Any) -> None:
        """The broker that is asked."""
        super().initialize(broker)
        self._unsubscribe: Callable[[], None] = lambda: None
        self._until_shown: list[bytes] | None = []

    async def open(self) -> None:
        """Show everything, and go on with what changes from this moment on."""
        self.set_nodelay(True)
        view = self.broker.view()
        self._unsubscribe = self.broker.reconciler.subscribe(self._published)
        leases = await show(self.person, view, tuple(view.books.leases.values()))
        self.send(_encode(wire.StateMessage(self.broker.model(), leases, view.devices())))
        changed, self._until_shown = self._until_shown or [], None
        for body in changed:
            self.send(body)

    def on_close(self) -> None:
        """Watch no more."""
        self._unsubscribe()
        self._unsubscribe = lambda: None

    def _published(self, published: Published) -> None:
        if self.is_stuck() or len(self._queue) > _SLOWEST_READER:
            self._unsubscribe()
            self.close(_POLICY, "too slow: connect again for the whole state")
            return
        view = self.broker.view()
        for lease in published.change.leases.values():
            if sees(self.caller, view, lease):
                body = message_about(lease, self.person, view)
                self.send(body) if self._until_shown is None else self._until_shown.append(body)


ROUTES = [(rf"{API}/holder", HolderHandler), (rf"{API}/stream", StreamHandler)]
