"""What the broker and everybody else say to each other. Everything that arrives is decoded into these, or refused.

REST bodies, and the messages of the holder's WebSocket (``…/holder``). Memory is in bytes, GPUs are decimals in text
(``"0.25"``), times are seconds since the epoch. The holder's socket is level-triggered: the broker pushes the lease
when it changes, and the holder does what its status asks for; a repeated message does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

import msgspec

from jupyter_gpushare.broker.pool_policy import PoolPolicy  # decoded

if TYPE_CHECKING:
    from jupyter_gpushare.rules.message import Message

__all__ = [
    "Amount",
    "BrokerModel",
    "ClaimModel",
    "CouldNotMessage",
    "DeviceModel",
    "DevicesAnswer",
    "DidMessage",
    "ErrorAnswer",
    "GrantModel",
    "HealthAnswer",
    "HelloMessage",
    "HostModel",
    "LeaseMessage",
    "LeaseModel",
    "LeasesAnswer",
    "LentModel",
    "LossMessage",
    "MessageModel",
    "ProcessModel",
    "ProcessesMessage",
    "ProjectModel",
    "ProjectsAnswer",
    "RefusedMessage",
    "StateMessage",
    "StreamMessage",
    "ToBroker",
    "ToHolder",
    "UsageMessage",
    "UsageModel",
    "WantMessage",
    "WelcomeMessage",
]

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Id = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")]
#: GPUs, as a decimal.
Amount = Annotated[str, msgspec.Meta(max_length=32)]
Bytes = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Epoch = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Inode = Annotated[int, msgspec.Meta(gt=0, lt=1 << 62)]

LeaseKind = Literal["interactive", "training"]
LeaseStatus = Literal[
    "queued", "granted", "running", "parking", "parked", "resuming", "yielding", "missing", "ended", "failed"
]
LeaseTarget = Literal["running", "parked", "ended"]


class MessageModel(msgspec.Struct, frozen=True):
    """A sentence: translate `template`, fill in `values`; or show `text` as it is."""

    code: str
    template: str
    values: dict[str, str]
    text: str

    @classmethod
    def of(cls, message: Message) -> Self:
        """*message*, to be sent."""
        return cls(message.code, message.template, dict(message.values), message.text)


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Why a request was refused. `field` names what is wrong in it, empty when that is no field."""

    error: MessageModel
    field: str = ""


class ProcessModel(msgspec.Struct, frozen=True):
    """A process of a holder: with its start time nobody else can be meant (clock ticks since boot, as /proc says).

    *pid* is its number in the holder's own pid namespace.
    """

    pid: Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]
    started: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class ClaimModel(msgspec.Struct, frozen=True):
    """What a holder asks for. *key* is the holder's own name for it: the same one again means the same lease.

    A newer holder may say more, which is left alone.
    """

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    kind: LeaseKind
    project: Name
    share: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    name: Name
    pool: Annotated[str, msgspec.Meta(max_length=63)] = ""
    spread_group: Annotated[str, msgspec.Meta(max_length=63)] = ""
    is_parkable: bool = False
    grace_s: Annotated[float, msgspec.Meta(ge=0, le=86400)] | None = None
    start_cost_s: Annotated[float, msgspec.Meta(ge=0, le=86400)] = 0.0
    most_turns_lost: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None


class GrantModel(msgspec.Struct, frozen=True):
    """A part of one device. *memory* is what that comes to there; *lent* of *amount* belongs to a parked notebook."""

    device: str
    host: str
    amount: Amount
    memory: int
    lent: Amount


class LentModel(msgspec.Struct, frozen=True):
    """Who uses what a parked session lends, or whom it waits for: training by name, others without.

    *memory* is what it holds on the lender's devices, in bytes; null where the driver does not tell.
    """

    project: str
    name: str
    amount: Amount
    memory: Bytes | None = None


class LeaseModel(msgspec.Struct, frozen=True):
    """One lease, as its holder and the dashboards see it.

    Attributes:
        epoch: what a holder must have to start or restore.
        reason: why it waits, yields or failed; null when there is nothing to explain.
        place: its place in line, from 1; null when it does not wait.
        estimate_s: about how long it still waits; null while that is unknown.
        deadline: when the holder must have done what the status asks for; of one that waits: when its way is free.
        lent_to: of a parked session: who uses its share now.
        policy: of a session: what the admin's file says of its pool.
    """

    id: str
    kind: LeaseKind
    project: str
    person: str
    name: str
    share: str
    pool: str
    status: LeaseStatus
    target: LeaseTarget
    submitted: float
    since: float
    epoch: Epoch
    grants: list[GrantModel]
    bursts: list[GrantModel]
    lent: Amount
    host_memory: Bytes
    turns_lost: int
    reason: MessageModel | None
    place: int | None
    estimate_s: float | None
    deadline: float | None
    lent_to: list[LentModel]
    policy: PoolPolicy | None = None


class LeasesAnswer(msgspec.Struct, frozen=True):
    """The leases that the asker may see."""

    leases: list[LeaseModel]


class UsageModel(msgspec.Struct, frozen=True):
    """GPU-hours of a project or person: held, handed back, lent to it, and really computed (utilisation over time)."""

    held: float
    handed_back: float
    lent: float
    computed: float


class ProjectModel(msgspec.Struct, frozen=True):
    """A team, what it is entitled to and what it has.

    *owners* and *members* are as the admin's file names them, for those who may see them: its owners and admins; empty
    for others.
    """

    name: str
    quota: Amount
    weight: Amount
    limit: Amount
    person_limit: Amount
    fair_share: Amount
    allocated: Amount
    sessions: Amount
    lent: Amount
    queued: int
    usage: UsageModel
    source: Literal["file", "api", "default"]
    owners: list[str] = []
    members: list[str] = []


class ProjectsAnswer(msgspec.Struct, frozen=True):
    """Every project that the asker may see."""

    projects: list[ProjectModel]


class DeviceModel(msgspec.Struct, frozen=True):
    """One device and its books, in GPUs."""

    uuid: str
    host: str
    kind: str
    pool: str
    usable: int
    held: Amount
    promised: Amount
    parked: Amount
    lent: Amount
    foreign: Amount
    condition: Literal["ready", "draining", "gone"]
    over_committed: bool
    trespassed: bool


class HostModel(msgspec.Struct, frozen=True):
    """One machine: its budget for parked memory, and how many copies and saves it takes at once."""

    name: str
    parking_budget: int | None
    parked: int
    copies: int
    copies_now: int
    saves: int
    saves_now: int
    condition: Literal["ready", "draining", "gone"]


class DevicesAnswer(msgspec.Struct, frozen=True):
    """Every host and device."""

    hosts: list[HostModel]
    devices: list[DeviceModel]


class HealthAnswer(msgspec.Struct, frozen=True):
    """The broker keeps its promises."""

    status: Literal["ok"]


class BrokerModel(msgspec.Struct, frozen=True):
    """The broker itself: *incarnation* is another one after each start."""

    version: str
    incarnation: str
    mode: Literal["on_demand", "multi_user", "hub"]
    started: float
    ledger: str
    is_parking_stopped: bool
    holders: int


class HelloMessage(msgspec.Struct, frozen=True, tag="hello"):
    """The first message of a holder: its claim, and what it remembers of its lease if it had one.

    *is_resident* says whether GPU state of it is on a device now. *token* is the lease's own, from the last welcome.
    *version* is of the holder's jupyter_gpushare, for words when it is not understood; empty of one that is older.
    *pid_namespace* is the inode of the holder's own pid namespace, in which the numbers of its processes hold, in later
    messages too; null of one that is older, and where it cannot be read: then the numbers are taken for the broker's.
    """

    claim: ClaimModel
    processes: Annotated[list[ProcessModel], msgspec.Meta(max_length=4096)]
    lease: LeaseModel | None = None
    epoch: Epoch = 0
    is_resident: bool = False
    token: Annotated[str, msgspec.Meta(max_length=200)] = ""
    version: Annotated[str, msgspec.Meta(max_length=64)] = ""
    pid_namespace: Inode | None = None


class ProcessesMessage(msgspec.Struct, frozen=True, tag="processes"):
    """All processes of the holder now, of which every descendant counts too.

    *is_parkable* is what a job has found out about itself since its claim; null leaves it as it is.
    """

    processes: Annotated[list[ProcessModel], msgspec.Meta(max_length=4096)]
    is_parkable: bool | None = None


class WantMessage(msgspec.Struct, frozen=True, tag="want"):
    """The holder wants its lease elsewhere; *memory* is what its parked copy takes; *share* another share, live."""

    target: LeaseTarget | None = None
    memory: Bytes = 0
    share: Annotated[str, msgspec.Meta(max_length=128)] = ""


class DidMessage(msgspec.Struct, frozen=True, tag="did"):
    """The holder has done it: it runs, or has nothing on its devices any more. The latter is checked."""

    what: Literal["running", "released"]
    epoch: Epoch


class CouldNotMessage(msgspec.Struct, frozen=True, tag="could_not"):
    """The holder could not do it; the step is undone."""

    epoch: Epoch
    code: Annotated[str, msgspec.Meta(max_length=64)]
    text: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class LossMessage(msgspec.Struct, frozen=True, tag="loss"):
    """The holder is about to end processes of its own as a `rules.loss.Loss`; *processes* says which, for people."""

    loss: Annotated[str, msgspec.Meta(max_length=64)]
    processes: Annotated[str, msgspec.Meta(max_length=500)] = ""


class UsageMessage(msgspec.Struct, frozen=True, tag="usage"):
    """What it uses now, every ten seconds or so: bytes, and GPU-seconds computed since the last one.

    *idle_s* is for how long it has computed nothing, null while it computes and where that cannot be told.
    """

    memory: Bytes | None = None
    computed_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None
    idle_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None


class WelcomeMessage(msgspec.Struct, frozen=True, tag="welcome"):
    """The lease, and a token that works for it alone. *at* is the broker's time, in which its times are."""

    broker: BrokerModel
    lease: LeaseModel
    token: str
    at: float | None = None


class LeaseMessage(msgspec.Struct, frozen=True, tag="lease"):
    """The lease has changed. *at* is the broker's time, in which its times are."""

    lease: LeaseModel
    at: float | None = None


class RefusedMessage(msgspec.Struct, frozen=True, tag="refused"):
    """The claim, or the last want, is refused. *is_final* closes the connection, and asking again is no use."""

    error: MessageModel
    is_final: bool


class StateMessage(msgspec.Struct, frozen=True, tag="state"):
    """The first message of a stream: all that the watcher may see."""

    broker: BrokerModel
    leases: list[LeaseModel]
    devices: DevicesAnswer


ToBroker = HelloMessage | ProcessesMessage | WantMessage | DidMessage | CouldNotMessage | LossMessage | UsageMessage
ToHolder = WelcomeMessage | LeaseMessage | RefusedMessage
StreamMessage = StateMessage | LeaseMessage
