"""The gate before one kernel: while it is closed, nothing that could run user code gets to the kernel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from jupyter_gpushare.session.gate.barrier import BarrierFailed, await_quiet
from jupyter_gpushare.session.gate.treatment import CONTROL_COMM, Treatment, treatment_of

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Mapping

    from jupyter_gpushare.session.gate.flag import Flag
    from jupyter_gpushare.session.gate.message import Request

__all__ = ["BarrierFailed", "Gate", "Page"]

_MOST_QUIET_COMMS = 4096
_MOST_HELD = 20_000
_INSIDE = "a message arrived in the kernel"


class Page(Protocol):
    """A client that shows the kernel's state, such as a browser's tab."""

    def say_state(self, state: str, parent: Mapping[str, Any]) -> None:
        """Show ``busy`` or ``idle`` as if the kernel had said so about the request with that header."""

    def say_text(self, text: str, parent: Mapping[str, Any]) -> None:
        """Show *text* below the cell whose request had that header."""


class Gate:
    """Holds messages for one kernel, in the order in which they came. Lives on the server's event loop.

    Args:
        kernel_id: the kernel.
        manager: its kernel manager.
        flag: tells the part of ours in the kernel.
        wake: called with the kernel's id whenever something is held that somebody waits for.
        log: where trouble goes.

    Attributes:
        is_open: whether messages pass. Read it as often as you like; `close` and `open` change it.
        is_settled: closed, and the barrier has shown that nothing runs in the kernel any more.
        is_frozen: whether the kernel answers nothing at all and is answered for.
        kernel_info: the kernel's own description of itself, empty before the first barrier.
        pages: the clients that show the kernel's state.
    """

    def __init__(
        self, kernel_id: str, manager: Any, *, flag: Flag, wake: Callable[[str], None], log: logging.Logger
    ) -> None:
        self.kernel_id = kernel_id
        self.is_open = True
        self.is_settled = False
        self.is_frozen = False
        self.kernel_info: dict[str, Any] = {}
        self.pages: WeakSet[Page] = WeakSet()
        self._manager = manager
        self._flag = flag
        self._wake = wake
        self._log = log
        self._queue: list[Request] = []
        self._quiet_comms: set[str] = set()
        self._holds_inside = self._is_full = False
        self._disturbed: asyncio.Future[str] | None = None

    @property
    def held(self) -> int:
        """How many messages are held that somebody waits for; what is held inside the kernel counts as one."""
        return sum(request.wakes for request in self._queue) + self._holds_inside

    @property
    def closing(self) -> str:
        """Which closing of this gate it is, as the part of ours in the kernel counts them; empty while it is open."""
        return "" if self.is_open else self._flag.closing

    async def close(self) -> None:
        """Hold messages from now on. What the kernel is doing already goes on: see `barrier`.

        Raises:
            OSError: the flag could not be set; the gate is open as before.
        """
        if self.is_open:
            self._flag.set()
            self.is_open = False

    async def barrier(self, deadline_s: float) -> None:
        """Wait until every message that got through before the gate closed has been dealt with.

        Afterwards the caller looks once more whether a cell runs: one may hold the kernel in a thread of its own.

        Args:
            deadline_s: how long the kernel may take.

        Raises:
            BarrierFailed: it may still run something. The gate stays closed; the caller opens it.
        """
        if self.is_open:
            raise BarrierFailed("the gate is open")
        if self._holds_inside:
            raise BarrierFailed(_INSIDE)
        self._disturbed = asyncio.get_running_loop().create_future()
        try:
            self.kernel_info = await await_quiet(self._manager, self._disturbed, deadline_s)
        finally:
            self._disturbed = None
        self.is_settled = True

    def open(self) -> None:
        """Let everything pass, first what was held, in its order. An open gate stays as it is.

        Raises:
            OSError: the flag could not be cleared; the gate is closed as before.
        """
        if self.is_open:
            return
        self._flag.clear()
        queue = self._leave()
        self.is_open = True
        self._deliver(queue)

    def abort(self) -> None:
        """Interrupt: cells that are held will never run, and whoever sent them is told."""
        aborted = [request for request in self._queue if request.is_execute]
        self._queue = [request for request in self._queue if not request.is_execute]
        for request in aborted:
            self._try(request, "aborted", lambda request: request.sender.abort(request))
        if not self.is_open:
            self._abort_inside()

    def drop(self) -> None:
        """Restart or shutdown: forget what is held. The gate stays closed until the new process is there."""
        self._queue.clear()
        self._holds_inside = False
        self._quiet_comms.clear()
        self._disturb("the kernel ends")

    def disturb(self) -> None:
        """The part of ours in the kernel holds something itself, from a client that is not the server's."""
        if not self.is_open:
            self._holds_inside = True
            self._disturb(_INSIDE)
            self._call_wake()

    def answer_for_frozen(self, frozen: bool = True) -> None:  # noqa: FBT001, FBT002  # a switch
        """Answer for a kernel that is stopped and cannot, or no longer do so. Needs a `barrier` before."""
        self.is_frozen = frozen

    def treatment(self, request: Request) -> Treatment:
        """What the closed gate does with *request*."""
        treatment = treatment_of(request.channel, request.kind, request.content, self._quiet_comms)
        if self.is_frozen and treatment is Treatment.PASS:
            return Treatment.ANSWER if request.kind == "kernel_info_request" else Treatment.HOLD
        return treatment

    def hold(self, request: Request, *, wakes: bool) -> None:
        """Keep *request* until the gate opens. Beyond what anybody can mean to send, cells are aborted at once."""
        request.wakes = wakes
        if len(self._queue) >= _MOST_HELD:
            # A page that sends in a loop while there is no room for hours must not take the server's memory.
            if not self._is_full:
                self._log.error("Kernel %s: %d messages are held, and no more", self.kernel_id, _MOST_HELD)
            self._is_full = True
            if request.is_execute:
                self._try(request, "aborted", lambda request: request.sender.abort(request))
            return
        self._queue.append(request)
        if request.content.get("target_name") == CONTROL_COMM:
            self.hush(str(request.content.get("comm_id")))
        if request.is_execute:
            for page in list(self.pages):
                page.say_state("busy", request.header)
        if wakes:
            self._call_wake()

    def hush(self, comm_id: str) -> None:
        """Let no message to that comm wake the kernel."""
        if len(self._quiet_comms) < _MOST_QUIET_COMMS:
            self._quiet_comms.add(comm_id)

    def tell(self, text: str, cells: Iterable[str]) -> None:
        """Show *text* below the running *cells*, by the ids of their requests, wherever a page shows them."""
        for page in list(self.pages):
            for msg_id in cells:
                page.say_text(f"{text}\n", {"msg_id": msg_id, "msg_type": "execute_request"})

    def remind(self, page: Page) -> None:
        """Show on *page* that a cell is held, if one is: it has just been shown ``idle`` for another request."""
        waiting = next((request for request in self._queue if request.is_execute), None)
        if waiting is not None:
            page.say_state("busy", waiting.header)

    def _leave(self) -> list[Request]:
        """The state of an open gate, but for `is_open`; what was held."""
        queue, self._queue = self._queue, []
        self.is_settled = self.is_frozen = self._holds_inside = self._is_full = False
        self._disturb("the gate was opened")
        return queue

    def _abort_inside(self) -> None:
        self._holds_inside = False
        try:
            self._flag.interrupt()
        except OSError:
            self._log.exception("Cells held inside kernel %s could not be aborted; they run later", self.kernel_id)

    def _disturb(self, why: str) -> None:
        if self._disturbed is not None and not self._disturbed.done():
            self._disturbed.set_result(why)

    def _call_wake(self) -> None:
        try:
            self._wake(self.kernel_id)
        except Exception:  # noqa: BLE001  # the callback's own trouble must not lose the message
            self._log.exception("Waking kernel %s failed; its messages stay held", self.kernel_id)

    def _deliver(self, queue: list[Request]) -> None:
        sockets: dict[str, Any] = {}

        def connect(channel: str) -> Any:
            if channel not in sockets:
                sockets[channel] = getattr(self._manager, f"connect_{channel}")()
            # The stream would send later; its socket sends now and lingers until all is sent.
            return sockets[channel].socket

        try:
            for request in queue:
                self._try(request, "delivered", lambda request: request.sender.deliver(request, connect))
        finally:
            for stream in sockets.values():
                stream.close()

    def _try(self, request: Request, done: str, step: Callable[[Request], None]) -> None:
        try:
            step(request)
        except Exception:  # noqa: BLE001  # one that cannot be sent must not keep back the others
            self._log.exception("A held %s for kernel %s could not be %s", request.kind, self.kernel_id, done)
