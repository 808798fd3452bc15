"""How long one decision takes, without keeping it, as the number of leases grows."""

from __future__ import annotations

import math
import random
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.broker.books import books
from benchmarks.replay.world import World
from benchmarks.results import percentile
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.event import Attested, Running, Wanted
from jupyter_gpushare.rules.lease import Status, Target

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["SIZES", "Growth", "Sample", "measure", "slope"]

SIZES: Final[tuple[int, ...]] = (100, 300, 1000, 3000, 10_000)
_BEGINS_S: Final = 1_000_000.0
_BETWEEN_S: Final = 0.37
_ANSWER_S: Final = 1.0
_STATE: Final = Memory(8 << 30)


@dataclass(frozen=True, slots=True)
class Sample:
    """One size: milliseconds of its decisions, and how long its books took to be made of their parts."""

    leases: int
    median_ms: float
    p99_ms: float
    longest_ms: float
    decisions: int
    load_s: float


@dataclass(frozen=True, slots=True)
class Growth:
    """All sizes. *slope*: 1 means that a decision takes as many times longer as there are more leases."""

    samples: tuple[Sample, ...]
    slope: float


class _Obedient:
    """A holder that does what it is asked, a second later."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: tuple[Status, int] | None = None

    def changed(self, lease: Lease) -> None:
        if self._seen == (lease.status, lease.epoch):
            return
        self._seen = (lease.status, lease.epoch)
        if lease.status in (Status.GRANTED, Status.RESUMING):
            self._world.after(_ANSWER_S, lambda: self._world.tell(Running(lease.id, lease.epoch)))
        elif lease.status in (Status.PARKING, Status.YIELDING):
            self._world.after(_ANSWER_S, lambda: self._world.tell(Attested(lease.id, lease.epoch)))


def measure(leases: int, wishes: int, seed: int = 1) -> Sample:
    """Let *wishes* random sessions park or come back, some three each second, and time every decision that follows."""
    rng = random.Random(seed)  # noqa: S311  # a simulation
    began = time.perf_counter()
    world = World(books(leases, _BEGINS_S))
    load_s = time.perf_counter() - began
    world.now = _BEGINS_S
    for key in world.books.leases:
        world.holders[key] = _Obedient(world)
    sessions = sorted(key for key, lease in world.books.leases.items() if lease.is_session)
    for number in range(wishes):
        world.at(_BEGINS_S + number * _BETWEEN_S, lambda: _wish(world, rng.choice(sessions)))
    world.run(_BEGINS_S + wishes * _BETWEEN_S)
    times = [seconds * 1000 for seconds in world.decision_s]
    p99 = percentile(times, 99)
    return Sample(leases, statistics.median(times), p99, max(times), len(times), load_s)


def slope(samples: list[Sample]) -> float:
    """Of the medians over the number of leases, both as logarithms; least squares."""
    x = [math.log(each.leases) for each in samples]
    y = [math.log(each.median_ms) for each in samples]
    return statistics.linear_regression(x, y).slope


def _wish(world: World, key: str) -> None:
    lease = world.books.leases[key]
    if lease.target is Target.RUNNING:
        world.tell(Wanted(key, Target.PARKED, "timer", _STATE))
    else:
        world.tell(Wanted(key, Target.RUNNING))
