"""What each kernel of this server is doing, and which processes are the roots of GPU use.

Jupyter Server says whether a kernel is busy, but not what runs in it, and it counts every message as
activity, those of a live widget of ours included. So the stream of IOPub messages that the server already
reads is looked at once more, here.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_client.session import Session as MessageSession

from jupyter_gpushare.devices.attribution import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["OWN_MESSAGE_TYPES", "Kernel", "Kernels"]

#: Our messages on the control channel; they are not the user's activity.
OWN_MESSAGE_TYPES = ("gpushare_free_request", "gpushare_free_reply")

_LONGEST_LINE = 100


@dataclass(slots=True)
class Kernel:
    """One kernel: since when it is busy or idle by *cells*, and the first line of the cell it runs."""

    id: str
    name: str
    path: str | None = None
    busy_since: float | None = None
    idle_since: float | None = None
    running: str = ""
    managed: bool = False
    releases_cache: bool = False

    @property
    def label(self) -> str:
        """What people call it: the notebook's path, or the kernel's name when no notebook shows it."""
        return self.path or f"{self.name} ({self.id[:8]})"


class Kernels:
    """Watches the kernels of *manager*, a `MappingKernelManager`.

    Args:
        manager: the server's kernel manager.
        sessions: the server's session manager, which knows notebook paths.
        terminals: gives the terminal manager, None where terminals are off.
        changed: called on the event loop whenever something here changed.
        worked: called when a cell has just ended or a kernel started: GPU use may have changed.
    """

    def __init__(
        self,
        manager: Any,
        sessions: Any,
        *,
        terminals: Callable[[], Any],
        changed: Callable[[], None],
        worked: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._terminals = terminals
        self._changed = changed
        self._worked = worked
        self._known: dict[str, Kernel] = {}
        self._own_comms: set[bytes] = set()
        self._marks: dict[str, tuple[bool, bool]] = {}

    def install(self) -> None:
        """Follow every kernel that starts from now on, and those that run already."""
        manager = self._manager
        manager.untracked_message_types = [*manager.untracked_message_types, *OWN_MESSAGE_TYPES]
        original = manager.start_watching_activity

        def start_watching_activity(kernel_id: str) -> None:
            original(kernel_id)
            self._follow(kernel_id)

        manager.start_watching_activity = start_watching_activity
        for kernel_id in list(manager.list_kernel_ids()):
            if getattr(manager.get_kernel(kernel_id), "_activity_stream", None) is not None:
                self._follow(kernel_id)

    def mark(self, kernel_id: str, *, releases_cache: bool) -> None:
        """Note that our provisioner launched this kernel, and whether its part inside the kernel was loaded."""
        self._marks[kernel_id] = (True, releases_cache)

    def get(self, kernel_id: str) -> Kernel | None:
        """The kernel with that id if it lives."""
        return self._known.get(kernel_id) if kernel_id in self._manager else None

    def all(self) -> list[Kernel]:
        """Every living kernel, in the order in which they started."""
        living = set(self._manager.list_kernel_ids())
        for gone in set(self._known) - living:
            del self._known[gone]
            self._marks.pop(gone, None)
        for kernel_id in living - set(self._known):
            self._remember(kernel_id)
        return [self._known[kernel_id] for kernel_id in self._known]

    def execution_state(self, kernel_id: str) -> str:
        """Jupyter's word for what the kernel does, ``unknown`` when there is none."""
        kernel = self._manager.get_kernel(kernel_id) if kernel_id in self._manager else None
        return str(getattr(kernel, "execution_state", None) or "unknown")

    def pid(self, kernel_id: str) -> int | None:
        """The kernel's process here, None for one that runs elsewhere."""
        kernel = self._manager.get_kernel(kernel_id) if kernel_id in self._manager else None
        return getattr(getattr(kernel, "provisioner", None), "pid", None)

    def roots(self) -> Mapping[int, Owner]:
        """The processes that own their children's GPU use: kernels, terminals, the server itself."""
        roots = {os.getpid(): Owner("server", "")}
        for name, terminal in getattr(self._terminals(), "terminals", {}).items():
            roots[terminal.ptyproc.pid] = Owner("terminal", name)
        for kernel in self.all():
            if (pid := self.pid(kernel.id)) is not None:
                roots[pid] = Owner("kernel", kernel.id)
        return roots

    async def refresh_paths(self) -> None:
        """Learn which notebook shows which kernel. Renaming a notebook sends no event, hence the looking."""
        paths = {session["kernel"]["id"]: session["path"] for session in await self._sessions.list_sessions()}
        changed = False
        for kernel in self.all():
            path = paths.get(kernel.id)
            changed |= path != kernel.path
            kernel.path = path
        if changed:
            self._changed()

    async def end(self, kernel_id: str) -> None:
        """End the kernel as Lab's own shutdown does, with the session that shows it. One that died is fine."""
        session_ids = [s["id"] for s in await self._sessions.list_sessions() if s["kernel"]["id"] == kernel_id]
        try:
            for session_id in session_ids:
                await self._sessions.delete_session(session_id)
            if kernel_id in self._manager:
                await self._manager.shutdown_kernel(kernel_id)
        except KeyError:
            if kernel_id in self._manager:
                raise

    def _remember(self, kernel_id: str) -> Kernel:
        name = str(getattr(self._manager.get_kernel(kernel_id), "kernel_name", "") or "kernel")
        managed, releases_cache = self._marks.get(kernel_id, (False, False))
        kernel = Kernel(kernel_id, name, idle_since=time.time(), managed=managed, releases_cache=releases_cache)
        self._known[kernel_id] = kernel
        return kernel

    def _follow(self, kernel_id: str) -> None:
        """Look at the IOPub messages that the server reads anyway (also called when a kernel restarts)."""
        manager = self._manager.get_kernel(kernel_id)
        self._known.pop(kernel_id, None)
        kernel = self._remember(kernel_id)
        session = MessageSession(config=manager.session.config, key=manager.session.key)
        stream = manager._activity_stream  # noqa: SLF001  # no public way to the stream (jupyter_server 2.x)
        track = stream._recv_callback  # noqa: SLF001

        def receive(frames: list[Any]) -> None:
            activity = manager.last_activity, self._manager.last_kernel_activity
            track(frames)
            topic = bytes(frames[0])
            if topic.endswith((b".status", b".execute_input")):
                self._on_cell(kernel, session, frames)
            elif topic.startswith(b"comm-") and self._is_own_comm(topic, session, frames):
                manager.last_activity, self._manager.last_kernel_activity = activity

        stream.on_recv(receive)
        self._worked()

    def _on_cell(self, kernel: Kernel, session: MessageSession, frames: list[Any]) -> None:
        message = _read(session, frames)
        if message.get("parent_header", {}).get("msg_type") != "execute_request":
            return
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "execute_input":
            kernel.running = _first_line(str(content.get("code", "")))
            self._changed()
        elif kind == "status" and content.get("execution_state") == "busy":
            kernel.busy_since, kernel.idle_since = time.time(), None
            self._changed()
        elif kind == "status" and content.get("execution_state") == "idle":
            kernel.busy_since, kernel.idle_since, kernel.running = None, time.time(), ""
            self._worked()

    def _is_own_comm(self, topic: bytes, session: MessageSession, frames: list[Any]) -> bool:
        """Whether the message is of a live widget of ours, whose updates are not the user's activity."""
        if topic in self._own_comms:
            return True
        message = _read(session, frames)
        state = message["content"].get("data", {}).get("state", {})
        if message["header"]["msg_type"] != "comm_open" or not isinstance(state, dict):
            return False
        if str(state.get("_anywidget_id", "")).startswith("jupyter_gpushare."):
            self._own_comms.add(topic)
            return True
        return False


def _read(session: MessageSession, frames: list[Any]) -> dict[str, Any]:
    _, parts = session.feed_identities(frames, copy=True)
    message: dict[str, Any] = session.deserialize(parts)
    return message


def _first_line(code: str) -> str:
    line = next((line.strip() for line in code.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"
