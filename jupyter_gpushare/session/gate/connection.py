"""Layer A: the gate on every kernel WebSocket of the server, whatever class another extension put there."""

from __future__ import annotations

import asyncio
from types import new_class
from typing import TYPE_CHECKING, Any, ClassVar

from tornado.websocket import WebSocketClosedError

from jupyter_gpushare.session.gate.answers import ABORTED, INTERRUPTED, empty_answer, reply_type
from jupyter_gpushare.session.gate.frames import Incoming, parse, serialize
from jupyter_gpushare.session.gate.message import Request
from jupyter_gpushare.session.gate.treatment import Treatment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.session.gate.gate import Gate

__all__ = ["GatedConnection", "gated"]

#: A page shows no state before it has heard one after the kernel's info (JupyterLab 4.6).
_SAY_STATE_AFTER_S = 0.2


class GatedConnection:
    """Goes before a kernel WebSocket connection class. Where there is no gate everything is as without it."""

    #: Gives the gate of a kernel, None for one that cannot have any. Set in the class made for one server.
    gate_of: ClassVar[Callable[[str], Gate | None]]

    # What the class behind this one has.
    channels: dict[str, Any]
    kernel_id: str
    kernel_manager: Any
    log: Any
    multi_kernel_manager: Any
    session: Any
    session_key: str
    websocket_handler: Any

    _gate: Gate | None = None
    _protocol: str | None = None
    _has_left = False

    def connect(self) -> Any:
        """Connect, and from now on send small messages to the browser at once."""
        if self.websocket_handler.ws_connection is not None:
            self.websocket_handler.set_nodelay(True)
            self._protocol = getattr(self, "subprotocol", None)  # a gateway's connection has none
        gate = self._find_gate()
        if gate is not None:
            gate.pages.add(self)
        return super().connect()  # type: ignore[misc]

    def disconnect(self) -> Any:
        """Disconnect. What is held stays held: nothing is lost."""
        self._has_left = True
        if self._gate is not None:
            self._gate.pages.discard(self)
        return super().disconnect()  # type: ignore[misc]

    def handle_incoming_message(self, incoming_msg: Any) -> None:
        """Take a message from the browser."""
        gate = self._gate
        if gate is None or gate.is_open or not self._take(gate, incoming_msg):
            super().handle_incoming_message(incoming_msg)  # type: ignore[misc]

    def request_kernel_info(self) -> Any:
        """Ask the kernel what it is, or say it in its stead when it is frozen."""
        gate = self._find_gate()
        if gate is None or not gate.is_frozen or hasattr(self.kernel_manager, "_kernel_info_future"):
            return super().request_kernel_info()  # type: ignore[misc]
        self._finish_kernel_info(gate.kernel_info)  # type: ignore[attr-defined]
        return asyncio.wrap_future(self._kernel_info_future)  # type: ignore[attr-defined]

    def nudge(self) -> Any:
        """Wait until the kernel answers. One that is frozen does not, and its page opens all the same."""
        if self._gate is None or not self._gate.is_frozen:
            return super().nudge()  # type: ignore[misc]
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ready.set_result(None)
        return ready

    def deliver(self, request: Request, connect: Callable[[str], Any]) -> None:
        """Send a held message on, through what is left of this connection."""
        raw, incoming, stream = request.original
        if not self._has_left:
            super().handle_incoming_message(raw)  # type: ignore[misc]
        elif (page := self._same_page()) is not None:
            incoming.send(page.session, page.channels[request.channel])
        elif stream.closed():
            incoming.send(self.session, connect(request.channel))
        else:  # the server keeps it for the page's return, with the replies
            incoming.send(self.session, stream)

    def abort(self, request: Request) -> None:
        """Answer a held cell, wherever its page is now."""
        page = self._same_page()
        if page is not None:
            page.reply(request, ABORTED)

    def say_state(self, state: str, parent: Mapping[str, Any]) -> None:
        """Show ``busy`` or ``idle``."""
        self._write("iopub", "status", {"execution_state": state}, parent)

    def say_text(self, text: str, parent: Mapping[str, Any]) -> None:
        """Show *text* below the cell whose request had that header, as if it had written that to its error stream."""
        self._write("iopub", "stream", {"name": "stderr", "text": text}, parent)

    def reply(self, request: Request, content: Mapping[str, Any]) -> None:
        """Answer *request* as the kernel would."""
        self.say_state("busy", request.header)
        self._write(request.channel, reply_type(request.kind), content, request.header)
        self.say_state("idle", request.header)

    def _find_gate(self) -> Gate | None:
        if self._gate is None:
            self._gate = type(self).gate_of(self.kernel_id)
        return self._gate

    def _same_page(self) -> GatedConnection | None:
        """This connection, or the one by which its page has come back; None while the page is away."""
        pages = self._gate.pages if self._gate is not None else ()
        mine = (page for page in pages if isinstance(page, GatedConnection) and page.session_key == self.session_key)
        return next(mine, None)

    def _take(self, gate: Gate, raw: Any) -> bool:
        """Do what the closed gate does with a message; False when it is to pass."""
        request = self._read(raw)
        if request is None:
            return False
        if request.kind == "interrupt_request":
            gate.abort()
            if gate.is_settled:
                # Nothing runs, and ipykernel would signal its children too: their way out may touch a GPU that is away.
                self.reply(request, INTERRUPTED)
                return True
        treatment = gate.treatment(request)
        if treatment is Treatment.ANSWER:
            self._answer(gate, request)
        elif treatment is not Treatment.PASS:
            gate.hold(request, wakes=treatment is Treatment.WAKE)
        if request.kind == "kernel_info_request":
            asyncio.get_running_loop().call_later(_SAY_STATE_AFTER_S, self._say_held, request)
        return treatment is not Treatment.PASS

    def _read(self, raw: Any) -> Request | None:
        """The message, None for one that the class behind this one will send nowhere."""
        if not self.channels:
            return None
        incoming: Incoming = parse(raw, self._protocol)
        header, stream = incoming.part("header", self.session), self.channels.get(incoming.channel)
        allowed = self.multi_kernel_manager.allowed_message_types
        if stream is None or (allowed and header.get("msg_type") not in allowed):
            return None
        content = incoming.part("content", self.session)
        return Request(incoming.channel, header, content, self, (raw, incoming, stream))

    def _answer(self, gate: Gate, request: Request) -> None:
        if request.kind == "kernel_info_request":
            self.reply(request, gate.kernel_info)
        else:
            self.reply(request, empty_answer(request.kind, request.content))
        gate.remind(self)

    def _say_held(self, request: Request) -> None:
        if self._gate is not None and not self._gate.is_open:
            self.say_state("idle", request.header)
            self._gate.remind(self)

    def _write(self, channel: str, kind: str, content: Mapping[str, Any], parent: Mapping[str, Any]) -> None:
        message = self.session.msg(kind, content, parent={"header": parent})
        frame = serialize(message, channel, self.session, self._protocol)
        try:
            self.websocket_handler.write_message(frame, binary=isinstance(frame, bytes))
        except WebSocketClosedError:
            self.log.debug("Nobody is left to hear the %s", kind)


def gated(connection_class: type[Any], gate_of: Callable[[str], Gate | None]) -> type[Any]:
    """*connection_class* with the gate before it; one that has this server's gate already stays as it is."""
    if issubclass(connection_class, GatedConnection) and connection_class.gate_of == gate_of:
        return connection_class
    name = f"Gated{connection_class.__name__}"
    bases = (GatedConnection, connection_class)
    made: type[Any] = new_class(name, bases, {}, lambda body: body.update(gate_of=staticmethod(gate_of)))
    return made
