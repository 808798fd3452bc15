"""Asking the part of ours inside a kernel: to free cached GPU memory, and what goes on in there.

The requests go over the control channel, so that they neither queue behind a running cell nor count as an
execution, and they leave no trace in the user's namespace.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, NamedTuple

from jupyter_gpushare.session.untrusted import sendable

__all__ = ["FreeAnswer", "request_free_cache", "request_probe"]


class FreeAnswer(NamedTuple):
    """What a kernel says after it was asked to free its caches; untrusted.

    Attributes:
        troubles: what went wrong, a short text per framework; empty when all went well.
        held: bytes that its frameworks still hold by their own count, which no driver delays.
    """

    troubles: list[str]
    held: int


async def request_free_cache(kernel_manager: Any, *, collect: bool, timeout_s: float, closing: str = "") -> FreeAnswer:
    """Have the kernel free its frameworks' caches.

    Args:
        kernel_manager: the kernel's manager.
        collect: run Python's garbage collector first; only for an idle kernel, since finalizers run user code.
        timeout_s: how long to wait for the answer.
        closing: the closing of the kernel's gate for which it is asked, empty while that is open. A kernel whose gate
            is in another state by then refuses: a request that comes late must not touch a GPU that is away.

    Raises:
        TimeoutError: the kernel did not answer.
    """
    request = {"collect": collect, "closing": closing}
    content = await _ask(kernel_manager, "gpushare_free_request", request, timeout_s)
    return FreeAnswer(_troubles(content), _held(content))


async def request_probe(kernel_manager: Any, *, since: float | None, timeout_s: float) -> object:
    """What goes on in the kernel without any message: its own, untrusted answer.

    Args:
        kernel_manager: the kernel's manager.
        since: a moment of the kernel's monotonic clock from which on it is asked, None for all that it knows.
        timeout_s: how long to wait for the answer.

    Raises:
        TimeoutError: the kernel did not answer.
    """
    return await _ask(kernel_manager, "gpushare_probe_request", {"since": since}, timeout_s)


async def _ask(kernel_manager: Any, kind: str, content: dict[str, Any], timeout_s: float) -> object:
    # Clients of one manager have one routing id, and a kernel answers only the newest of them: two questions at once,
    # or another extension's client, would lose an answer.
    session = kernel_manager.session.clone()
    session.session = uuid.uuid4().hex
    client = kernel_manager.client(session=session)
    client.control_channel.start()
    try:
        request = client.session.msg(kind, content)
        client.control_channel.send(request)
        reply = await asyncio.wait_for(_answer(client, request["header"]["msg_id"]), timeout_s)
    finally:
        client.control_channel.stop()
        client.stop_channels()
    return reply.get("content")


async def _answer(client: Any, msg_id: str) -> dict[str, Any]:
    while True:
        reply: dict[str, Any] = await client.control_channel.get_msg(timeout=None)
        if reply.get("parent_header", {}).get("msg_id") == msg_id:
            return reply


def _held(content: object) -> int:
    freed = content.get("freed") if isinstance(content, dict) else None
    after = [part.get("after") for part in freed if isinstance(part, dict)] if isinstance(freed, list) else []
    return sum(held for held in after if isinstance(held, int) and held > 0)


def _troubles(content: object) -> list[str]:
    """Errors in the kernel's answer, which is the user's process and therefore untrusted."""
    if isinstance(content, dict) and content.get("status") == "parked":
        return ["it is parked, and holds no GPU memory"]
    if not isinstance(content, dict) or content.get("status") != "ok" or not isinstance(content.get("freed"), list):
        return ["the kernel's answer could not be read"]
    freed = [part for part in content["freed"] if isinstance(part, dict)]
    return [
        f"{sendable(str(part.get('framework')), 40)}: {sendable(str(part['error']), 200)}"
        for part in freed
        if part.get("error")
    ]
