"""What the closed gate answers in a kernel's stead (Jupyter messaging protocol 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ABORTED", "INTERRUPTED", "empty_answer", "reply_type"]

ABORTED = {"status": "aborted"}
INTERRUPTED = {"status": "ok"}


def reply_type(kind: str) -> str:
    """The type of the reply to a request of type *kind*."""
    return kind.removesuffix("_request") + "_reply"


def empty_answer(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a reply that knows nothing: no completion, no help, no opinion on the code."""
    if kind == "debug_request":
        said = "The kernel waits until a cell is run."
        request = {"request_seq": content.get("seq"), "command": content.get("command")}
        return {"type": "response", "success": False, "message": said, **request}
    if kind == "is_complete_request":
        return {"status": "unknown"}
    if kind == "inspect_request":
        return {"status": "ok", "found": False, "data": {}, "metadata": {}}
    cursor = content.get("cursor_pos")
    cursor = cursor if isinstance(cursor, int) else 0
    return {"status": "ok", "matches": [], "cursor_start": cursor, "cursor_end": cursor, "metadata": {}}
