"""What the sidebar, the magic and the widget ask of the server, and what it answers to that at once.

Units as in `wire`. Everything that arrives is decoded into these, or refused.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from jupyter_gpushare.session.wire import MessageModel, ReleaseLevel, ShareModel

__all__ = [
    "KeepAnswer",
    "KeepRequest",
    "PolicyRequest",
    "ReleaseRequest",
    "ReportAnswer",
    "ReportRequest",
    "ResumeAnswer",
    "ResumeRequest",
    "ShareAnswer",
    "ShareRequest",
    "WakeAnswer",
]


class ReleaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wish to release. Ending a kernel, or disturbing a busy one, needs the owner's word.

    The first answer is then 409 with what would be lost and a `confirm` that stands for exactly that. Sent again with
    it, the release begins; if things have changed meanwhile, it is announced anew.
    """

    level: ReleaseLevel
    kernel_id: str | None = None
    confirm: str = ""
    #: Only for level *park*: now, or as soon as no cell runs.
    when: Literal["now", "idle"] = "now"


class ResumeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wish to bring parked GPU state back now: of one kernel, or of all when null."""

    kernel_id: str | None = None


class ResumeAnswer(msgspec.Struct, frozen=True):
    """The kernels that are being resumed; their `parking` says how it goes."""

    kernel_ids: list[str]


class KeepRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wish not to be parked by itself for so many seconds, 0 for no longer; one kernel, or all when null."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=7 * 86400)]
    kernel_id: str | None = None


class KeepAnswer(msgspec.Struct, frozen=True):
    """Until when, null for no longer. It may be sooner than asked for: the admin sets a bound."""

    kept_until: float | None
    message: MessageModel


class WakeAnswer(msgspec.Struct, frozen=True):
    """It was heard."""


class PolicyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The owner's policy for one kernel while it lives; what is left out stays as it is.

    `idle_timeout_s` of null means never; `reset` goes back to what configuration, kernel spec and notebook say.
    """

    idle_timeout_s: Annotated[float, msgspec.Meta(ge=1, le=7 * 86400)] | msgspec.UnsetType | None = msgspec.UNSET
    allow_background_work: bool | msgspec.UnsetType = msgspec.UNSET
    allow_foreign: bool | msgspec.UnsetType = msgspec.UNSET
    reset: bool = False


class ReportRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that a kernel's own GPU frameworks hold, by their own counters."""

    memory: Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


class ReportAnswer(msgspec.Struct, frozen=True):
    """Whether such reports are of use: they are where the driver cannot say which process holds what."""

    wanted: bool


class ShareRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another share for this session, such as ``0.25..0.8``."""

    share: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class ShareAnswer(msgspec.Struct, frozen=True):
    """What became of it. *restart* names the notebooks whose kernel must be restarted before it holds there too."""

    share: ShareModel
    message: MessageModel
    restart: list[str]
