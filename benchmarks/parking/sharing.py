"""Two to eight sessions on one device: how much slower each of them works, and what the idle and parked ones cost."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.parking.plan import Plan
    from tests.gpu.driven import Driven
    from tests.gpu.rig import Rig

__all__ = ["ALL_WORK", "OTHERS_IDLE", "OTHERS_PARKED", "Sharing", "measure"]

ALL_WORK: Final = "all work"
OTHERS_IDLE: Final = "one works, the others are idle"
OTHERS_PARKED: Final = "one works, the others are parked"
_MARGIN_S: Final = 120.0


@dataclass(slots=True)
class Sharing:
    """Rounds of work a second.

    Attributes:
        alone: of a program that has the device for itself, before and after.
        rates: of each that works, by how many sessions there are and what the others do.
        left_out: why a number of sessions was not measured.
    """

    alone: list[float] = field(default_factory=list)
    rates: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)


async def measure(rig: Rig, plan: Plan) -> Sharing:
    """Every number of sessions that fits."""
    sharing = Sharing()
    sharing.alone += _alone(rig, plan)
    for count in plan.sessions:
        free = rig.device.usable.bytes - rig.used()
        if count * (plan.session_size + rig.context) > free:
            sharing.left_out[count] = f"{free / 1e9:.1f} GB of the device are free"
        else:
            sharing.rates[count] = await _together(rig, plan, count)
    sharing.alone += _alone(rig, plan)
    return sharing


def _alone(rig: Rig, plan: Plan) -> list[float]:
    with rig.filled(plan.session_size) as (program, _):
        return _work([program], plan.work_s)


async def _together(rig: Rig, plan: Plan, count: int) -> dict[str, list[float]]:
    rates = {}
    with ExitStack() as stack:
        programs = [stack.enter_context(rig.filled(plan.session_size, seed))[0] for seed in range(count)]
        rates[ALL_WORK] = _work(programs, plan.work_s)
        rates[OTHERS_IDLE] = _work(programs[:1], plan.work_s)
        async with rig.parking() as parking:
            parked = [await parking.park(parking.target(program, plan.session_size)) for program in programs[1:]]
            rates[OTHERS_PARKED] = _work(programs[:1], plan.work_s)
            for one in parked:
                await parking.resume_at_last(one)
    return rates


def _work(programs: list[Driven], seconds: float) -> list[float]:
    """Rounds a second of each of *programs* while all of them work."""
    for program in programs:
        program.do("work 0.1")  # the first work opens what it needs
    for program in programs:
        program.order(f"work {seconds}")
    return [int(program.wait(seconds + _MARGIN_S)) / seconds for program in programs]
