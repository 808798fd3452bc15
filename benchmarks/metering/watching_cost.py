"""CPU time, memory and bytes of watched and unwatched servers, in interleaved windows."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks.metering.cost import CpuClock, resident_bytes
from benchmarks.metering.fleet import fleet
from benchmarks.metering.plan import WATCHED
from benchmarks.metering.watching import watching
from benchmarks.servers import NVDASHBOARD, OURS, PLAIN, RESOURCE_USAGE

if TYPE_CHECKING:
    from benchmarks.metering.fleet import Member
    from benchmarks.metering.plan import Plan, Watched
    from benchmarks.servers import Workplace

__all__ = ["SERVERS", "WatchingCost", "measure"]

SERVERS: Final = {
    "plain A": PLAIN,
    "plain B": PLAIN,
    "ours": OURS,
    "ours, held": OURS,
    "ours, nothing held": OURS,
    "nvdashboard": NVDASHBOARD,
    "resource-usage": RESOURCE_USAGE,
}
_MINUTE_S: Final = 60.0


@dataclass(slots=True)
class WatchingCost:
    """Figures by arm, one for each window; CPU in seconds a minute, the rest in bytes.

    Attributes:
        cpu: the server's CPU time in the window.
        above_plain: the same less that of plain server A in the very same window.
        between_plain: plain server A less plain server B in each window: what is noise.
        resident: memory at the window's end.
        received: bytes a minute of all watchers together.
        unwatched: CPU above plain server A of the servers that nobody watches, over each round.
        calls_unwatched: driver calls of those, over the whole experiment.
    """

    cpu: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    above_plain: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    between_plain: list[float] = field(default_factory=list)
    resident: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    received: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    unwatched: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    calls_unwatched: dict[str, int] = field(default_factory=dict)


def measure(workplace: Workplace, plan: Plan) -> WatchingCost:
    """All windows: in each round every arm once, starting with another one each time.

    The plain servers are measured in the same windows as each arm, so that what else the machine does falls on both.
    """
    cost = WatchingCost()
    with fleet(workplace, SERVERS, holding_nothing="ours, nothing held") as members:
        time.sleep(plan.settle_s)
        unwatched = {name: members[name] for name in ("ours, nothing held", "ours, held")}
        calls = {name: member.server.driver_calls for name, member in unwatched.items()}
        for number in range(plan.rounds):
            _measure_round(cost, members, plan, number)
        for name, member in unwatched.items():
            cost.calls_unwatched[name] = member.server.driver_calls - calls[name]
        for name in ("plain A", "plain B", *unwatched):
            cost.resident[name].append(resident_bytes(members[name].server.pid))
    return cost


def _measure_round(cost: WatchingCost, members: dict[str, Member], plan: Plan, number: int) -> None:
    quiet = {name: CpuClock(members[name].server.pid) for name in ("plain A", "ours, held", "ours, nothing held")}
    began = time.monotonic()
    for place in range(len(WATCHED)):
        _measure_window(cost, members, WATCHED[(place + number) % len(WATCHED)], plan)
    minutes = (time.monotonic() - began) / _MINUTE_S
    laps = {name: clock.lap_s() / minutes for name, clock in quiet.items()}
    for name in ("ours, held", "ours, nothing held"):
        cost.unwatched[name].append(laps[name] - laps["plain A"])


def _measure_window(cost: WatchingCost, members: dict[str, Member], arm: Watched, plan: Plan) -> None:
    server = members[arm.server].server
    with watching(server, arm.front_end, arm.watchers) as watchers:
        time.sleep(plan.settle_s)
        pids = [server.pid, *(members[name].server.pid for name in ("plain A", "plain B"))]
        clocks, received = [CpuClock(pid) for pid in pids], watchers.received()
        time.sleep(plan.window_s)
        own, plain_a, plain_b = (clock.lap_s() * _MINUTE_S / plan.window_s for clock in clocks)
        cost.received[arm.name].append((watchers.received() - received) * _MINUTE_S / plan.window_s)
        cost.resident[arm.name].append(resident_bytes(server.pid))
    cost.cpu[arm.name].append(own)
    cost.above_plain[arm.name].append(own - plain_a)
    cost.between_plain.append(plain_a - plain_b)
