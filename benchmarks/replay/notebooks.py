"""A simulated notebook server: it runs its cells, goes idle, is parked or ended, and is brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.replay.account import Gap
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.event import Attested, CouldNot, Idle, Running, Submitted, Wanted
from jupyter_gpushare.rules.lease import Kind, Lease, Status, Target
from jupyter_gpushare.rules.reason import Reason

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from benchmarks.replay.account import Account
    from benchmarks.replay.costs import Costs
    from benchmarks.replay.policy import Policy
    from benchmarks.replay.trace import Execution, Session
    from benchmarks.replay.world import World
    from jupyter_gpushare.quantity import Memory
    from jupyter_gpushare.share import Share

__all__ = ["NOTEBOOKS", "Notebook"]

#: The project of all notebooks.
NOTEBOOKS = "notebooks"
_END_S = 0.5
#: A park that failed is tried again, but not at once.
_TRY_AGAIN_S = 60.0


class Notebook:
    """One session of the trace.

    Args:
        fails: the chance that a park fails for a reason of the session's own.
        memory: its GPU state.
        tells_idle: it reports since when it is idle, as pools with ``best-effort`` want to know.
    """

    def __init__(
        self,
        world: World,
        session: Session,
        policy: Policy,
        account: Account,
        costs: Costs,
        *,
        share: Share,
        memory: Memory,
        rng: random.Random,
        fails: float = 0.0,
        tells_idle: bool = False,
    ) -> None:
        self.session, self.memory = session, memory
        self.lease: Lease | None = None
        self.gap: Gap | None = None
        self._world, self._policy, self._account, self._costs = world, policy, account, costs
        self._share, self._rng, self._fails = share, rng, fails
        self._tells_idle = tells_idle
        self._servers = 0
        self._next = 0
        self._held: list[tuple[Execution, float]] = []
        self._busy = 0
        self._is_state_lost = False
        self._released_at: float | None = None
        self._is_asked = False
        self._seen: tuple[Status, int] | None = None

    def begin(self) -> None:
        """Put its life on the agenda."""
        self._account.expect(self.session, self._gpus)
        self._world.at(self.session.begins_s - self._costs.spawn_s, self._spawn)
        self._world.at(self.session.begins_s, self._cell)

    @property
    def is_over(self) -> bool:
        """Whether all its cells have run."""
        return self._next == len(self.session.executions) and not self._held and not self._busy

    def explain(self) -> str:
        """Where it is, in a sentence."""
        if self.lease is None:
            return f"{self.session.name} has no lease"
        lease = self.lease
        return f"{lease.id} is {lease.status}, to be {lease.target}, since {lease.since:.0f} s: {lease.reason}"

    def changed(self, lease: Lease) -> None:
        """Do what the lease's status asks for, once for each time it gets there."""
        if self.lease is not None and lease.id != self.lease.id:
            return
        was, self.lease = self._seen, lease
        self._seen = (lease.status, lease.epoch)
        if self._seen != was:
            self._enter(lease)
        if lease.status is Status.RUNNING and lease.target is Target.RUNNING and self._is_asked:
            self._refused()

    def _enter(self, lease: Lease) -> None:
        costs = self._costs
        match lease.status:
            case Status.GRANTED:
                self._after(costs.restart_s if self._is_state_lost else 0.0, self._started)
            case Status.RUNNING:
                self._serve()
            case Status.PARKING if self._busy:
                self._world.tell(CouldNot(lease.id, lease.epoch, Reason.NOT_PARKABLE))
                self._world.tell(Wanted(lease.id, Target.RUNNING))
            case Status.PARKING:
                self._after(self._about(costs.out_s(self.memory)), self._parked)
            case Status.PARKED:
                self._released()
            case Status.ENDED if self._held:
                self._spawn()
            case Status.RESUMING:
                self._after(self._about(costs.in_s(self.memory)), self._started)
            case Status.YIELDING:
                self._after(_END_S, self._attest)
            case Status.FAILED:
                self._account.losses.append(f"{lease.id} failed: {lease.reason}")
            case _:
                pass

    def _about(self, seconds: float) -> float:
        return self._costs.about(seconds, self._rng)

    def _after(self, delay_s: float, action: Callable[[Lease], None]) -> None:
        """Do *action* unless the lease has gone on meanwhile."""
        began, lease = self._seen, self.lease
        assert lease is not None
        self._world.after(delay_s, lambda: action(lease) if self._seen == began else None)

    def _spawn(self) -> None:
        self._servers += 1
        lease = Lease(
            id=f"{self.session.name}-{self._servers}",
            kind=Kind.INTERACTIVE,
            project=NOTEBOOKS,
            person=self.session.name,
            name=self.session.name,
            share=self._share,
            submitted=self._world.now,
            since=self._world.now,
            is_parkable=True,
        )
        self.lease, self._seen = lease, None
        self._world.holders[lease.id] = self
        self._world.tell(Submitted(lease))

    def _started(self, lease: Lease) -> None:
        self._world.tell(Running(lease.id, lease.epoch))

    def _attest(self, lease: Lease) -> None:
        self._world.tell(Attested(lease.id, lease.epoch))

    def _parked(self, lease: Lease) -> None:
        if self._rng.random() < self._fails:
            self._world.tell(CouldNot(lease.id, lease.epoch, Reason.NOT_PARKABLE))
        else:
            self._attest(lease)

    def _refused(self) -> None:
        """It runs on; idle as it is, it is tried again later."""
        self._account.not_parked += 1
        self._is_asked = False
        if not self._busy and self.gap is not None:
            self._watch(self._world.now + max(_TRY_AGAIN_S, self._policy.timeout_s))

    def _released(self) -> None:
        self._account.parks += 1
        self._is_asked = False
        if not self._held:
            self._released_at = self._world.now

    def _cell(self) -> None:
        """The next cell is sent."""
        execution = self.session.executions[self._next]
        self._next += 1
        self._account.executions += 1
        if self._next < len(self.session.executions):
            self._world.at(self.session.executions[self._next].submit_s, self._cell)
        self._held.append((execution, self._world.now))
        self._tell_idle(None)
        self._end_of_gap()
        if self._is_running:
            self._serve()
        elif self._next == 1:
            self._account.late_starts += 1
        self._wake()

    @property
    def _is_running(self) -> bool:
        return self.lease is not None and self.lease.status is Status.RUNNING and not self._is_restarting

    @property
    def _is_restarting(self) -> bool:
        """Its kernels were ended while the server kept its GPUs: the next cell starts anew."""
        return self._is_state_lost and self._policy.way == "forget"

    def _end_of_gap(self) -> None:
        if self.gap is not None and self._released_at is not None:
            self.gap.handed_back_s += self._world.now - self._released_at
        self._released_at = None

    def _wake(self) -> None:
        self._is_asked = False
        if self._is_restarting:
            self._world.after(self._costs.restart_s, self._restarted)
        elif self.lease is None or self.lease.is_over:
            self._spawn()
        elif self.lease.target is not Target.RUNNING:
            self._world.tell(Wanted(self.lease.id, Target.RUNNING))

    def _tell_idle(self, since: float | None) -> None:
        if self._tells_idle and self.lease is not None:
            self._world.tell(Idle(self.lease.id, since))

    def _restarted(self) -> None:
        self._is_state_lost = False
        self._serve()

    def _serve(self) -> None:
        """Run what was held."""
        if not self._is_running and not self._busy:
            return
        self._is_state_lost = False
        held, self._held = self._held, []
        for execution, sent in held:
            wait = self._world.now - sent
            if wait > 0:
                self._account.waits.append(wait)
            self._busy += 1
            self._world.after(execution.duration_s, self._cell_ended)

    def _cell_ended(self) -> None:
        self._busy -= 1
        if self._busy or self._held:
            return
        if self._next == len(self.session.executions):
            assert self.lease is not None
            self.gap = None
            self._world.tell(Wanted(self.lease.id, Target.ENDED))
        else:
            self._go_idle()

    def _go_idle(self) -> None:
        now = self._world.now
        until = self.session.executions[self._next].submit_s
        self._idle_since = now
        self.gap = Gap(until - now, self._gpus)
        self._account.gaps.append(self.gap)
        self._tell_idle(now)
        delay = self._policy.delay_s(until - now)
        if delay is not None:
            self._watch(now + delay)
        if self._policy.ahead_s:
            self._world.at(until - self._policy.ahead_s, self._bring_back)

    @property
    def _gpus(self) -> float:
        request = self._share.request
        return self._share.count * (request.gpus if isinstance(request, Fraction) else 1.0)

    def _watch(self, when: float) -> None:
        gap = self.gap
        if when < self.session.executions[self._next].submit_s - self._policy.ahead_s:
            self._world.at(when, lambda: self._give_back() if self.gap is gap and not self._busy else None)

    def _bring_back(self) -> None:
        if not self._held and self.lease is not None and self.lease.target is Target.PARKED:
            self._end_of_gap()
            self._world.tell(Wanted(self.lease.id, Target.RUNNING))

    def _give_back(self) -> None:
        """Idle for long enough."""
        lease = self.lease
        if lease is None or lease.status is not Status.RUNNING or self._held:
            return
        match self._policy.way:
            case "park":
                self._is_asked = True
                self._world.tell(Wanted(lease.id, Target.PARKED, "timer", self.memory))
            case "end":
                self._lose()
                self._released_at = self._world.now
                self._world.tell(Wanted(lease.id, Target.ENDED, "timer"))
            case "forget":
                self._lose()
            case "keep":
                pass

    def _lose(self) -> None:
        self._is_state_lost = True
        self._account.losses.append(f"{self.session.name}: its state was ended at {self._world.now:.0f} s")
