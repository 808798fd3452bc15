"""One program's memory, moved in three ways in one run: by us, by the driver's bare calls, over the bus alone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks.parking.plan import GB
from jupyter_gpushare.parking.headroom import memory_available
from tests.gpu.driven import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.parking.plan import Plan
    from tests.gpu.driven import Driven
    from tests.gpu.rig import Parking, Rig

__all__ = ["BARE", "BUS", "OURS", "Moves", "measure"]

OURS: Final = "jupyter_gpushare"
BARE: Final = "bare driver calls"
BUS: Final = "chunked page-locked copy"
_HOST_MARGIN: Final = 8 * GB


@dataclass(slots=True)
class Moves:
    """Seconds of each move.

    Attributes:
        out: off the device, by size and way.
        back: onto it.
        left_out: why a size was not measured.
        intact: whether all contents were the same afterwards.
    """

    out: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    back: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)
    intact: bool = True


async def measure(rig: Rig, plan: Plan) -> Moves:
    """Every size that fits, in every way."""
    moves = Moves()
    async with rig.parking() as parking:
        for size in plan.sizes:
            if why := _why_not(rig, size):
                moves.left_out[size] = why
            else:
                await _measure_size(rig, parking, plan, size, moves)
    return moves


def _why_not(rig: Rig, size: int) -> str:
    free = rig.device.usable.bytes - rig.used() - rig.context
    if size > free:
        return f"{free / GB:.1f} GB of the device are free"
    available = None if rig.simulated else memory_available()
    if available is not None and size + _HOST_MARGIN > available:
        return f"the host has {available / GB:.1f} GB of memory available"
    return ""


async def _measure_size(rig: Rig, parking: Parking, plan: Plan, size: int, moves: Moves) -> None:
    ways: dict[str, Callable[[Driven, int], Awaitable[tuple[float, float]]]] = {
        OURS: lambda program, size: _ours(parking, program, size),
        BARE: lambda program, _: _bare(rig, program),
        BUS: lambda program, _: _bus(program),
    }
    out = moves.out.setdefault(size, {way: [] for way in ways})
    back = moves.back.setdefault(size, {way: [] for way in ways})
    with rig.filled(size) as (program, digest):
        await _ours(parking, program, size)  # the first of all starts the checkpoint process
        for number in range(plan.rounds):
            names = list(ways)
            for way in names[number % len(names) :] + names[: number % len(names)]:
                went, came = await ways[way](program, size)
                out[way].append(went)
                back[way].append(came)
        moves.intact &= program.do("digest") == digest


async def _ours(parking: Parking, program: Driven, size: int) -> tuple[float, float]:
    target = parking.target(program, size)
    began = time.perf_counter()
    parked = await parking.park(target)
    went = time.perf_counter() - began
    await parking.device_is_free()
    began = time.perf_counter()
    await parking.resume(parked)
    return went, time.perf_counter() - began


async def _bare(rig: Rig, program: Driven) -> tuple[float, float]:
    went = sum(called.seconds for called in rig.bare.park(program.pid))
    until(lambda: rig.used() < rig.at_first + rig.unit // 2, "the freed memory")
    return went, sum(called.seconds for called in rig.bare.resume(program.pid))


async def _bus(program: Driven) -> tuple[float, float]:
    return float(program.do("copy out")), float(program.do("copy in"))
