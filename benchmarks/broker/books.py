"""Books of any size, as a busy site has them: half of the sessions parked, what they have lent to jobs, a queue."""

from __future__ import annotations

from typing import Final

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.lease import Grant, Kind, Lease, Loan, Status, Target
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.share import Share

__all__ = ["LEASES_PER_DEVICE", "PROJECTS", "books"]

#: On each device: two sessions that run, two that are parked, two jobs that borrow from these.
LEASES_PER_DEVICE: Final = 6
PROJECTS: Final = tuple(f"team-{number:02}" for number in range(12))
_QUARTER: Final = Fraction.parse("0.25")
_SHARE: Final = Share(_QUARTER, _QUARTER)
_PER_HOST: Final = 8
_USABLE: Final = Memory(80 << 30)
_LONG_AGO: Final = 1000.0
_WAITING: Final = 16


def books(leases: int, now: float) -> Snapshot:
    """About *leases* of them, at *now*; sixteen jobs wait besides."""
    count = -(-leases // LEASES_PER_DEVICE)
    devices = [
        GpuDevice(f"GPU-{number:05}", f"host-{number // _PER_HOST:04}", "h100", "gpus", _USABLE)
        for number in range(count)
    ]
    quota = Fraction.ONE * count
    made = [lease for device in devices for lease in _on(device, now)]
    return Snapshot.of(
        projects=[Project(name, quota) for name in PROJECTS],
        pools=[Pool("gpus")],
        hosts=[Host(name, copies=4, saves=8) for name in sorted({device.host for device in devices})],
        devices=devices,
        leases=[*made, *(_job(f"waiting-{number:02}", number) for number in range(_WAITING))],
    )


def _on(device: GpuDevice, now: float) -> list[Lease]:
    number = int(device.uuid.removeprefix("GPU-"))
    sessions = [_session(f"s-{number:05}-{index}", number + index, device, now) for index in range(4)]
    lenders = [session.id for session in sessions if session.status is Status.PARKED]
    jobs = [
        _job(f"j-{number:05}-{index}", number + index).evolve(
            status=Status.RUNNING,
            epoch=1,
            grants=(Grant(device.uuid, _QUARTER),),
            loans=(Loan(lender, device.uuid, _QUARTER),),
        )
        for index, lender in enumerate(lenders)
    ]
    return [*sessions, *jobs]


def _session(name: str, number: int, device: GpuDevice, now: float) -> Lease:
    is_parked = name.endswith(("2", "3"))
    return Lease(
        id=name,
        kind=Kind.INTERACTIVE,
        project=PROJECTS[number % len(PROJECTS)],
        person=name,
        name=name,
        share=_SHARE,
        submitted=_LONG_AGO,
        since=_LONG_AGO,
        key=name,
        status=Status.PARKED if is_parked else Status.RUNNING,
        target=Target.PARKED if is_parked else Target.RUNNING,
        epoch=1,
        grants=(Grant(device.uuid, _QUARTER),),
        is_parkable=True,
        host_memory=Memory(8 << 30) if is_parked else Memory.ZERO,
        turn_began=now - 10_000.0,
    )


def _job(name: str, number: int) -> Lease:
    return Lease(
        id=name,
        kind=Kind.TRAINING,
        project=PROJECTS[number % len(PROJECTS)],
        person="trainer",
        name=name,
        share=_SHARE,
        submitted=_LONG_AGO,
        since=_LONG_AGO,
        key=name,
        is_parkable=number % 2 == 0,
        start_cost_s=20.0,
    )
