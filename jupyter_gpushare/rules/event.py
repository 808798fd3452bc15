"""Everything that can happen to the books from outside: wishes, what holders say, what devices show, what admins do.

Reports of holders are hints. Capacity is freed by `Attested` alone, which comes from device evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gpushare.quantity import Fraction, Memory
    from jupyter_gpushare.rules.capacity import GpuDevice, Host
    from jupyter_gpushare.rules.lease import Hold, Lease, Target
    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.rules.pool import Pool
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.reason import Reason
    from jupyter_gpushare.share import Share

__all__ = [
    "Attested",
    "CouldNot",
    "Drained",
    "Event",
    "GroupsKnown",
    "Held",
    "HostSeen",
    "Idle",
    "Inventory",
    "LetGo",
    "LossAnnounced",
    "MemberSet",
    "OutageOver",
    "OverUse",
    "Parkable",
    "ParkingSwitched",
    "PolicySet",
    "QuotaSet",
    "Reclaimed",
    "Returned",
    "Running",
    "ShareChanged",
    "Submitted",
    "TimePassed",
    "Using",
    "Vanished",
    "Wanted",
]


@dataclass(frozen=True, slots=True)
class Submitted:
    """A new claim. The lease is as it is wished: queued, without grants. Submitting one again changes nothing."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that nobody is connected for is held otherwise; None: its holder has come. Never the other way round."""

    lease: str
    hold: Hold | None


@dataclass(frozen=True, slots=True)
class LetGo:
    """A claim that nobody is connected for is given up *by* somebody; by nobody: if its hold is over by now."""

    lease: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Somebody wants a lease to be elsewhere: its holder, a timer, an admin (*by*, for the audit).

    *memory* is what its parked copy will take on the host, for the target parked; None books what it is known to hold,
    or all that its share may use.
    """

    lease: str
    target: Target
    by: str = "holder"
    memory: Memory | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class ShareChanged:
    """Its holder wants a larger or smaller share, live. Granted whole or not at all."""

    lease: str
    share: Share


@dataclass(frozen=True, slots=True)
class Running:
    """The holder says that it has started, or restored, with *epoch*."""

    lease: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The holder has evidence that it has computed nothing *since* then; None: it computes, or cannot tell."""

    lease: str
    since: float | None


@dataclass(frozen=True, slots=True)
class Parkable:
    """The holder has found out whether it can be parked: a job does when its program offers safe points."""

    lease: str
    is_parkable: bool


@dataclass(frozen=True, slots=True)
class OverUse:
    """The holder uses more memory than its request and its bursts allow, and had its grace to free what it can."""

    lease: str


@dataclass(frozen=True, slots=True)
class Using:
    """Device evidence: *memory* is what the lease holds on its devices while it runs, rounded up."""

    lease: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class CouldNot:
    """The holder says that it could not do what its status asks: that step is undone and explained."""

    lease: str
    epoch: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Attested:
    """Device evidence: nothing of the lease is on its devices any more, as of *epoch*.

    Every process of it has left their lists, or is checkpointed.
    """

    lease: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Vanished:
    """The holder's connection is lost, and its grace over. *is_dead* is evidence that its processes are gone too."""

    lease: str
    is_dead: bool = False


@dataclass(frozen=True, slots=True)
class Returned:
    """The holder is back, with the *epoch* that it has, and says whether its state is on the device.

    *lease* is the whole record, as its holder remembers it, for a ledger that has never heard of it.
    """

    lease: Lease
    epoch: int
    is_resident: bool


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """An admin takes a lease's capacity back now: a session is parked, a job yields.

    *memory* is what a session has on its devices, as far as is known; None as for `Wanted`.
    """

    lease: str
    by: str
    memory: Memory | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class LossAnnounced:
    """*by* us, *processes* of a lease are about to be ended as *loss*: a line in the audit, before anything is done."""

    lease: str
    loss: Loss
    processes: str
    by: str = "rules"


@dataclass(frozen=True, slots=True)
class Inventory:
    """Which devices there are now on *host*, and how they are. Devices of it that are missing here are gone."""

    host: str
    devices: tuple[GpuDevice, ...]


@dataclass(frozen=True, slots=True)
class HostSeen:
    """A host with its budget and limits."""

    host: Host


@dataclass(frozen=True, slots=True)
class Drained:
    """An admin drains a device or a whole host: it takes nothing new. With *evacuate*, jobs there yield too."""

    device: str = ""
    host: str = ""
    by: str = ""
    undo: bool = False
    evacuate: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The admin's file: these projects and pools, and no others. A project in use that is gone keeps what runs.

    With *keeps_quotas* a quota that an admin has set since holds instead of the file's.
    """

    projects: tuple[Project, ...]
    pools: tuple[Pool, ...] = field(default=())
    keeps_quotas: bool = False
    by: str = "admin"
    why: str = ""


@dataclass(frozen=True, slots=True)
class GroupsKnown:
    """Who knows it says that *person* is in these *groups*, and in no others, now."""

    person: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class MemberSet:
    """An owner or admin, *by*, decides about *person* in *project*; None leaves what was.

    *is_member* makes it a member, or takes that back; *limit* bounds its sessions, and *drops_limit* takes that away.
    """

    project: str
    person: str
    by: str
    is_member: bool | None = None
    limit: Fraction | None = None
    drops_limit: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """An admin, *by*, sets the *quota* of *project*."""

    project: str
    quota: Fraction
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class ParkingSwitched:
    """The one switch: with *is_stopped*, nobody is parked any more and everybody is brought back in order."""

    is_stopped: bool
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class OutageOver:
    """For a while nothing could be told to anybody, by a broker that was away or could keep nothing.

    *lasted_s* is for how long, in seconds; None where nobody knows, as of a broker that was not there itself.
    """

    lasted_s: float | None = None


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing but time: deadlines, turns and back-off are looked at again."""


Event = (
    Submitted
    | Held
    | LetGo
    | Wanted
    | ShareChanged
    | Running
    | Idle
    | OverUse
    | Using
    | Parkable
    | CouldNot
    | Attested
    | Vanished
    | Returned
    | Reclaimed
    | LossAnnounced
    | Inventory
    | HostSeen
    | Drained
    | PolicySet
    | GroupsKnown
    | MemberSet
    | QuotaSet
    | ParkingSwitched
    | OutageOver
    | TimePassed
)
