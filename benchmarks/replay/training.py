"""Simulated training: an endless queue of jobs that live on what is free or lent, and what their computing is worth."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from benchmarks.replay.notebooks import Notebook
from jupyter_gpushare.rules.event import Attested, Running, Submitted, Wanted
from jupyter_gpushare.rules.lease import Kind, Lease, Status, Target

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from benchmarks.replay.account import Account, Gap
    from benchmarks.replay.costs import Costs
    from benchmarks.replay.world import World
    from jupyter_gpushare.quantity import Memory
    from jupyter_gpushare.share import Share

__all__ = ["TRAINING", "Demand", "Job", "Manner"]

#: The project of all jobs. It has no quota.
TRAINING: Final = "training"

#: What a job does when it is called back: park at its next safe point; save to disk; nothing.
Manner = Literal["parks", "saves", "deaf"]


@dataclass(slots=True)
class _Turn:
    """From a grant or resume to its release.

    Attributes:
        since: when it got its devices.
        computing_since: when it began to compute; None before that.
        stopped: when it stopped computing.
        lent: GPU-seconds by the gap of the session that lent them.
        counted_until: up to when *lent* is counted.
    """

    since: float
    counted_until: float
    computing_since: float | None = None
    stopped: float | None = None
    lent: dict[int, tuple[Gap, float]] = field(default_factory=dict)


class Job:
    """One job. It never ends: as long as there is room it computes."""

    def __init__(self, demand: Demand, lease: Lease, manner: Manner, memory: Memory) -> None:
        self.lease = lease
        self.manner: Final = manner
        self.memory: Final = memory
        self.is_elsewhere = False
        self._demand, self._world, self._costs = demand, demand.world, demand.costs
        self._seen: tuple[Status, int] | None = None
        self._turn: _Turn | None = None

    def changed(self, lease: Lease) -> None:
        """Count what it had until now, then do what its new status asks for, once."""
        self._count()
        was, self.lease = self._seen, lease
        self._seen = (lease.status, lease.epoch)
        if self._seen != was:
            self._enter(lease)

    def go_elsewhere(self) -> None:
        """Leave the queue with what it has saved."""
        self.is_elsewhere = True
        self._world.tell(Wanted(self.lease.id, Target.ENDED))

    def settle(self) -> None:
        """Count up to now, at the end of a run."""
        self._count()
        self._end_turn(lost_s=0.0)

    def _enter(self, lease: Lease) -> None:
        match lease.status:
            case Status.GRANTED:
                self._begin_turn()
                self._after(self._costs.job_start_s, self._computes)
            case Status.RESUMING:
                self._begin_turn()
                self._after(self._demand.about(self._costs.in_s(self.memory)), self._computes)
            case Status.PARKING:
                self._after(self._costs.job_step_s, self._stops)
                copy_s = self._demand.about(self._costs.out_s(self.memory))
                self._after(self._costs.job_step_s + copy_s, self._has_released)
            case Status.YIELDING:
                self._yield()
            case Status.QUEUED:
                self._demand.waits(self)
            case Status.FAILED | Status.ENDED if not self.is_elsewhere:
                self._demand.account.losses.append(f"{lease.id} is over: {lease.reason}")
            case _:
                pass

    def _yield(self) -> None:
        costs = self._costs
        grace_s = costs.grace_s if self.lease.grace_s is None else self.lease.grace_s
        if self._turn is not None and self._turn.computing_since is None:
            self._after(0.0, self._has_released)  # it has not begun: there is nothing to save
        elif self.manner == "deaf":
            self._after(grace_s, self._is_stopped_by_force)
        else:
            self._stops(self.lease)
            self._after(min(self._demand.about(costs.job_save_s), grace_s), self._has_released)

    def _after(self, delay_s: float, action: Callable[[Lease], None]) -> None:
        """Do *action* unless the lease has gone on meanwhile."""
        began, lease = self._seen, self.lease
        self._world.after(delay_s, lambda: action(lease) if self._seen == began else None)

    def _begin_turn(self) -> None:
        self._turn = _Turn(self._world.now, self._world.now)
        self._demand.began(self)

    def _computes(self, lease: Lease) -> None:
        if self._turn is not None:
            self._turn.computing_since = self._world.now
        self._world.tell(Running(lease.id, lease.epoch))

    def _stops(self, _: Lease) -> None:
        if self._turn is not None:
            self._turn.stopped = self._world.now

    def _has_released(self, lease: Lease) -> None:
        self._release(lease, lost_s=0.0)

    def _is_stopped_by_force(self, lease: Lease) -> None:
        """What it did since its last save of its own is lost."""
        since = None if self._turn is None else self._turn.computing_since
        self._stops(lease)
        lost_s = 0.0 if since is None else (self._world.now - since) % self._costs.job_save_every_s
        self._release(lease, lost_s)

    def _release(self, lease: Lease, lost_s: float) -> None:
        self._count()
        self._end_turn(lost_s)
        self._world.tell(Attested(lease.id, lease.epoch))

    def _count(self) -> None:
        """Add what was on loan since the last change to the gaps that it came from."""
        turn, now = self._turn, self._world.now
        if turn is None or now == turn.counted_until:
            return
        for loan in self.lease.loans:
            gap = self._demand.gap_of(loan.lender)
            if gap is not None:
                before = turn.lent.get(id(gap), (gap, 0.0))[1]
                turn.lent[id(gap)] = (gap, before + loan.amount.gpus * (now - turn.counted_until))
        self._demand.account.job_gpu_s += self.lease.amount.gpus * (now - turn.counted_until)
        turn.counted_until = now

    def _end_turn(self, lost_s: float) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        part = self._surviving_part(turn, lost_s)
        for gap, seconds in turn.lent.values():
            gap.lent += seconds
            gap.good += seconds * part

    def _surviving_part(self, turn: _Turn, lost_s: float) -> float:
        """Of the turn: computing, less its own saves and what was lost."""
        if turn.computing_since is None or turn.counted_until <= turn.since:
            return 0.0
        until = turn.counted_until if turn.stopped is None else turn.stopped
        computed = until - turn.computing_since
        saves = computed // self._costs.job_save_every_s
        good = computed - lost_s - saves * self._costs.job_periodic_save_s
        return max(0.0, good) / (turn.counted_until - turn.since)


class Demand:
    """Keeps the queue from running dry, and no longer than it need be.

    A job that had to yield and finds as many others waiting goes elsewhere with what it saved: in a queue without end
    one is as good as the other, and each begins its next turn with the same start.

    Args:
        waiting: how many jobs wait at any time.
        share: of each job.
    """

    def __init__(
        self, world: World, account: Account, costs: Costs, *, share: Share, waiting: int, rng: random.Random
    ) -> None:
        self.world, self.account, self.costs = world, account, costs
        self.jobs: dict[str, Job] = {}
        self._share, self._rng, self._most = share, rng, waiting
        self._numbers = itertools.count(1)
        self._waiting: set[str] = set()

    def fill(self) -> None:
        """Submit as many new jobs as are missing."""
        for _ in range(self._most - len(self._waiting)):
            self._submit()

    def began(self, job: Job) -> None:
        """*job* has got devices: if it was in the queue, another one takes its place there."""
        if job.lease.id in self._waiting:
            self._waiting.discard(job.lease.id)
            self.world.after(0.0, self.fill)

    def waits(self, job: Job) -> None:
        """*job* is in the queue, for the first time or again."""
        if job.lease.id not in self._waiting and len(self._waiting) >= self._most:
            job.go_elsewhere()
            del self.jobs[job.lease.id]
        else:
            self._waiting.add(job.lease.id)

    def about(self, seconds: float) -> float:
        """How long a copy or save takes that should take so many *seconds*."""
        return self.costs.about(seconds, self._rng)

    def gap_of(self, lease: str) -> Gap | None:
        """The gap in which that session is, or was last."""
        lender = self.world.holders.get(lease)
        return lender.gap if isinstance(lender, Notebook) else None

    def settle(self) -> None:
        """Count up to now, at the end of a run."""
        for job in self.jobs.values():
            job.settle()

    def _submit(self) -> None:
        costs, rng = self.costs, self._rng
        weights = (costs.safe_points, 1 - costs.safe_points - costs.deaf, costs.deaf)
        manner: Manner = rng.choices(("parks", "saves", "deaf"), weights)[0]
        now = self.world.now
        name = f"job-{next(self._numbers):06}"
        lease = Lease(
            id=name,
            kind=Kind.TRAINING,
            project=TRAINING,
            person="trainer",
            name=name,
            share=self._share,
            submitted=now,
            since=now,
            is_parkable=manner == "parks",
            grace_s=costs.grace_s,
            start_cost_s=costs.job_start_s,
        )
        memory = costs.state(1.0, rng) if costs.job_state is None else costs.job_state
        job = Job(self, lease, manner, memory)
        self.jobs[name] = job
        self._waiting.add(name)
        self.world.holders[name] = job
        self.world.tell(Submitted(lease))
