"""Shows that nothing which got to a kernel before its gate closed is still on its way or running.

``execution_state`` says idle while a cell is already in flight. A request on a *new* connection is handled after
what the kernel had begun; what it had merely received is held by the part of ours inside the kernel.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from jupyter_gpushare.session.gate.message import readable

__all__ = ["BarrierFailed", "await_quiet"]

_SUBSHELLS = "kernel subshells"


class BarrierFailed(Exception):  # noqa: N818  # an outcome, not a fault
    """The kernel may still run something.

    Attributes:
        reason: why, as the end of a sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def await_quiet(manager: Any, disturbed: asyncio.Future[str], deadline_s: float) -> dict[str, Any]:
    """Wait until the main shell, each subshell and the control channel have answered.

    Args:
        manager: the kernel's manager.
        disturbed: resolves with the reason when there is no use in waiting on.
        deadline_s: how long all of it may take.

    Returns:
        The content of the kernel's kernel_info_reply.

    Raises:
        BarrierFailed: not all answered.
    """
    shell, control = _Asked(manager, manager.connect_shell()), _Asked(manager, manager.connect_control())
    quiet = asyncio.ensure_future(_ask_all(shell, control))
    try:
        both: set[asyncio.Future[Any]] = {quiet, disturbed}
        await asyncio.wait(both, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if disturbed.done():
            raise BarrierFailed(disturbed.result())
        if not quiet.done():
            raise BarrierFailed(f"the kernel did not answer within {deadline_s:g} s")
        return quiet.result()
    finally:
        quiet.cancel()
        shell.close()
        control.close()


async def _ask_all(shell: _Asked, control: _Asked) -> dict[str, Any]:
    main = shell.ask("kernel_info_request")
    info = await control.ask("kernel_info_request")
    if _SUBSHELLS in (info.get("supported_features") or ()):
        listed = (await control.ask("list_subshell_request")).get("subshell_id")
        names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        await asyncio.gather(*(shell.ask("kernel_info_request", subshell=name) for name in names))
    await main
    return info


class _Asked:
    """One connection of our own to one channel of a kernel."""

    def __init__(self, manager: Any, stream: Any) -> None:
        self._session = manager.session.clone()
        # With the manager's own, the ids of these requests would be those of cells that its clients have sent.
        self._session.session = uuid.uuid4().hex
        self._stream = stream
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        stream.on_recv(self._receive)

    def ask(self, kind: str, *, subshell: str | None = None) -> asyncio.Future[dict[str, Any]]:
        """The content of the reply, when it comes."""
        message = self._session.msg(kind)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[message["header"]["msg_id"]] = answer
        self._session.send(self._stream, message)
        return answer

    def close(self) -> None:
        """Wait for nothing more."""
        for answer in self._answers.values():
            answer.cancel()
        if not self._stream.closed():
            self._stream.on_recv(None)
            self._stream.close(linger=0)

    def _receive(self, frames: list[bytes]) -> None:
        try:
            _, parts = self._session.feed_identities(frames)
            message = self._session.deserialize(parts)
        except (ValueError, TypeError, KeyError):
            return  # no answer to what was asked: the deadline will tell
        answer = self._answers.get(str(readable(message.get("parent_header")).get("msg_id")))
        if answer is not None and not answer.done():
            answer.set_result(readable(message.get("content")))
