"""Small books for the tests of the rules: projects with quotas, hosts with GPUs, sessions and jobs on them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.lease import Grant, Kind, Lease, Loan, Status, Target
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The clock of most tests, long after every minimum turn of what `running` makes is over.
NOW = 1_000_000.0
#: When what `running` and `parked` make got its turn.
LONG_AGO = 1_000.0
_SUBMITTED = itertools.count(1)


def gpus(amount: str) -> Fraction:
    """``gpus("0.5")`` is half a GPU."""
    return Fraction.parse(amount)


def device_name(host: int, index: int) -> str:
    """How `books` calls the device *index* (from 0) of host *host* (from 1): ``h1-0``."""
    return f"h{host}-{index}"


def device(name: str, **changes: Any) -> GpuDevice:
    """An 80 GiB A100 of the pool ``main``; its host is what stands before the last ``-``."""
    values: dict[str, Any] = {
        "host": name.rpartition("-")[0],
        "kind": "a100",
        "pool": "main",
        "usable": Memory.parse("80GiB"),
    }
    return GpuDevice(uuid=name, **{**values, **changes})


def project(name: str, quota: str, *, weight: str | None = None, limit: str = "unlimited", **changes: Any) -> Project:
    """A project with amounts as people write them."""
    return Project(name, gpus(quota), None if weight is None else gpus(weight), gpus(limit), **changes)


def books(  # one place for all the small worlds of the tests
    *leases: Lease,
    hosts: int = 1,
    per_host: int = 1,
    quotas: Mapping[str, str] | None = None,
    projects: Iterable[Project] = (),
    pools: Iterable[Pool] | None = None,
    devices: Iterable[GpuDevice] | None = None,
    host_changes: Mapping[str, Any] | None = None,
    **pool_changes: Any,
) -> Snapshot:
    """*hosts* hosts ``h1``, ``h2``… of *per_host* devices ``h1-0``, ``h1-1``…, all in one pool ``main``.

    *quotas* makes projects by name; without any there is ``team-a`` with a quota of all GPUs. More keyword arguments
    go to the pool, *host_changes* to every host.
    """
    if devices is None:
        devices = [device(device_name(h, i)) for h in range(1, hosts + 1) for i in range(per_host)]
    devices = list(devices)
    if quotas is None:
        quotas = {} if projects else {"team-a": str(len(devices))}
    return Snapshot.of(
        projects=[*projects, *(project(name, quota) for name, quota in quotas.items())],
        pools=[Pool("main", **pool_changes)] if pools is None else pools,
        hosts=[Host(name, **(host_changes or {})) for name in sorted({each.host for each in devices})],
        devices=devices,
        leases=leases,
    )


def session(name: str, share: str = "0.5", project: str = "team-a", **changes: Any) -> Lease:
    """A queued claim of a notebook server that can be parked, submitted after all that were made before it."""
    return _claim(name, Kind.INTERACTIVE, share, project, {"is_parkable": True, **changes})


def job(name: str, share: str = "0.5", project: str = "team-a", **changes: Any) -> Lease:
    """A queued claim of a job that offers no safe points, submitted after all that were made before it."""
    return _claim(name, Kind.TRAINING, share, project, changes)


def _claim(name: str, kind: Kind, share: str, project: str, changes: Mapping[str, Any]) -> Lease:
    submitted = float(next(_SUBMITTED))
    values: dict[str, Any] = {"person": "ada", "name": name, "submitted": submitted, "since": submitted}
    return Lease(id=name, kind=kind, project=project, share=Share.parse(share), **{**values, **changes})


def granted(lease: Lease, *devices: str, each: str | None = None) -> tuple[Grant, ...]:
    """The grants of *lease* on *devices*: *each*, or what its share asks for where that is a fraction."""
    amount = lease.share.request if each is None else gpus(each)
    assert isinstance(amount, Fraction), "say how much a share in GiB costs"
    return tuple(Grant(name, amount) for name in devices)


def running(lease: Lease, *devices: str, each: str | None = None, **changes: Any) -> Lease:
    """*lease* running on *devices* since long ago."""
    values: dict[str, Any] = {"epoch": 1, "turn_began": LONG_AGO, "status": Status.RUNNING, "since": LONG_AGO}
    return lease.evolve(grants=granted(lease, *devices, each=each), **{**values, **changes})


def parked(lease: Lease, *devices: str, each: str | None = None, **changes: Any) -> Lease:
    """*lease* parked from *devices* since long ago; a session is to stay so, a job wants to go on."""
    values: dict[str, Any] = {"target": Target.PARKED} if lease.is_session else {}
    return running(lease, *devices, each=each, **(values | {"status": Status.PARKED} | changes))


def on_loan(lease: Lease, *loans: tuple[str, str, str], **changes: Any) -> Lease:
    """*lease* running wholly on loans: of each lender, the device and the amount."""
    made = tuple(Loan(lender, where, gpus(amount)) for lender, where, amount in loans)
    total: dict[str, int] = {}
    for loan in made:
        total[loan.device] = total.get(loan.device, 0) + loan.amount.millionths
    grants = tuple(Grant(where, Fraction(amount)) for where, amount in total.items())
    return running(lease, **changes).evolve(grants=grants, loans=made)
