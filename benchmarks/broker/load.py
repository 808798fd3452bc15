"""The service under ten thousand holders: what it answers, how much memory it takes, and how it comes back."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks.broker.asking import ask, get
from benchmarks.broker.holders import Fleet
from benchmarks.broker.service import Service

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Load", "Plan", "measure"]

_DECISIONS: Final = re.compile(r'^gpushare_decision_seconds_bucket\{le="([^"]+)"\} ([0-9.e+]+)$', re.MULTILINE)
#: Fifty shares of 0.02 on each device, and some room.
_LEASES_PER_DEVICE: Final = 45


@dataclass(frozen=True, slots=True)
class Plan:
    """How much: *holders* for *seconds*, of whom *moves_per_s* park or come back."""

    holders: int = 10_000
    seconds: float = 60.0
    moves_per_s: float = 4.0
    core: int = 0


@dataclass(slots=True)
class Load:
    """What was measured.

    Attributes:
        joined_s: until all were welcome at first.
        asked_ms: by route.
        decision_p99_ms: the upper end of the histogram's bucket in which it lies.
        decisions: how many.
        memory: resident bytes, at the end.
        busy: the part of its core that the broker used.
        answered_s: from the start after a kill until the API answered.
        first_s: until the first holder was welcome again, which takes a decision.
        rejoined_s: until all were.
        refused: what holders were told that were refused.
    """

    joined_s: float = 0.0
    asked_ms: dict[str, list[float]] = field(default_factory=dict)
    decision_p99_ms: float = 0.0
    decisions: int = 0
    memory: int = 0
    busy: float = 0.0
    answered_s: float = 0.0
    first_s: float = 0.0
    rejoined_s: float = 0.0
    refused: list[str] = field(default_factory=list)


async def measure(folder: Path, plan: Plan) -> Load:
    """Start it in *folder*, load it, kill it, and wait until everybody is back."""
    load = Load()
    with Service(folder, -(-plan.holders // _LEASES_PER_DEVICE), plan.core) as service:
        service.start()
        await service.answers()
        fleet = Fleet(service.socket, plan.holders)
        load.joined_s = await fleet.join()
        print(f"  {fleet.connected} of {plan.holders} joined in {load.joined_s:.1f} s", flush=True)
        await _under_load(service, fleet, plan, load)
        print("  killed; they come back ...", flush=True)
        await _after_a_kill(service, fleet, load)
        load.refused = sorted({member.refused for member in fleet.members if member.refused})
        await fleet.leave()
    return load


async def _under_load(service: Service, fleet: Fleet, plan: Plan, load: Load) -> None:
    before, began, used = await _decisions(service), time.monotonic(), service.cpu_s
    leases = [member.lease.id for member in fleet.members if member.lease is not None]
    reports = asyncio.create_task(fleet.report(plan.seconds, plan.moves_per_s))
    load.asked_ms = await ask(service.socket, leases, plan.seconds)
    await reports
    load.busy = (service.cpu_s - used) / (time.monotonic() - began)
    load.memory = service.memory.bytes
    load.decisions, load.decision_p99_ms = _p99(before, await _decisions(service))


async def _after_a_kill(service: Service, fleet: Fleet, load: Load) -> None:
    everybody = len(fleet.members)
    service.kill()
    await fleet.until(0, 0)
    began = time.monotonic()
    service.start()
    answering = asyncio.create_task(service.answers())
    first = asyncio.create_task(fleet.until(1, everybody))
    load.answered_s = await answering
    await first
    load.first_s = time.monotonic() - began
    await fleet.until(everybody, everybody)
    load.rejoined_s = time.monotonic() - began


async def _decisions(service: Service) -> dict[float, float]:
    """The histogram of decisions: how many took no longer than so many seconds."""
    _, page = await get(service.socket, "/metrics")
    return {float(edge): float(count) for edge, count in _DECISIONS.findall(page.decode())}


def _p99(before: dict[float, float], after: dict[float, float]) -> tuple[int, float]:
    counts = {edge: count - before.get(edge, 0.0) for edge, count in after.items()}
    total = counts.get(float("inf"), 0.0)
    edge = min((edge for edge, count in counts.items() if count >= 0.99 * total), default=0.0)
    return int(total), edge * 1000
