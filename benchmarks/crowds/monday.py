"""Monday at nine: everybody's notebook is parked, all of it is lent, and everybody runs a cell within a minute."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from benchmarks.crowds.peaks import Peaks
from benchmarks.replay.account import Account
from benchmarks.replay.costs import Costs
from benchmarks.replay.notebooks import Notebook
from benchmarks.replay.policy import ours
from benchmarks.replay.site import POOL, site
from benchmarks.replay.trace import Execution, Session
from benchmarks.replay.training import Demand, Job
from benchmarks.replay.world import World
from jupyter_gpushare.broker.pacing import Pacing
from jupyter_gpushare.broker.reconciler import Published
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.estimate import estimates
from jupyter_gpushare.rules.event import Using
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.step import Step

__all__ = ["Monday", "Morning", "run"]

_FRIDAY_S: Final = 1000.0
_SATURDAY_S: Final = 24 * 3600.0
_MONDAY_S: Final = 64 * 3600.0
_WITHIN_S: Final = 60.0
_CELL_S: Final = 30.0
_DEVICES_PER_HOST: Final = 8
_USABLE: Final = Memory(80 << 30)


_COSTS: Final = Costs(
    out_bytes_per_s=5e9, in_bytes_per_s=6e9, sigma_state=0.6, largest_state=17e9, deaf=0.0, jitter=0.1
)


@dataclass(frozen=True, slots=True)
class Monday:
    """How it is set up: *sessions* share *devices* evenly; jobs ask for *job_part* of one each.

    Of the jobs, *safe_points* park and the others save themselves. Every copy and save takes a little more or less
    than it should. On Saturday one session in *saturday* runs a cell: of that, and of Friday's parking, the broker has
    learned how fast everything is; it is told nothing.
    """

    sessions: int = 200
    devices: int = 40
    job_part: Fraction = Fraction.ONE
    copies: int = 2
    saves: int = 4
    safe_points: float = 0.0
    saturday: int = 10
    seed: int = 1

    @property
    def costs(self) -> Costs:
        """What takes how long."""
        state = Memory(self.job_part.of(_USABLE).bytes * 9 // 10)
        return replace(_COSTS, safe_points=self.safe_points, job_state=state)


@dataclass(slots=True)
class Morning:
    """What came of it.

    Attributes:
        account: waits, losses, unfinished sessions.
        peaks: copies and saves at once.
        lent: GPUs on loan just before nine.
        shown: (the estimate, how long it then took) for each session that was given one. The estimate judged is the
            first that its user can see: of the very commit that says that the session is wanted back, which the broker
            sends at once, within 2 s of the cell. Later ones, which know who else came, are not judged.
        unknown: sessions that were given none.
    """

    account: Account
    peaks: Peaks
    lent: float
    shown: list[tuple[float, float]]
    unknown: int

    @property
    def near(self) -> float:
        """The part of all estimates that were within 30 % of what came."""
        good = sum(abs(took - told) <= 0.3 * took for told, took in self.shown)
        return good / max(1, len(self.shown) + self.unknown)


def run(plan: Monday) -> Morning:
    """Park them all on Friday, and bring them all back on Monday."""
    hosts = plan.devices // _DEVICES_PER_HOST
    pool = Pool(POOL, grace_s=plan.costs.grace_s)
    world = World(site(hosts, pool, budget=Memory(1500 * 10**9), copies=plan.copies, saves=plan.saves))
    account, peaks, watch = Account(), Peaks(), _Watch(world)
    world.watchers.append(watch.learn)
    notebooks = [_notebook(world, account, plan, number) for number in range(plan.sessions)]
    for notebook in notebooks:
        notebook.begin()
    rng = random.Random(plan.seed)  # noqa: S311  # a simulation
    share = Share(plan.job_part, plan.job_part)
    demand = Demand(world, account, plan.costs, share=share, waiting=8, rng=rng)
    world.at(_FRIDAY_S + 7200.0, demand.fill)
    world.run(_MONDAY_S - 1)
    lent = sum(books.lent.gpus for books in world.books.device_books.values())
    world.watchers += [peaks, watch.judge]
    # Friday's cells are not Monday's.
    account.executions = 0
    account.waits.clear()
    world.run(_MONDAY_S + 3600.0)
    account.unfinished += [each.explain() for each in notebooks if not each.is_over]
    return Morning(account, peaks, lent, watch.shown, watch.unknown)


def _notebook(world: World, account: Account, plan: Monday, number: int) -> Notebook:
    rng = random.Random(f"{plan.seed} {number}")  # noqa: S311  # a simulation
    part = Fraction(Fraction.PER_GPU * plan.devices // plan.sessions)
    begins = [_FRIDAY_S + rng.uniform(0, 600.0), _MONDAY_S + rng.uniform(0, _WITHIN_S)]
    if rng.random() * plan.saturday < 1:
        begins.insert(1, _SATURDAY_S + rng.uniform(0, 3600.0))
    return Notebook(
        world,
        Session(f"person-{number:03}", 1, tuple(Execution(when, _CELL_S) for when in begins)),
        replace(ours(10), name="monday"),
        account,
        plan.costs,
        share=Share(part, part),
        memory=plan.costs.state(1.0, rng),
        rng=rng,
    )


class _Watch:
    """What each session was told when it wanted to come back, and when it was back."""

    def __init__(self, world: World) -> None:
        self.shown: list[tuple[float, float]] = []
        self.unknown = 0
        self._world = world
        self._pacing = Pacing()
        self._books = world.books
        self._told: dict[str, tuple[float, float | None]] = {}

    def learn(self, step: Step) -> None:
        """See what the broker sees: the devices show what jobs hold, moves show how fast they are."""
        for lease in step.change.leases.values():
            holder = self._world.holders.get(lease.id)
            if isinstance(holder, Job) and lease.status is Status.RUNNING and lease.uses is None:
                self._world.tell(Using(lease.id, holder.memory))
        self._pacing.published(Published(self._books, step.snapshot, step.change))
        self._books = step.snapshot

    def judge(self, step: Step) -> None:
        """Keep what those are told who want to come back, and how long it took those who are back."""
        back = [lease for lease in step.change.leases.values() if lease.is_session and lease.wanted_since is not None]
        new = [lease for lease in back if lease.id not in self._told]
        if new:
            known = estimates(step.snapshot, self._world.now, self._pacing.paces)
            self._told |= {lease.id: (self._world.now, known.get(lease.id)) for lease in new}
        for lease in step.change.leases.values():
            self._note(lease)

    def _note(self, lease: Lease) -> None:
        if lease.status is not Status.RUNNING or lease.id not in self._told:
            return
        asked, told = self._told.pop(lease.id)
        if told is None:
            self.unknown += 1
        else:
            self.shown.append((told, self._world.now - asked))
