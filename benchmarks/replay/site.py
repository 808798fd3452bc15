"""The machines of a run: as many devices as all sessions need who hold whole GPUs for as long as they live."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from benchmarks.replay.notebooks import NOTEBOOKS
from benchmarks.replay.training import TRAINING
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.replay.trace import Session
    from jupyter_gpushare.rules.pool import Pool

__all__ = ["GPUS_PER_HOST", "POOL", "hosts_for", "peak_gpus", "site"]

GPUS_PER_HOST: Final = 8
POOL: Final = "gpus"
_USABLE: Final = Memory(80 << 30)
_KIND: Final = "h100"
#: Sessions come a little before their first cell, and leave a little after their last.
_MARGIN_S: Final = 600.0


def peak_gpus(sessions: Sequence[Session]) -> int:
    """How many GPUs are reserved at once, at most."""
    moments = [(each.begins_s, each.gpus) for each in sessions] + [(each.ends_s, -each.gpus) for each in sessions]
    now = peak = 0
    for _, change in sorted(moments):
        now += change
        peak = max(peak, now)
    return peak


def hosts_for(sessions: Sequence[Session], part: Fraction = Fraction.ONE) -> int:
    """How many hosts with eight GPUs suffice to reserve *part* of each GPU of each session, on one host each.

    They are filled as the rules fill them: into the fullest host that fits.
    """
    rooms: list[int] = []
    leaving: list[tuple[float, int, int]] = []
    for each in sorted(sessions, key=lambda session: session.begins_s):
        while leaving and leaving[0][0] < each.begins_s - _MARGIN_S:
            _, host, freed = heapq.heappop(leaving)
            rooms[host] += freed
        need = part.millionths * each.gpus
        fitting = [(room, number) for number, room in enumerate(rooms) if room >= need]
        if not fitting:
            rooms.append(GPUS_PER_HOST * Fraction.PER_GPU)
            fitting = [(rooms[-1], len(rooms) - 1)]
        host = min(fitting)[1]
        rooms[host] -= need
        heapq.heappush(leaving, (each.ends_s + _MARGIN_S, host, need))
    return len(rooms)


def site(
    hosts: int,
    pool: Pool,
    *,
    budget: Memory,
    copies: int,
    saves: int,
    devices_per_host: int = GPUS_PER_HOST,
    usable: Memory = _USABLE,
) -> Snapshot:
    """Books of that many *hosts*: all of it is the notebooks' quota, training has none."""
    names = [f"host-{number:03}" for number in range(1, hosts + 1)]
    devices = [
        GpuDevice(uuid=f"GPU-{name}-{index}", host=name, kind=_KIND, pool=pool.name, usable=usable)
        for name in names
        for index in range(devices_per_host)
    ]
    whole = Fraction.ONE * len(devices)
    projects = [Project(NOTEBOOKS, quota=whole * 100 if pool.resume == "best-effort" else whole)]
    projects.append(Project(TRAINING, quota=Fraction.ZERO, weight=Fraction.ONE))
    machines = [Host(name, parking_budget=budget, copies=copies, saves=saves) for name in names]
    return Snapshot.of(projects=projects, pools=[pool], hosts=machines, devices=devices)
