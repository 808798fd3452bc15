"""What the server sends to the sidebar, the magic and the widget. `openapi.py` describes them to other programs.

Memory is in bytes, utilisation in per cent (0 to 100), times are seconds since the epoch.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from jupyter_gpushare.devices.device import Attribution, DriverState

__all__ = [
    "DeviceModel",
    "DevicesAnswer",
    "DriverModel",
    "ErrorAnswer",
    "HistoryModel",
    "KernelModel",
    "KernelView",
    "KernelsAnswer",
    "MessageModel",
    "ProcessModel",
    "ProcessesAnswer",
    "ReadingModel",
    "ReleaseLevel",
    "ReleaseModel",
    "ReleaseRequest",
    "ReleasesAnswer",
    "ReportAnswer",
    "ReportRequest",
    "ShareModel",
    "Snapshot",
]

ReleaseLevel = Literal["free_cache", "end_kernel", "end_all"]


class MessageModel(msgspec.Struct, frozen=True):
    """A sentence: translate `template`, fill in `values`; or show `text` as it is."""

    code: str
    template: str
    values: dict[str, str]
    text: str


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


class HistoryModel(msgspec.Struct, frozen=True):
    """The session's recent use: parallel columns, oldest first; null where there was no reading."""

    interval_s: float
    at: list[float]
    memory: list[int | None]
    utilisation: list[int | None]


class ReleaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wish to release. Ending a kernel, or disturbing a busy one, needs the owner's word.

    The first answer is then 409 with what would be lost and a `confirm` that stands for exactly that. Sent again with
    it, the release begins; if things have changed meanwhile, it is announced anew.
    """

    level: ReleaseLevel
    kernel_id: str | None = None
    confirm: str = ""


class ReportRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that a kernel's own GPU frameworks hold, by their own counters."""

    memory: Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


class ReportAnswer(msgspec.Struct, frozen=True):
    """Whether such reports are of use: they are where the driver cannot say which process holds what."""

    wanted: bool


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
