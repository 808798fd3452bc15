"""What one step alters, to be kept as a whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.quantity import Fraction
    from jupyter_gpushare.rules.capacity import GpuDevice, Host
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.pool import Pool
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.reason import Reason

__all__ = ["Change", "Entry", "Verb"]


class Verb(StrEnum):
    """What happened to a lease, a device or the policy: one for each kind of line in the audit."""

    SUBMITTED = "submitted"
    REFUSED = "refused"
    GRANTED = "granted"
    STARTED = "started"
    ASKED_TO_PARK = "asked_to_park"
    PARKED = "parked"
    NOT_PARKED = "not_parked"
    WANTED_BACK = "wanted_back"
    RESUMING = "resuming"
    RESUMED = "resumed"
    CALLED_BACK = "called_back"
    RECLAIMED = "reclaimed"
    MOVED = "moved"
    YIELDED = "yielded"
    REQUEUED = "requeued"
    BURST_GRANTED = "burst_granted"
    BURST_CALLED_BACK = "burst_called_back"
    SHARE_CHANGED = "share_changed"
    ADOPTED = "adopted"
    VANISHED = "vanished"
    RETURNED = "returned"
    FENCED = "fenced"
    ENDED = "ended"
    FAILED = "failed"
    LOSS = "loss"
    OVER_COMMITTED = "over_committed"
    DEVICE_CHANGED = "device_changed"
    TRESPASSED = "trespassed"
    POLICY_SET = "policy_set"
    PARKING_SWITCHED = "parking_switched"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit: who got, lost, parked or lent what, and why.

    Attributes:
        at: seconds since the epoch.
        verb: what happened.
        lease: to which lease; empty when to none.
        project: whose it is.
        person: whose it is.
        devices: where.
        amount: how many GPUs it is about; *lent* of them are lent.
        reason: why.
        because_of: the lease for which it was done.
        by: who wanted it: ``rules``, ``holder``, ``device``, or the name of an admin.
        details: more, for people.
    """

    at: float
    verb: Verb
    lease: str = ""
    project: str = ""
    person: str = ""
    devices: tuple[str, ...] = ()
    amount: Fraction | None = None
    lent: Fraction | None = None
    reason: Reason | None = None
    because_of: str = ""
    by: str = "rules"
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What became of what, each under its own name; a name with None is no more.

    A lease that is over is in *leases* once more, as it ended, and then in no snapshot any longer.
    """

    leases: Mapping[str, Lease] = field(default_factory=dict)
    projects: Mapping[str, Project | None] = field(default_factory=dict)
    pools: Mapping[str, Pool | None] = field(default_factory=dict)
    hosts: Mapping[str, Host] = field(default_factory=dict)
    devices: Mapping[str, GpuDevice | None] = field(default_factory=dict)
    is_parking_stopped: bool | None = None
    audit: tuple[Entry, ...] = ()

    def __bool__(self) -> bool:
        return bool(
            self.leases
            or self.projects
            or self.pools
            or self.hosts
            or self.devices
            or self.is_parking_stopped is not None
            or self.audit
        )

    def then(self, later: Change) -> Change:
        """Both, as one; what *later* says of a name holds."""
        return Change(
            leases={**self.leases, **later.leases},
            projects={**self.projects, **later.projects},
            pools={**self.pools, **later.pools},
            hosts={**self.hosts, **later.hosts},
            devices={**self.devices, **later.devices},
            is_parking_stopped=(
                self.is_parking_stopped if later.is_parking_stopped is None else later.is_parking_stopped
            ),
            audit=self.audit + later.audit,
        )
