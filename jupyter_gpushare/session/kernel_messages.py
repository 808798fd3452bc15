"""Asking the part of ours inside a kernel to free cached GPU memory.

The request goes over the control channel, so that it neither queues behind a running cell nor counts as an
execution, and it leaves no trace in the user's namespace.
"""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_gpushare.session.untrusted import sendable

__all__ = ["request_free_cache"]


async def request_free_cache(kernel_manager: Any, *, collect: bool, timeout_s: float) -> list[str]:
    """Have the kernel free its frameworks' caches.

    Args:
        kernel_manager: the kernel's manager.
        collect: run Python's garbage collector first; only for an idle kernel, since finalizers run user code.
        timeout_s: how long to wait for the answer.

    Returns:
        What went wrong, a short text per framework; empty when all went well.

    Raises:
        TimeoutError: the kernel did not answer.
    """
    client = kernel_manager.client()
    client.control_channel.start()
    try:
        request = client.session.msg("gpushare_free_request", {"collect": collect})
        client.control_channel.send(request)
        reply = await asyncio.wait_for(_answer(client, request["header"]["msg_id"]), timeout_s)
    finally:
        client.control_channel.stop()
        client.stop_channels()
    return _troubles(reply.get("content"))


async def _answer(client: Any, msg_id: str) -> dict[str, Any]:
    while True:
        reply: dict[str, Any] = await client.control_channel.get_msg(timeout=None)
        if reply.get("parent_header", {}).get("msg_id") == msg_id:
            return reply


def _troubles(content: object) -> list[str]:
    """Errors in the kernel's answer, which is the user's process and therefore untrusted."""
    if not isinstance(content, dict) or content.get("status") != "ok" or not isinstance(content.get("freed"), list):
        return ["the kernel's answer could not be read"]
    freed = [part for part in content["freed"] if isinstance(part, dict)]
    return [
        f"{sendable(str(part.get('framework')), 40)}: {sendable(str(part['error']), 200)}"
        for part in freed
        if part.get("error")
    ]
