"""The gate's innermost layer: inside the kernel, for what no server sees, such as ``jupyter console --existing``.

While the flag file of this kernel exists its GPU state may be away, and a call that synchronises the GPU would end
the process. So a message that can run user code waits here until the file is gone. No file means that the gate is
open: if the server is gone with its directory, nothing would ever open it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.notebook.address import Address, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ABORTED_MARK", "KernelGate"]

_VARIABLE: Final = "GPUSHARE_GATE_FILE"
#: In the metadata of a cell that its sender has given up, and that must not run.
ABORTED_MARK: Final = "gpushare_aborted"

_PASS: Final = frozenset({"kernel_info_request", "comm_info_request", "connect_request", "history_request"})
_EMPTY: Final[Mapping[str, dict[str, Any]]] = {
    "complete_request": {"status": "ok", "matches": [], "metadata": {}},
    "inspect_request": {"status": "ok", "found": False, "data": {}, "metadata": {}},
    "is_complete_request": {"status": "unknown"},
}
#: What Lab asks the debugger without anybody's doing, for completions among others.
_DEBUGGER_LOOKS: Final = frozenset(
    ("evaluate", "inspectVariables", "richInspectVariables", "variables", "modules", "scopes", "source", "stackTrace")
)
_NOT_NOW: Final = {"type": "response", "success": False, "message": "The kernel waits until a cell is run."}
#: What the control channel also takes although it runs user code or ends the process in its own way.
_CONTROL: Final = ("execute_request", "debug_request", "shutdown_request")
_LONGEST_FLAG: Final = 64
_LOOK_EVERY_S: Final = 0.02
_TELL_EVERY_S: Final = 1.0
#: The first ipykernel that waits for an asynchronous `should_handle`.
_FIRST_WITH_WAITING: Final = 7


class KernelGate:
    """Stands before the handlers of *kernel*, an ipykernel.

    Args:
        kernel: the kernel.
        path: its flag file.
        tell: tells the server that something is held here; called in a thread, may raise ServerError.
    """

    def __init__(self, kernel: Any, path: str, *, tell: Callable[[], None]) -> None:
        self._kernel = kernel
        self._path = path
        self._tell = tell
        self._lock = threading.Lock()
        self._is_due = self._is_telling = False
        self._next = kernel.should_handle
        self._controls: dict[str, Any] = {}
        self._control_order = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, kernel: Any, environ: Mapping[str, str] = os.environ) -> KernelGate | None:
        """The gate of *kernel*, None where there is no flag to look at or this ipykernel cannot wait."""
        path = environ.get(_VARIABLE)
        if not path or not _can_wait():
            return None
        try:
            address = Address.from_environment(environ)
        except ServerError:
            return None
        return cls(kernel, path, tell=lambda: _post_wake(address))

    def install(self) -> None:
        """Stand before the handlers from now on."""
        kernel = self._kernel
        kernel.should_handle = self._should_handle
        for kind in (*_CONTROL, *_EMPTY):
            if kind in kernel.control_handlers:
                self._controls[kind] = kernel.control_handlers[kind]
                kernel.control_handlers[kind] = self._control_handler(kind)

    def remove(self) -> None:
        """Leave the kernel as it was."""
        self._kernel.should_handle = self._next
        self._kernel.control_handlers.update(self._controls)
        self._controls.clear()

    @property
    def is_closed(self) -> bool:
        """Whether the flag file exists."""
        return os.path.exists(self._path)  # noqa: PTH110  # before each message: no Path is made for it

    def _should_handle(self, stream: Any, message: dict[str, Any], idents: Any) -> Any:
        """Asked by ipykernel before each message of the main shell and of each subshell."""
        if message.get("metadata", {}).get(ABORTED_MARK) is True:
            self._kernel._send_abort_reply(stream, message, idents)  # noqa: SLF001  # as ipykernel answers
            return False
        if not self.is_closed or message["header"]["msg_type"] in _PASS:
            return self._next(stream, message, idents)
        return self._when_open(stream, message, idents)

    async def _when_open(self, stream: Any, message: dict[str, Any], idents: Any) -> bool:
        kind = message["header"]["msg_type"]
        if kind in _EMPTY:
            self._answer(stream, message, idents)
            return False
        if not await self._wait(aborts=kind == "execute_request"):
            self._kernel._send_abort_reply(stream, message, idents)  # noqa: SLF001
            return False
        further = self._next(stream, message, idents)
        return bool(await further if asyncio.iscoroutine(further) else further)

    async def _wait(self, *, aborts: bool) -> bool:
        """Wait until the gate is open; False when the owner interrupted what is held, and *aborts* says it may be."""
        closing, interrupts = None, ""
        while (now := self._counts()) is not None:
            if now[0] != closing:  # the first look, or it was open for a moment and the server knows of nothing held
                closing, interrupts = now
                self._tell_soon()
            if aborts and now[1] != interrupts:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)
        return True

    def _counts(self) -> tuple[str, str] | None:
        """The flag's counts of closings and of interrupts, None when the gate is open."""
        try:
            with open(self._path) as flag:  # noqa: PTH123  # see `is_closed`
                closings, _, interrupts = flag.read(_LONGEST_FLAG).partition(" ")
        except OSError:
            return ("", "") if self.is_closed else None
        return closings, interrupts

    def _answer(self, stream: Any, message: dict[str, Any], idents: Any) -> None:
        kind = message["header"]["msg_type"]
        content = dict(_EMPTY.get(kind, _NOT_NOW))
        if kind == "debug_request":
            content |= {"request_seq": message["content"].get("seq"), "command": message["content"].get("command")}
        elif kind == "complete_request":
            content["cursor_start"] = content["cursor_end"] = message["content"].get("cursor_pos", 0)
        reply = kind.removesuffix("_request") + "_reply"
        self._kernel.session.send(stream, reply, content, message, idents)

    def _control_handler(self, kind: str) -> Callable[[Any, Any, dict[str, Any]], Any]:
        handle = self._controls[kind]

        def control(stream: Any, ident: Any, message: dict[str, Any]) -> Any:
            command = message["content"].get("command")
            if not self.is_closed or command == "debugInfo":
                return handle(stream, ident, message)
            if kind in _EMPTY or command in _DEBUGGER_LOOKS:
                return self._answer(stream, message, ident)
            # In a task: the control channel must go on, for the server's own questions come through it.
            task = asyncio.get_running_loop().create_task(self._control_later(handle, stream, ident, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return None

        return control

    async def _control_later(self, handle: Any, stream: Any, ident: Any, message: dict[str, Any]) -> None:
        async with self._control_order:
            await self._wait(aborts=False)
            await self._control_now(handle, stream, ident, message)

    async def _control_now(self, handle: Any, stream: Any, ident: Any, message: dict[str, Any]) -> None:
        async with self._kernel._control_lock:  # noqa: SLF001  # one control message at a time, as ipykernel has it
            self._kernel.set_parent(ident, message, channel="control")
            try:
                answer = handle(stream, ident, message)
                if asyncio.iscoroutine(answer):
                    await answer
            except Exception:
                self._kernel.log.exception("A held %s failed", message["header"]["msg_type"])

    def _tell_soon(self) -> None:
        """Have the server told, in a thread."""
        with self._lock:
            self._is_due = True
            if self._is_telling:
                return
            self._is_telling = True
        threading.Thread(target=self._keep_telling, name="gpushare-wake", daemon=True).start()

    def _keep_telling(self) -> None:
        """Until the server has heard it; a busy server must not leave a cell waiting for ever."""
        while self._has_to_tell():
            try:
                self._tell()
            except ServerError:
                self._is_due = True
                time.sleep(_TELL_EVERY_S)

    def _has_to_tell(self) -> bool:
        with self._lock:
            self._is_telling = self._is_due and self.is_closed
            self._is_due = False
            return self._is_telling


def _can_wait() -> bool:
    from ipykernel import __version__  # type: ignore[attr-defined]  # not in its __all__

    return int(__version__.partition(".")[0]) >= _FIRST_WITH_WAITING


def _post_wake(address: Address) -> None:
    # Late, so that a kernel that is never parked starts as fast as before.
    from jupyter_gpushare.notebook.server import Server

    Server(address).wake()
