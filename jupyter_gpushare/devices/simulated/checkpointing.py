"""What the driver does to a process's GPU state: lock it, move it into the process's own memory, and back.

It is as hostile as CUDA's process checkpoint: a restore without room loses the state for good and keeps what it had
taken, managed memory fails in the middle, and a synchronisation while the memory is away crashes the process.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.simulated.driver_wire import Answer
from jupyter_gpushare.devices.simulated.extents import Extent, round_up
from jupyter_gpushare.devices.simulated.moves import Holding, Part, batches
from jupyter_gpushare.devices.simulated.space import NoRoom
from jupyter_gpushare.devices.simulated.store import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.devices.simulated.arena import Piece
    from jupyter_gpushare.devices.simulated.context import Context
    from jupyter_gpushare.devices.simulated.driver_wire import Code, DriverCall, Request, Standing
    from jupyter_gpushare.devices.simulated.latch import Latch
    from jupyter_gpushare.devices.simulated.machine import Machine

__all__ = ["Checkpointing"]

_STEP_S: Final = 0.05
_LOOK_EVERY_S: Final = 0.002
_EVERYTHING: Final = 1 << 62


class Refusal(Exception):  # noqa: N818 - what the driver does
    """The driver does not do it."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code: Code = code


class Checkpointing:
    """The driver's side of the process *owner*, whose contexts are what *contexts* gives. Used by one thread."""

    def __init__(
        self, machine: Machine, owner: Identity, latch: Latch, contexts: Callable[[], Sequence[Context]]
    ) -> None:
        self._machine = machine
        self._owner = owner
        self._latch = latch
        self._contexts = contexts
        self._moves = machine.moves(owner)
        self._standing: Standing = "running"
        self._holdings: tuple[Holding, ...] = ()
        self._saved: list[list[tuple[Part, list[Piece]]]] = []

    def carry_out(self, request: Request) -> Answer:
        """Do what is asked, or say why not."""
        try:
            self._die_if_told(request.call, in_the_middle=False)
            self._look()
            match request.call:
                case "get_state":
                    pass
                case "lock":
                    self._lock(request.timeout_ms)
                case "checkpoint":
                    self._checkpoint()
                case "restore":
                    self._restore()
                case "unlock":
                    self._unlock()
        except Refusal as refusal:
            return Answer(refusal.code, f"{request.call}: {refusal}", self._standing)
        except (MachineError, OSError, MemoryError) as trouble:
            return Answer("operating_system", f"{request.call}: {trouble}", self._standing)
        return Answer(state=self._standing)

    def _look(self) -> None:
        """Learn what happened meanwhile: a device reset, or a driver that went away."""
        places = self._moves.places()
        if not places:
            raise Refusal("not_initialized", "this process uses no GPU")
        if places & {"failed", "poisoned"}:
            self._standing = "failed"
            self._let_calls_fail()

    def _require(self, wanted: Standing) -> None:
        if self._standing == "failed":
            raise Refusal("operating_system", "this process's GPU state is lost: end the process")
        if self._standing != wanted:
            raise Refusal("illegal_state", f"the process is {self._standing}, not {wanted}")

    def _lock(self, timeout_ms: int) -> None:
        self._require("running")
        deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else None
        if not self._latch.shut(deadline):
            raise Refusal("not_ready", f"calls of the process had not ended after {timeout_ms} ms")
        while any(context.is_computing for context in self._contexts()):
            if deadline is not None and time.monotonic() >= deadline:
                self._latch.open()
                raise Refusal("not_ready", f"computations of the process had not ended after {timeout_ms} ms")
            time.sleep(_LOOK_EVERY_S)
        self._standing = "locked"

    def _checkpoint(self) -> None:
        self._require("locked")
        self._refuse_what_cannot_move()
        self._holdings, self._saved = self._moves.holdings(), []
        self._standing, self._latch.is_away = "checkpointed", True
        try:
            self._move_out()
        except BaseException:
            self._lose()
            raise
        for context in self._contexts():
            context.arena.close()

    def _refuse_what_cannot_move(self) -> None:
        features = self._machine.occupancy.features(self._owner)
        if "managed_memory" in features:
            self._lose()
            raise Refusal("not_supported", "the process uses managed memory")
        if "mps" in features:
            raise Refusal("not_supported", "the process is a client of MPS")

    def _lose(self) -> None:
        self._standing = "failed"
        self._saved = []
        self._moves.mark("failed")
        self._let_calls_fail()

    def _let_calls_fail(self) -> None:
        """As after any error that CUDA cannot recover from: calls of the program do not wait, each of them fails."""
        if self._latch.is_shut:
            self._latch.open()

    def _move_out(self) -> None:
        arenas = {context.device.uuid: context.arena for context in self._contexts()}
        left = sum(holding.size for holding in self._holdings)
        pace = _Pace(self._machine.copy_bytes_per_s)
        for parts in batches(self._holdings, pace.batch):
            self._saved.append([(part, arenas[part.holding.device].save(part.extents)) for part in parts])
            pace.wait(parts)
            left -= sum(part.length for part in parts)
            self._moves.leave(parts, arenas, "running" if left else "checkpointed")
            self._die_if_told("checkpoint", in_the_middle=True)

    def _restore(self) -> None:
        self._require("checkpointed")
        for context in self._contexts():
            context.arena.reopen()
        try:
            found = self._move_in()
        except NoRoom as shortage:
            self._lose()
            text = f"{shortage}; the process's GPU state is lost"
            raise Refusal("out_of_memory", text) from None
        except BaseException:
            self._lose()
            raise
        for context in self._contexts():
            context.relocate(found)
        self._saved = []
        self._standing, self._latch.is_away = "locked", False

    def _move_in(self) -> dict[int, tuple[Extent, ...]]:
        arenas = {context.device.uuid: context.arena for context in self._contexts()}
        found: dict[int, tuple[Extent, ...]] = {holding.allocation: () for holding in self._holdings}
        pace = _Pace(self._machine.copy_bytes_per_s)
        for number, batch in enumerate(self._saved, start=1):
            parts = [part for part, _ in batch]
            ranges = self._moves.arrive(parts, "running" if number == len(self._saved) else "restoring")
            for (part, pieces), extents in zip(batch, ranges, strict=True):
                found[part.holding.allocation] += tuple(extents)
                arenas[part.holding.device].bring_back(extents, pieces)
            pace.wait(parts)
            self._die_if_told("restore", in_the_middle=True)
        return found

    def _unlock(self) -> None:
        self._require("locked")
        self._standing = "running"
        self._latch.open()

    def _die_if_told(self, call: DriverCall, *, in_the_middle: bool) -> None:
        if in_the_middle == (call in ("checkpoint", "restore")) and self._machine.faults().kills_owner(call):
            signal.raise_signal(signal.SIGKILL)


class _Pace:
    """Makes copying take the time that *bytes_per_s* gives it; 0 is none. *batch* bytes go at once."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._due = time.monotonic()
        self.batch = round_up(int(bytes_per_s * _STEP_S)) if bytes_per_s else _EVERYTHING

    def wait(self, parts: Sequence[Part]) -> None:
        if self._bytes_per_s:
            self._due += sum(part.length for part in parts) / self._bytes_per_s
            time.sleep(max(0.0, self._due - time.monotonic()))
