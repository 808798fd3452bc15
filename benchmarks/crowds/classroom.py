"""A class: far more students than GPUs, of whom a few compute at any time. Best effort, first come first served."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks.crowds.peaks import Peaks
from benchmarks.replay.account import Account
from benchmarks.replay.costs import Costs
from benchmarks.replay.notebooks import Notebook
from benchmarks.replay.policy import Policy, ours
from benchmarks.replay.site import POOL, site
from benchmarks.replay.trace import Execution, Session
from benchmarks.replay.world import World
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from jupyter_gpushare.rules.step import Step

__all__ = ["Classroom", "Lesson", "run"]

_BEGINS_S: Final = 1000.0
_LASTS_S: Final = 4 * 3600.0
_ARRIVE_WITHIN_S: Final = 600.0
_SPELL_S: Final = 300.0
_THINK_S: Final = (10.0, 60.0)
_CELL_S: Final = (2.0, 40.0)
_GPUS_PER_HOST: Final = 4
#: Whoever the rules park is booked with all that its share may use: 40 students to a host with half a GPU each.
_USABLE: Final = Memory(32 << 30)
_BUDGET: Final = Memory(10**12)


@dataclass(frozen=True, slots=True)
class Classroom:
    """How it is set up: one in *one_in* students is at work at any time, in spells of about five minutes."""

    students: int = 200
    gpus: int = 20
    part: Fraction = Fraction.parse("0.5")  # noqa: RUF009  # immutable
    one_in: int = 5
    timeout_min: float = 2.0
    minimum_turn_s: float = 60.0
    costs: Costs = field(
        default_factory=lambda: Costs(median_state=3e9, sigma_state=0.5, largest_state=32e9, jitter=0.1)
    )
    seed: int = 1

    @property
    def policy(self) -> Policy:
        """When an idle notebook is parked though nobody waits."""
        return ours(self.timeout_min)


@dataclass(slots=True)
class Lesson:
    """What came of it: *admitted* students had a GPU at some time; *refused* ones were told no."""

    account: Account
    peaks: Peaks
    admitted: int
    refused: list[str]


def run(plan: Classroom) -> Lesson:
    """Four hours of it."""
    promised = plan.part.millionths * plan.students
    times = Fraction(-(-promised // plan.gpus))
    pool = Pool(POOL, resume="best-effort", oversubscribe=times, minimum_turn_s=plan.minimum_turn_s)
    hosts = -(-plan.gpus // _GPUS_PER_HOST)
    books = site(hosts, pool, budget=_BUDGET, copies=4, saves=4, devices_per_host=_GPUS_PER_HOST, usable=_USABLE)
    world, account, peaks, register = World(books), Account(), Peaks(), _Register()
    world.watchers += [peaks, register]
    students = [_student(world, account, plan, number) for number in range(plan.students)]
    for student in students:
        student.begin()
    world.run(_BEGINS_S + 2 * _LASTS_S)
    account.unfinished += [each.explain() for each in students if not each.is_over]
    return Lesson(account, peaks, len(register.admitted), register.refused)


def _student(world: World, account: Account, plan: Classroom, number: int) -> Notebook:
    rng = random.Random(f"{plan.seed} {number}")  # noqa: S311  # a simulation
    return Notebook(
        world,
        Session(f"student-{number:03}", 1, tuple(_cells(plan, rng))),
        plan.policy,
        account,
        plan.costs,
        share=Share(plan.part, plan.part),
        memory=plan.costs.state(plan.part.gpus, rng),
        rng=rng,
        tells_idle=True,
    )


def _cells(plan: Classroom, rng: random.Random) -> list[Execution]:
    """Spells of cells, with pauses that make one in so many active."""
    cells: list[Execution] = []
    now = _BEGINS_S + rng.uniform(0, _ARRIVE_WITHIN_S)
    while now < _BEGINS_S + _LASTS_S:
        until = now + rng.uniform(0.5, 1.5) * _SPELL_S
        while now < until:
            duration = rng.uniform(*_CELL_S)
            cells.append(Execution(now, duration))
            now += duration + rng.uniform(*_THINK_S)
        now += (plan.one_in - 1) * rng.uniform(0.5, 1.5) * _SPELL_S
    return cells


class _Register:
    """Who was ever granted something, and who was refused."""

    def __init__(self) -> None:
        self.admitted: set[str] = set()
        self.refused: list[str] = []

    def __call__(self, step: Step) -> None:
        for lease in step.change.leases.values():
            if lease.grants:
                self.admitted.add(lease.person)
            elif lease.is_over and lease.person not in self.admitted:
                self.refused.append(f"{lease.person}: {lease.reason}")
