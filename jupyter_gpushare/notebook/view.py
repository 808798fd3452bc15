"""What the server sends a kernel, checked on arrival: the parts of its API that a notebook shows.

Memory is in bytes, utilisation in per cent (0 to 100), times are seconds since the epoch. Fields that a
newer server adds are ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

__all__ = ["Device", "Kernel", "KernelView", "NotUnderstoodError", "Reading", "Share", "State", "decode_view"]

_Amount = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Text = Annotated[str, msgspec.Meta(max_length=2000)]


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
    """How it is now, in one sentence."""

    code: _Text
    text: _Text


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


class Kernel(msgspec.Struct, frozen=True):
    """This kernel's own row."""

    id: _Text
    name: _Text
    path: _Text | None
    execution_state: _Text
    memory: Reading
    utilisation: Reading
    note: State | None = None


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


def decode_view(frame: str | bytes) -> KernelView:
    """Read a frame of the stream, or the answer to a request for this kernel.

    Raises:
        NotUnderstoodError: *frame* is not such a view.
    """
    try:
        return msgspec.json.decode(frame, type=KernelView)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotUnderstoodError(str(error)[:200]) from None
