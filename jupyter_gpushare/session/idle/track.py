"""What the watch remembers of one kernel from look to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.session.idle.countdown import Countdown
from jupyter_gpushare.session.idle.cpu_time import CpuWindow
from jupyter_gpushare.session.idle.evidence import UNREADABLE, Evidence, Signal
from jupyter_gpushare.session.idle.quiet import CounterRun, UtilisationRun

if TYPE_CHECKING:
    from jupyter_gpushare.session.idle.cpu_time import Tree
    from jupyter_gpushare.session.idle.policy import Judgement
    from jupyter_gpushare.session.idle.sight import Sight
    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.wire import PolicyModel

__all__ = ["Refused", "Track"]


@dataclass(frozen=True, slots=True)
class Refused:
    """A park that was refused, and how things were: it is not tried again while they stay so, until *until*."""

    until: float
    cell_ended: float
    memory: int | None
    policy: PolicyModel

    def stands(self, track: Track, policy: PolicyModel, now: float) -> bool:
        """Whether another try would be the same try."""
        same = (self.cell_ended, self.memory, self.policy) == (track.cell_ended, track.sight.memory, policy)
        return same and now < self.until


class Track:
    """One kernel that holds GPU memory.

    Attributes:
        sight: the newest.
        cell_ended: when its last cell ended, as far as it was noticed here.
        countdown: to its park.
        judgement: the newest; None while it is parked, or was not looked at yet.
        shown: the same as people are to see it.
        refused: the last park that was refused.
        told_refusal: since when it was idle, and why it could not be parked, as it was counted last.
    """

    def __init__(self, sight: Sight, *, stale_s: float) -> None:
        self.sight = sight
        self.cell_ended = 0.0
        self.countdown = Countdown()
        self.judgement: Judgement | None = None
        self.shown: Judgement | None = None
        self.refused: Refused | None = None
        self.told_refusal: tuple[float, str] | None = None
        self._stale_s = stale_s
        self.begin_anew()

    def begin_anew(self) -> None:
        """What was seen so far says nothing about now: it was parked meanwhile."""
        self._cpu = CpuWindow()
        self._utilisation = UtilisationRun(self._stale_s)
        self._device = UtilisationRun(self._stale_s)
        self._allocations = CounterRun()
        self.countdown = Countdown()
        self.judgement = self.shown = None

    def see(self, sight: Sight, at: float) -> None:
        """Take what a sample of *at* shows of it."""
        self.sight = sight
        self._utilisation.note(at, sight.utilisation)
        self._device.note(at, sight.device)
        self._allocations.note(at, sight.allocated)

    def take_cpu(self, at: float, tree: Tree) -> None:
        """Take a reading of its process tree."""
        self._cpu.note(at, tree)

    def follow_cells(self, kernel: Kernel) -> None:
        """CPU time until the end of the last cell is that cell's, and no sign of work behind it."""
        if kernel.cells or kernel.idle_since != self.cell_ended:
            self._cpu.restart()
            self.cell_ended = kernel.idle_since

    def evidence(
        self, kernel: Kernel, *, execution_state: str, held: int, kept_until: float | None, now: float
    ) -> Evidence:
        """All that is known of it at *now*."""
        device = self._device.signal(now)
        return Evidence(
            cell_ended=kernel.idle_since,
            cell_began=kernel.busy_since,
            execution_state=execution_state,
            held=held,
            cpu=self._cpu.signal,
            utilisation=self._utilisation.signal(now),
            device=_if_quiet(device),
            allocations=self._allocations.signal,
            memory=self.sight.memory,
            kept_until=kept_until,
        )


def _if_quiet(device: Signal) -> Signal:
    """A device in use may be in use by others: only its silence says something about this kernel."""
    return UNREADABLE if device.quiet_since is None else device
