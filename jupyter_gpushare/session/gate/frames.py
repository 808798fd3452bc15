"""Messages as a kernel WebSocket carries them: the binary protocol v1, or JSON (the legacy one)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from jupyter_client.jsonutil import json_default
from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)

from jupyter_gpushare.session.gate.message import readable

__all__ = ["V1", "Incoming", "parse", "serialize"]

#: The WebSocket subprotocol of `jupyter_server.services.kernels.websocket`.
V1: Final = "v1.kernel.websocket.jupyter.org"
_PARTS: Final = ("header", "parent_header", "metadata", "content")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message from a browser: frames in protocol v1, else a whole message."""

    channel: str
    body: list[bytes] | dict[str, Any]

    def part(self, name: str, session: Any) -> dict[str, Any]:
        """The header or the content, empty where the message has none that can be read."""
        if isinstance(self.body, dict):
            return readable(self.body.get(name))
        try:
            return readable(session.unpack(self.body[_PARTS.index(name)]))
        except Exception:  # noqa: BLE001  # whatever the packer raises on what a browser sent
            return {}

    def send(self, session: Any, stream: Any) -> None:
        """Send it to the kernel."""
        if isinstance(self.body, dict):
            session.send(stream, self.body)
        else:
            session.send_raw(stream, self.body)


def parse(incoming: Any, protocol: str | None) -> Incoming:
    """Read what came over a WebSocket of that subprotocol.

    Raises:
        Exception: whatever jupyter_server raises on the same bytes.
    """
    if protocol == V1:
        return Incoming(*deserialize_msg_from_ws_v1(incoming))  # type: ignore[no-untyped-call]
    read: Any = deserialize_binary_message if isinstance(incoming, bytes) else json.loads
    message = read(incoming)
    return Incoming(message.pop("channel", None) or "shell", message)


def serialize(message: dict[str, Any], channel: str, session: Any, protocol: str | None) -> bytes | str:
    """A message of *session* as a kernel would have sent it."""
    if protocol == V1:
        return bytes(serialize_msg_to_ws_v1(message, channel, session.pack))  # type: ignore[no-untyped-call]
    return json.dumps(message | {"channel": channel}, default=json_default)
