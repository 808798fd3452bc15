"""What the server sends to the sidebar, the magic and the widget. `openapi.py` describes them to other programs.

Memory is in bytes, utilisation in per cent (0 to 100), times are seconds since the epoch.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from jupyter_gpushare.broker.wire import MessageModel
from jupyter_gpushare.devices.device import Attribution, DriverState

__all__ = [
    "CullWarningModel",
    "CullingModel",
    "DeviceModel",
    "DevicesAnswer",
    "DriverModel",
    "ErrorAnswer",
    "HistoryModel",
    "KernelModel",
    "KernelView",
    "KernelsAnswer",
    "LeaseView",
    "LentToModel",
    "MessageModel",
    "NoticeModel",
    "ParkStatus",
    "ParkingMode",
    "ParkingModel",
    "ParkingReport",
    "PolicyModel",
    "ProcessModel",
    "ProcessesAnswer",
    "ReadingModel",
    "ReleaseLevel",
    "ReleaseModel",
    "ReleasesAnswer",
    "ShareModel",
    "Snapshot",
]

ReleaseLevel = Literal["park", "free_cache", "end_kernel", "end_all"]

ParkingMode = Literal["off", "observe", "park"]

#: *asked*: it parks as soon as its cell has ended. *waiting*: for room on the device, before it resumes.
ParkStatus = Literal["running", "counting_down", "asked", "parking", "parked", "waiting", "resuming"]


class ReadingModel(msgspec.Struct, frozen=True, omit_defaults=False):
    """A number and how it was attributed, or null and why."""

    value: int | None
    attribution: Attribution
    reason: str = ""


class DriverModel(msgspec.Struct, frozen=True):
    """The driver behind the devices."""

    vendor: str
    state: DriverState
    version: str
    reason: str


class ShareModel(msgspec.Struct, frozen=True):
    """This session's share, resolved on its device."""

    text: str
    description: str
    source: Literal["configuration", "environment", "default", "broker"]
    devices: list[str]
    request: int | None
    limit: int | None
    compute: Literal["shared", "enforced"]


class DeviceModel(msgspec.Struct, frozen=True):
    """One GPU. Other people's use is a sum and a count, never a name."""

    uuid: str
    index: int
    host: str
    kind: str
    name: str
    is_mig: bool
    total: int
    usable: int
    used: ReadingModel
    utilisation: ReadingModel
    mine: ReadingModel
    others: ReadingModel
    other_holders: int | None


class PolicyModel(msgspec.Struct, frozen=True):
    """When a kernel is parked by itself: after so many idle seconds, null for never. *source* says who decided.

    *pool* is the name of the pool that decided, where one did.
    """

    idle_timeout_s: float | None
    source: Literal["configuration", "pool", "kernel_spec", "notebook", "owner"]
    allow_background_work: bool = False
    allow_foreign: bool = False
    pool: str = ""


class ParkingModel(msgspec.Struct, frozen=True):
    """How it is with parking one kernel.

    Attributes:
        status: what happens to its GPU state.
        since: when that status began.
        message: the one sentence about it; `memory`, times and figures in it are true at this moment.
        memory: bytes that are parked or on the move, or that would move; null while unknown.
        moved: how many of them have moved, while parking or resuming; null where that cannot be told.
        expected_s: how long the move takes: parking while it runs, resuming once it is parked; null while unknown.
        parks_at: when the countdown ends; null without one.
        kept_until: until when the owner keeps it from being parked by itself; null where they do not.
        held: how many cells and widget events wait for the resume.
        refusal: why it cannot be parked now; null where it can.
        remedy: what to do about that.
        caution: what is not guaranteed if it is parked.
        policy: when it is parked by itself.
    """

    status: ParkStatus
    since: float
    message: MessageModel
    memory: int | None = None
    moved: int | None = None
    expected_s: float | None = None
    parks_at: float | None = None
    kept_until: float | None = None
    held: int = 0
    refusal: MessageModel | None = None
    remedy: MessageModel | None = None
    caution: MessageModel | None = None
    policy: PolicyModel | None = None


class LentToModel(msgspec.Struct, frozen=True):
    """Training that uses what this session's share is lent to. *amount* is in GPUs, as a decimal.

    *memory* is what it holds on this session's devices, in bytes; null where nobody tells.
    """

    project: str
    name: str
    amount: str
    memory: int | None = None


class LeaseView(msgspec.Struct, frozen=True):
    """This session's lease, where a broker keeps one.

    Attributes:
        connection: *away* while the broker cannot be reached: nothing changes for what runs. *refused* has no share.
        since: when that connection, or that status, began.
        project: whose quota it counts against.
        status: as the broker has it.
        message: the one sentence about it: its place, its reason, what it waits for.
        place: its place in line, from 1; null when it does not wait.
        estimate_s: about how long it still waits; null while that is unknown.
        deadline: until when those in its way must have left; *began* is when they were told.
        lent_to: who uses this share while it is parked, and who still has to leave before it comes back.
        can_request: whether another share may be asked for.
        policy: what the admin decided for the whole pool of this share, in a sentence; null where nothing.
    """

    connection: Literal["joined", "away", "refused"]
    since: float
    project: str
    status: Literal[
        "queued", "granted", "running", "parking", "parked", "resuming", "yielding", "missing", "ended", "failed"
    ]
    message: MessageModel
    place: int | None = None
    estimate_s: float | None = None
    began: float | None = None
    deadline: float | None = None
    lent_to: list[LentToModel] = []
    can_request: bool = False
    policy: MessageModel | None = None


class NoticeModel(msgspec.Struct, frozen=True):
    """Something that people should hear once: how a resume went, what was lost when a server died."""

    id: str
    at: float
    kind: Literal["info", "warning", "loss"]
    message: MessageModel


class CullWarningModel(msgspec.Struct, frozen=True):
    """Something that ends by itself *at* then, if it is left as it is: one kernel, or the whole server.

    *can_keep* says whether the owner may put it off.
    """

    what: Literal["kernel", "server"]
    kernel_id: str | None
    at: float
    message: MessageModel
    can_keep: bool


class CullingModel(msgspec.Struct, frozen=True):
    """What a hub's admin lets happen to a session that nobody uses: what is about to, and until when it is kept."""

    warnings: list[CullWarningModel]
    kept_until: float | None = None


class KernelModel(msgspec.Struct, frozen=True):
    """One kernel of this server and what it holds, its child processes included."""

    id: str
    name: str
    path: str | None
    execution_state: str
    busy_since: float | None
    idle_since: float | None
    running: str
    memory: ReadingModel
    utilisation: ReadingModel
    processes: int
    levels: list[ReleaseLevel]
    note: MessageModel | None
    parking: ParkingModel | None = None


class ProcessModel(msgspec.Struct, frozen=True):
    """GPU use of this session outside kernels: a terminal, the server itself, or another child of it."""

    kind: Literal["terminal", "server", "process"]
    name: str
    pid: int
    memory: ReadingModel
    utilisation: ReadingModel


class ReleaseModel(msgspec.Struct, frozen=True):
    """A release under way or ended. `freed` is what the device attests, null while unknown."""

    id: str
    level: ReleaseLevel
    kernel_id: str | None
    status: Literal["running", "released", "failed"]
    started: float
    ended: float | None
    freed: int | None
    loss: str | None
    message: MessageModel


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot", tag_field="type"):
    """Everything the sidebar shows, at one moment."""

    seq: int
    at: float
    simulated: bool
    driver: DriverModel
    share: ShareModel
    memory: ReadingModel
    utilisation: ReadingModel
    state: MessageModel
    devices: list[DeviceModel]
    kernels: list[KernelModel]
    processes: list[ProcessModel]
    releases: list[ReleaseModel]
    parking_mode: ParkingMode = "off"
    handed_back_s: float = 0.0
    notices: list[NoticeModel] = []
    lease: LeaseView | None = None
    culling: CullingModel | None = None


class KernelView(msgspec.Struct, frozen=True, tag="kernel_view", tag_field="type"):
    """What one kernel may see with its own token: the session's totals and its own row, no other notebook's."""

    at: float
    simulated: bool
    driver: DriverModel
    share: ShareModel
    memory: ReadingModel
    utilisation: ReadingModel
    state: MessageModel
    devices: list[DeviceModel]
    kernel: KernelModel
    releases: list[ReleaseModel]
    lease: LeaseView | None = None


class HistoryModel(msgspec.Struct, frozen=True):
    """The session's recent use: parallel columns, oldest first; null where there was no reading.

    `parked` are intervals [begin, end], oldest first, in which the share was handed back: something of this session
    was parked and nothing of it held a GPU. The last one ends now if it goes on. `lent` are those of them in which
    training used it.
    """

    interval_s: float
    at: list[float]
    memory: list[int | None]
    utilisation: list[int | None]
    parked: list[list[float]] = []
    lent: list[list[float]] = []


class ParkingReport(msgspec.Struct, frozen=True):
    """What parking did, or in mode *observe* would have done, since *since*. Seconds are of GPU shares handed back."""

    mode: ParkingMode
    since: float
    parked: int
    handed_back_s: float
    resumed: int
    refused: dict[str, int]
    message: MessageModel


class DevicesAnswer(msgspec.Struct, frozen=True):
    """All devices."""

    devices: list[DeviceModel]


class KernelsAnswer(msgspec.Struct, frozen=True):
    """All kernels."""

    kernels: list[KernelModel]


class ProcessesAnswer(msgspec.Struct, frozen=True):
    """All GPU use of this session outside kernels."""

    processes: list[ProcessModel]


class ReleasesAnswer(msgspec.Struct, frozen=True):
    """The newest releases, oldest first."""

    releases: list[ReleaseModel]


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Every error: `message` is the text of `error`, under the name that Jupyter's clients read.

    `confirm` is not empty where the owner may agree to what is announced; see `ReleaseRequest`.
    """

    error: MessageModel
    message: str
    confirm: str = ""
