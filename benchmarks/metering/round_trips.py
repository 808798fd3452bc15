"""How long empty cells take while somebody watches, with a driver that takes 20 ms for each call."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks.metering.fleet import fleet
from benchmarks.metering.kernel_client import KernelClient
from benchmarks.metering.watching import watching
from benchmarks.results import percentile
from benchmarks.servers import NVDASHBOARD, OURS, PLAIN

if TYPE_CHECKING:
    from benchmarks.metering.fleet import Member
    from benchmarks.metering.plan import Plan
    from benchmarks.servers import Workplace

__all__ = ["ARMS", "DELAY_MS", "RoundTrips", "measure"]

DELAY_MS: Final = 20.0
ARMS: Final = {
    "plain A": (PLAIN, None),
    "plain B": (PLAIN, None),
    "ours, watched": (OURS, "jupyter_gpushare"),
    "nvdashboard, watched": (NVDASHBOARD, "nvdashboard at 100 ms"),
}
_WARM_UP_CELLS: Final = 20


@dataclass(slots=True)
class RoundTrips:
    """Milliseconds by arm, one median and one 99th percentile for each window."""

    median: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    p99: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cells: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def measure(workplace: Workplace, plan: Plan) -> RoundTrips:
    """Interleaved windows, in another order in each round."""
    found = RoundTrips()
    names = list(ARMS)
    with fleet(workplace, {name: extension for name, (extension, _) in ARMS.items()}, delay_ms=DELAY_MS) as members:
        for number in range(plan.rounds):
            for place in range(len(names)):
                name = names[(place + number) % len(names)]
                times = _window(members[name], ARMS[name][1], plan)
                found.median[name].append(statistics.median(times))
                found.p99[name].append(percentile(times, 99))
                found.cells[name] += len(times)
    return found


def _window(member: Member, front_end: str | None, plan: Plan) -> list[float]:
    watched = contextlib.nullcontext() if front_end is None else watching(member.server, front_end, 1)
    with KernelClient(member.server, member.kernel_id) as client, watched:
        deadline = time.monotonic() + plan.cells_s
        times: list[float] = []
        while len(times) < plan.cells + _WARM_UP_CELLS and (not times or time.monotonic() < deadline):
            times.append(client.round_trip_ms())
    return times[_WARM_UP_CELLS:] or times[-1:]
