"""Layer C: the gate on clients that code inside this server makes with ``kernel_manager.client()``.

Such a client sends through its message session, whatever kind of channel it uses. Only what is sent from the server's
own thread is held here, since a socket belongs to its thread; the rest is held inside the kernel.
"""

from __future__ import annotations

import threading
import uuid
from types import new_class
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from jupyter_client.session import DONE

from jupyter_gpushare.session.gate.message import Request, readable
from jupyter_gpushare.session.gate.treatment import Treatment

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.session.gate.gate import Gate

__all__ = ["ABORTED_MARK", "gated_factory"]

#: In the metadata of a cell that must not run: the part in the kernel answers that it was aborted.
ABORTED_MARK: Final = "gpushare_aborted"
_NOTHING: Final = {"code": "", "silent": True, "store_history": False, "user_expressions": {}, "allow_stdin": False}
_OWN_REQUESTS: Final = "gpushare_"
_CHANNELS: Final = ("shell", "control", "stdin")


def gated_factory(factory: type[Any], gate: Gate) -> type[Any]:
    """*factory*, a kernel client class, with the gate before what its clients send."""

    def initialise(client: Any, *args: Any, **kwargs: Any) -> None:
        factory.__init__(client, *args, **kwargs)
        _separate(client)
        _guard(client, gate)

    made: type[Any] = new_class(
        f"Gated{factory.__name__}", (factory,), {}, lambda body: body.update(__init__=initialise)
    )
    return made


def _separate(client: Any) -> None:
    """Give *client*'s message session a name of its own, unless its maker chose another session.

    Jupyter names those of all clients of one kernel alike, and so their routing ids. A kernel hears only the newest
    connection of a routing id (ipykernel sets ZMQ_ROUTER_HANDOVER): two clients would cut each other off for ever, and
    what is delivered when the gate opens would be lost.
    """
    manager_session = getattr(client.parent, "session", None)
    if manager_session is not None and client.session.session == manager_session.session:
        client.session = client.session.clone()
        client.session.session = uuid.uuid4().hex


def _guard(client: Any, gate: Gate) -> None:
    """Have *client* send through the gate. Clients may share a session."""
    sender = getattr(client.session.send, "__self__", None)
    if not isinstance(sender, _ClientSender):
        sender = _ClientSender(client.session, gate)
        client.session.send, client.session.send_raw = sender.send, sender.send_raw
    sender.clients.add(client)


class _ClientSender:
    """Sends what the clients of one session send, or has the gate hold it."""

    def __init__(self, session: Any, gate: Gate) -> None:
        self.clients: WeakSet[Any] = WeakSet()
        self._session = session
        self._gate = gate
        self._send, self._send_raw = session.send, session.send_raw
        self._thread = threading.get_ident()

    def send(self, stream: Any, msg_or_type: Any, *args: Any, **kwargs: Any) -> Any:
        """`jupyter_client.session.Session.send`."""
        channel = self._closed_channel(stream)
        if channel is None:
            return self._send(stream, msg_or_type, *args, **kwargs)
        names = ("content", "parent", "ident", "buffers", "track", "header", "metadata")
        options: dict[str, Any] = dict(zip(names, args, strict=False)) | kwargs
        message, route = self._message(msg_or_type, options)

        def send(to: Any) -> Any:
            return self._send(to, message, **route)

        if not self._holds(channel, stream, message, send):
            return send(stream)
        message["tracker"] = DONE
        return message

    def send_raw(self, stream: Any, msg_list: list[Any], *args: Any, **kwargs: Any) -> None:
        """`jupyter_client.session.Session.send_raw`."""
        channel = self._closed_channel(stream)
        message = {} if channel is None else self._unpacked(msg_list)

        def send(to: Any) -> None:
            self._send_raw(to, msg_list, *args, **kwargs)

        if channel is None or not self._holds(channel, stream, message, send):
            send(stream)

    def deliver(self, request: Request, connect: Callable[[str], Any]) -> None:
        """Send a held message on."""
        stream, send = request.original
        send(connect(request.channel) if stream.closed else stream)

    def abort(self, request: Request) -> None:
        """Have the kernel answer in place of the cell: a client's socket hears nobody else."""
        stream, _ = request.original
        if not stream.closed:
            message = {"header": request.header, "parent_header": {}, "metadata": {ABORTED_MARK: True}}
            self._send(stream, message | {"content": _NOTHING})

    def _closed_channel(self, stream: Any) -> str | None:
        """The channel of *stream* if the gate before it is closed."""
        if self._gate.is_open or threading.get_ident() != self._thread:
            return None
        for client in list(self.clients):
            for channel in _CHANNELS:
                if getattr(getattr(client, f"_{channel}_channel", None), "socket", None) is stream:
                    return channel
        return None

    def _message(self, msg_or_type: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The message, and how it is to be sent."""
        route: dict[str, Any] = {name: options.pop(name) for name in ("ident", "buffers", "track") if name in options}
        if not isinstance(msg_or_type, str):
            return msg_or_type, route
        return self._session.msg(msg_or_type, **options), route

    def _unpacked(self, parts: list[Any]) -> dict[str, Any]:
        return {"header": self._session.unpack(parts[0]), "content": self._session.unpack(parts[3])}

    def _holds(self, channel: str, stream: Any, message: Any, send: Callable[[Any], Any]) -> bool:
        header, content = readable(message["header"]), readable(message["content"])
        request = Request(channel, header, content, self, (stream, send))
        treatment = self._gate.treatment(request)
        # Our own questions are asked between closing the gate and parking.
        if treatment is Treatment.PASS or (channel == "control" and request.kind.startswith(_OWN_REQUESTS)):
            return False
        # What a page is answered empty a client waits for: nobody can write into its socket.
        self._gate.hold(request, wakes=treatment is Treatment.WAKE)
        return True
