"""Learns from a kernel's IOPub messages which comms are those of our own widget, whose traffic wakes nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.session.gate.message import readable

if TYPE_CHECKING:
    import logging

    from jupyter_gpushare.session.gate.gate import Gate

__all__ = ["QuietComms"]

_OWN_WIDGETS = "jupyter_gpushare."
_MOST_SEEN = 4096


class QuietComms:
    """Looks at the stream that Jupyter Server reads anyway, and tells *gate*."""

    def __init__(self, gate: Gate, manager: Any, log: logging.Logger) -> None:
        self._gate = gate
        self._manager = manager
        self._session = manager.session.clone()
        self._log = log

    def follow(self) -> None:
        """Begin. To be done again for each new stream."""
        stream = getattr(self._manager, "_activity_stream", None)
        track = getattr(stream, "_recv_callback", None)
        if stream is None or track is None:
            return

        # A comm is opened by its first message; the rest of a lively widget's traffic costs a look at a set.
        seen: set[bytes] = set()

        def receive(frames: list[Any]) -> None:
            track(frames)
            topic = bytes(frames[0])
            if topic.startswith(b"comm-") and topic not in seen and len(seen) < _MOST_SEEN:
                seen.add(topic)
                self._look(frames)

        stream.on_recv(receive)

    def _look(self, frames: list[Any]) -> None:
        try:
            _, parts = self._session.feed_identities(frames, copy=True)
            message = self._session.deserialize(parts)
            content = readable(message["content"])
            opens = message["header"]["msg_type"] == "comm_open"
        except Exception:  # noqa: BLE001  # whatever a kernel sends must not stall Jupyter's own tracking
            self._log.debug("A message of kernel %s could not be read", self._gate.kernel_id, exc_info=True)
            return
        state = readable(readable(content.get("data")).get("state"))
        if opens and str(state.get("_anywidget_id", "")).startswith(_OWN_WIDGETS):
            self._gate.hush(str(content.get("comm_id")))
