"""One policy over one trace."""

from __future__ import annotations

import random
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from benchmarks.replay.account import Account
from benchmarks.replay.costs import Costs
from benchmarks.replay.notebooks import Notebook
from benchmarks.replay.policy import Policy  # noqa: TC001  # kept outcomes are decoded by it
from benchmarks.replay.reconciled import Reconciled
from benchmarks.replay.site import GPUS_PER_HOST, POOL, hosts_for, site
from benchmarks.replay.trace import Execution, Session
from benchmarks.replay.training import Demand
from benchmarks.replay.world import World
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.step import step
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


__all__ = ["Conditions", "Outcome", "replay"]

#: Long before the first cell: nothing happens at a negative time.
_DAY_S = 86400.0
_REST_S = 3 * 3600.0
_BUDGET = Memory(1500 * 10**9)


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a run is set up.

    Attributes:
        costs: what takes how long.
        seed: for state sizes, manners of jobs and failures.
        part: the share of each GPU that a session has; jobs ask for as much of one.
        copies: parks and resumes at once on a host.
        saves: jobs that save at once on a host.
        budget: host memory for parked state, of each host.
        fails: the chance that a park fails.
        spare: hosts beyond those that the reservation of everything needs.
        is_kept: the reconciler decides and keeps, as in the broker; without, the rules alone decide, which is faster.
    """

    costs: Costs = field(default_factory=Costs)
    seed: int = 1
    part: Fraction = Fraction.ONE
    copies: int = 4
    saves: int = 8
    budget: Memory = _BUDGET
    fails: float = 0.0
    spare: int = 2
    is_kept: bool = True

    def told(self) -> dict[str, Any]:
        """For a file: amounts as people write them."""
        return {**asdict(self), "part": str(self.part), "budget": str(self.budget)}

    def hostile(self) -> Conditions:
        """One park in a hundred fails, and the host memory is a tenth."""
        return replace(self, fails=0.01, budget=Memory(self.budget.bytes // 10))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave, and what it took us."""

    policy: Policy
    account: Account
    hosts: int
    sessions: int
    decisions: int
    decision_ms: tuple[float, float, float]
    seconds: float


def replay(
    sessions: Sequence[Session], policy: Policy, conditions: Conditions, *, say: Callable[[str], None] | None = None
) -> Outcome:
    """Run *sessions* under *policy* until the last of them has ended; *say* hears of the progress."""
    began = time.monotonic()
    account, hosts = Account(), hosts_for(sessions, conditions.part) + conditions.spare
    pool = Pool(POOL, grace_s=conditions.costs.grace_s)
    books = site(hosts, pool, budget=conditions.budget, copies=conditions.copies, saves=conditions.saves)
    with Reconciled(books) if conditions.is_kept else nullcontext(step) as decide:
        world = World(books, decide)
        _play(world, sessions, policy, account, conditions, say=say)
    return Outcome(policy, account, hosts, len(sessions), *_speed(world), time.monotonic() - began)


def _play(
    world: World,
    sessions: Sequence[Session],
    policy: Policy,
    account: Account,
    conditions: Conditions,
    *,
    say: Callable[[str], None] | None,
) -> None:
    notebooks = [_notebook(world, session, policy, account, conditions) for session in sessions]
    demand = _demand(world, account, conditions)
    for notebook in notebooks:
        notebook.begin()
    world.at(0.0, demand.fill)
    end = _DAY_S + max(session.ends_s for session in sessions) + _REST_S
    _run(world, end, say)
    demand.settle()
    account.unfinished += [each.explain() for each in notebooks if not each.is_over]


def _notebook(world: World, session: Session, policy: Policy, account: Account, conditions: Conditions) -> Notebook:
    rng = random.Random(f"{conditions.seed} {session.name}")  # noqa: S311  # a simulation
    later = tuple(Execution(each.submit_s + _DAY_S, each.duration_s) for each in session.executions)
    return Notebook(
        world,
        Session(session.name, session.gpus, later),
        policy,
        account,
        conditions.costs,
        share=Share(conditions.part, conditions.part, session.gpus),
        memory=conditions.costs.state(session.gpus * conditions.part.gpus, rng),
        rng=rng,
        fails=conditions.fails,
    )


def _demand(world: World, account: Account, conditions: Conditions) -> Demand:
    return Demand(
        world,
        account,
        conditions.costs,
        share=Share(conditions.part, conditions.part),
        waiting=GPUS_PER_HOST,
        rng=random.Random(conditions.seed),  # noqa: S311  # a simulation
    )


def _run(world: World, end: float, say: Callable[[str], None] | None) -> None:
    day = 0.0
    while day < end:
        day += _DAY_S
        world.run(min(day, end))
        if say is not None:
            say(f"day {day / _DAY_S:.0f} of {end / _DAY_S:.0f}, {len(world.decision_s)} decisions")


def _speed(world: World) -> tuple[int, tuple[float, float, float]]:
    times = sorted(world.decision_s)
    if not times:
        return 0, (0.0, 0.0, 0.0)
    median, high, longest = times[len(times) // 2], times[len(times) * 99 // 100], times[-1]
    return len(times), (1000 * median, 1000 * high, 1000 * longest)
