"""What the server sends a kernel, checked on arrival: the parts of its API that a notebook shows.

Memory is in bytes, utilisation in per cent (0 to 100), times are seconds since the epoch. Fields that a
newer server adds are ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec

__all__ = [
    "Device",
    "Kept",
    "Kernel",
    "KernelView",
    "Lease",
    "NotUnderstoodError",
    "Parking",
    "Policy",
    "Reading",
    "ReleaseBegun",
    "Share",
    "ShareChanged",
    "State",
    "decode",
    "decode_view",
]

_Amount = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Text = Annotated[str, msgspec.Meta(max_length=2000)]
_Values = Annotated[dict[_Text, _Text], msgspec.Meta(max_length=100)]
_T = TypeVar("_T")


class NotUnderstoodError(ValueError):
    """What arrived is not a view. The text names the part that is wrong."""


class Reading(msgspec.Struct, frozen=True):
    """A number, or None and why."""

    value: _Amount | None
    attribution: Literal["exact", "in_kernel", "device_total", "unavailable"]
    reason: _Text = ""


class Share(msgspec.Struct, frozen=True):
    """This session's share."""

    text: _Text
    description: _Text
    devices: list[_Text]
    request: _Amount | None
    limit: _Amount | None
    compute: Literal["shared", "enforced"]


class State(msgspec.Struct, frozen=True):
    """How it is now, in one sentence: `template` with its `values` filled in is `text`."""

    code: _Text
    text: _Text
    template: _Text = ""
    values: _Values = {}


class Device(msgspec.Struct, frozen=True):
    """One GPU; other people's use is a sum and a count."""

    uuid: _Text
    index: int
    kind: _Text
    name: _Text
    usable: _Amount
    used: Reading
    utilisation: Reading
    mine: Reading
    others: Reading
    other_holders: _Amount | None


class Policy(msgspec.Struct, frozen=True):
    """When a kernel is parked by itself: after so many idle seconds, None for never; and who decided it."""

    idle_timeout_s: float | None
    source: _Text
    allow_background_work: bool = False
    pool: _Text = ""


class Parking(msgspec.Struct, frozen=True):
    """How it is with parking this kernel; see the server's API for each field."""

    status: _Text
    since: float
    message: State
    memory: _Amount | None = None
    expected_s: float | None = None
    parks_at: float | None = None
    kept_until: float | None = None
    refusal: State | None = None
    remedy: State | None = None
    caution: State | None = None
    policy: Policy | None = None


class Kernel(msgspec.Struct, frozen=True):
    """This kernel's own row."""

    id: _Text
    name: _Text
    path: _Text | None
    execution_state: _Text
    memory: Reading
    utilisation: Reading
    note: State | None = None
    parking: Parking | None = None


class Lease(msgspec.Struct, frozen=True):
    """How it is with the share at the broker; see the server's API for each field."""

    connection: _Text
    project: _Text
    status: _Text
    message: State
    policy: State | None = None


class KernelView(msgspec.Struct, frozen=True, tag="kernel_view", tag_field="type"):
    """What this kernel may see of its session."""

    at: float
    simulated: bool
    share: Share
    memory: Reading
    utilisation: Reading
    state: State
    devices: Annotated[list[Device], msgspec.Meta(max_length=1024)]
    kernel: Kernel
    handed_back_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    lease: Lease | None = None


class ReleaseBegun(msgspec.Struct, frozen=True):
    """The server's answer to a wish to release."""

    message: State


class Kept(msgspec.Struct, frozen=True):
    """Until when the owner keeps this kernel from being parked by itself; None for no longer."""

    kept_until: float | None
    message: State


class ShareChanged(msgspec.Struct, frozen=True):
    """The server's answer to a wish for another share; *restart* names notebooks that need their kernels restarted."""

    message: State
    restart: Annotated[list[_Text], msgspec.Meta(max_length=1024)]


def decode_view(frame: str | bytes) -> KernelView:
    """Read a frame of the stream, or the answer to a request for this kernel.

    Raises:
        NotUnderstoodError: *frame* is not such a view.
    """
    return decode(frame, KernelView)


def decode(answer: str | bytes, kind: type[_T]) -> _T:
    """Read an answer of the server as *kind*.

    Raises:
        NotUnderstoodError: *answer* is something else.
    """
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotUnderstoodError(str(error)[:200]) from None
