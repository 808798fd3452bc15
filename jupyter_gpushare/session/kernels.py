"""What each kernel of this server is doing, and which processes are the roots of GPU use.

Jupyter Server says whether a kernel is busy, but not what runs in it, and it counts every message as
activity, those of a live widget of ours included. So the stream of IOPub messages that the server already
reads is looked at once more, here.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jupyter_client.session import Session as MessageSession
from tornado.web import HTTPError

from jupyter_gpushare.devices.attribution import Owner
from jupyter_gpushare.session.untrusted import sendable

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Mapping

__all__ = ["OWN_MESSAGE_TYPES", "Cell", "Kernel", "Kernels"]

#: Our messages on the control channel; they are not the user's activity.
OWN_MESSAGE_TYPES = (
    "gpushare_free_request",
    "gpushare_free_reply",
    "gpushare_probe_request",
    "gpushare_probe_reply",
)
# Polls of resource monitors and of front ends at a page's reload: they come without the user.
_POLLS = (
    *(f"{name}_{part}" for name in ("usage", "history") for part in ("request", "reply")),
    *(f"{name}_subshell_{part}" for name in ("create", "delete", "list") for part in ("request", "reply")),
)

_LONGEST_LINE = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that runs: since when, and its first line."""

    since: float
    line: str = ""


@dataclass(slots=True)
class Kernel:
    """One kernel, with the cells that run in it by the id of their request: several where there are subshells."""

    id: str
    name: str
    path: str | None = None
    idle_since: float = field(default_factory=time.time)
    cells: dict[str, Cell] = field(default_factory=dict)
    managed: bool = False
    releases_cache: bool = False

    @property
    def busy_since(self) -> float | None:
        """When the cell that runs longest began, None while none runs."""
        return min((cell.since for cell in self.cells.values()), default=None)

    @property
    def running(self) -> str:
        """The first line of the cell that runs longest."""
        return min(self.cells.values(), key=lambda cell: cell.since).line if self.cells else ""

    def forget_cells(self) -> None:
        """The process that ran them is gone."""
        self.cells.clear()
        self.idle_since = time.time()

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
        ended: called with the id of a kernel that is no more.
        died: called with the id of a kernel whose process has died; a new one may follow.
        log: where trouble goes.
    """

    def __init__(
        self,
        manager: Any,
        sessions: Any,
        *,
        terminals: Callable[[], Any],
        changed: Callable[[], None],
        worked: Callable[[], None],
        ended: Callable[[str], None],
        died: Callable[[str], None],
        log: logging.Logger,
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._terminals = terminals
        self._changed = changed
        self._worked = worked
        self._ended = ended
        self._died = died
        self._log = log
        self._known: dict[str, Kernel] = {}
        self._managed: dict[str, bool] = {}

    def install(self) -> None:
        """Follow every kernel that starts from now on, and those that run already."""
        manager = self._manager
        manager.untracked_message_types = [*manager.untracked_message_types, *OWN_MESSAGE_TYPES, *_POLLS]
        start_watching, remove = manager.start_watching_activity, manager.remove_kernel

        def start_watching_activity(kernel_id: str) -> None:
            start_watching(kernel_id)
            self._follow(kernel_id)

        def remove_kernel(kernel_id: str) -> Any:
            removed = remove(kernel_id)
            self._forget(kernel_id)
            return removed

        manager.start_watching_activity, manager.remove_kernel = start_watching_activity, remove_kernel
        for kernel_id in list(manager.list_kernel_ids()):
            if getattr(manager.get_kernel(kernel_id), "_activity_stream", None) is not None:
                self._follow(kernel_id)

    def admit(self, kernel_id: str, *, loads_part: bool) -> None:
        """Our provisioner starts a process for this kernel, its first or a new one, with or without our part in it."""
        self._managed[kernel_id] = loads_part
        if (kernel := self._known.get(kernel_id)) is not None:
            kernel.managed, kernel.releases_cache = True, loads_part
            kernel.forget_cells()

    def get(self, kernel_id: str) -> Kernel | None:
        """The kernel with that id if it lives."""
        if kernel_id not in self._manager:
            return None
        return self._known.get(kernel_id) or self._remember(kernel_id)

    def all(self) -> list[Kernel]:
        """Every living kernel, in the order in which they started."""
        living = list(self._manager.list_kernel_ids())
        for gone in set(self._known) - set(living):
            self._forget(gone)
        return [self._known.get(kernel_id) or self._remember(kernel_id) for kernel_id in living]

    def execution_state(self, kernel_id: str) -> str:
        """Jupyter's word for what the kernel does, ``unknown`` when there is none."""
        kernel = self._manager.get_kernel(kernel_id) if kernel_id in self._manager else None
        return str(getattr(kernel, "execution_state", None) or "unknown")

    def pid(self, kernel_id: str) -> int | None:
        """The kernel's process here, None for one that runs elsewhere."""
        kernel = self._manager.get_kernel(kernel_id) if kernel_id in self._manager else None
        return getattr(getattr(kernel, "provisioner", None), "pid", None)

    def label_of(self, owner: Owner) -> str:
        """What people call *owner*."""
        kernel = self.get(owner.key) if owner.kind == "kernel" else None
        return kernel.label if kernel is not None else f"{owner.kind} {owner.key}".strip()

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
        sessions = await self._sessions.list_sessions()
        # A console may share a notebook's kernel; the notebook's name, which sorts last, is the one people know.
        sessions.sort(key=lambda session: session["type"] == "notebook")
        paths = {session["kernel"]["id"]: sendable(session["path"]) for session in sessions}
        changed = False
        for kernel in self.all():
            path = paths.get(kernel.id)
            changed |= path != kernel.path
            kernel.path = path
        if changed:
            self._changed()

    async def end(self, kernel_id: str) -> None:
        """End the kernel as Lab's own shutdown does, with the sessions that show it. One that died is fine."""
        session_ids = [s["id"] for s in await self._sessions.list_sessions() if s["kernel"]["id"] == kernel_id]
        for session_id in session_ids:
            await self._end_by(self._sessions.delete_session(session_id), kernel_id)
        if kernel_id in self._manager:
            await self._end_by(self._manager.shutdown_kernel(kernel_id), kernel_id)

    async def _end_by(self, ending: Awaitable[None], kernel_id: str) -> None:
        try:
            await ending
        except (KeyError, HTTPError):
            # Jupyter's words for a kernel that is gone; with two sessions the first one's end takes it away.
            if kernel_id in self._manager:
                raise

    def _forget(self, kernel_id: str) -> None:
        self._managed.pop(kernel_id, None)
        if self._known.pop(kernel_id, None) is not None:
            self._ended(kernel_id)

    def _remember(self, kernel_id: str) -> Kernel:
        name = sendable(str(getattr(self._manager.get_kernel(kernel_id), "kernel_name", "") or "kernel"))
        managed = kernel_id in self._managed
        kernel = Kernel(kernel_id, name, managed=managed, releases_cache=self._managed.get(kernel_id, False))
        self._known[kernel_id] = kernel
        return kernel

    def _follow(self, kernel_id: str) -> None:
        """Look at the IOPub messages that the server reads anyway (also called when a kernel restarts)."""
        manager = self._manager.get_kernel(kernel_id)
        kernel = self._known.get(kernel_id) or self._remember(kernel_id)
        kernel.forget_cells()
        watch = _Watch(kernel, MessageSession(config=manager.session.config, key=manager.session.key))
        manager.observe(lambda change: self._on_state(kernel, change["new"]), names=["execution_state"])
        stream = manager._activity_stream  # noqa: SLF001  # no public way to the stream (jupyter_server 2.x)
        track = stream._recv_callback  # noqa: SLF001

        def receive(frames: list[Any]) -> None:
            activity = manager.last_activity, self._manager.last_kernel_activity
            track(frames)
            try:
                seen = watch.look(frames)
            except Exception:  # noqa: BLE001  # what a kernel sends must never stall Jupyter's own tracking
                self._log.debug("A message of kernel %s could not be read", kernel_id, exc_info=True)
                return
            if seen == "own":
                manager.last_activity, self._manager.last_kernel_activity = activity
            elif seen == "ended":
                self._worked()
            elif seen == "changed":
                self._changed()

        stream.on_recv(receive)
        self._worked()

    def _on_state(self, kernel: Kernel, state: object) -> None:
        """A kernel that died or starts anew runs none of the cells of its former process."""
        if state in ("dead", "restarting"):
            self._died(kernel.id)
        if state in ("dead", "restarting", "starting", "terminating") and kernel.cells:
            kernel.forget_cells()
            self._worked()


class _Watch:
    """Reads the messages of one kernel's process, as few of them as possible."""

    def __init__(self, kernel: Kernel, session: MessageSession) -> None:
        self._kernel = kernel
        self._session = session
        self._comms: dict[bytes, bool] = {}

    def look(self, frames: list[Any]) -> Literal["own", "ended", "changed", "nothing"]:
        """What a message means to us; *own* is one of a live widget of ours, which is not the user's activity."""
        topic = bytes(frames[0])
        if topic.endswith((b".status", b".execute_input")):
            return self._on_cell(self._read(frames))
        if topic.startswith(b"comm-"):
            if topic not in self._comms:
                self._comms[topic] = _opens_own_widget(self._read(frames))
            return "own" if self._comms[topic] else "nothing"
        return "nothing"

    def _read(self, frames: list[Any]) -> dict[str, Any]:
        _, parts = self._session.feed_identities(frames, copy=True)
        message: dict[str, Any] = self._session.deserialize(parts)
        return message

    def _on_cell(self, message: dict[str, Any]) -> Literal["ended", "changed", "nothing"]:
        parent, content = message["parent_header"], message["content"]
        if parent.get("msg_type") != "execute_request":
            return "nothing"
        request, cells = str(parent["msg_id"]), self._kernel.cells
        if message["header"]["msg_type"] == "execute_input" and _is_own_magic(str(content["code"])):
            cells.pop(request, None)
        elif message["header"]["msg_type"] == "execute_input":
            since = cells[request].since if request in cells else time.time()
            cells[request] = Cell(since, _first_line(str(content["code"])))
        elif content["execution_state"] == "busy":
            cells[request] = Cell(time.time())
        elif content["execution_state"] == "idle":
            cells.pop(request, None)
            if not cells:
                self._kernel.idle_since = time.time()
            return "ended"
        return "changed"


def _opens_own_widget(message: dict[str, Any]) -> bool:
    if message["header"]["msg_type"] != "comm_open":
        return False
    data = message["content"].get("data")
    state = data.get("state") if isinstance(data, dict) else None
    return isinstance(state, dict) and str(state.get("_anywidget_id", "")).startswith("jupyter_gpushare.")


def _is_own_magic(code: str) -> bool:
    """Whether a cell only asks us something: it would otherwise be told that it is itself running."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    return bool(lines) and all(line.split()[0] == "%gpushare" for line in lines)


def _first_line(code: str) -> str:
    line = next((line.strip() for line in code.splitlines() if line.strip()), "")
    return sendable(line, _LONGEST_LINE)
