"""What the broker answers who asks when a share could be had: for pickers and other forms."""

from __future__ import annotations

import msgspec

from jupyter_gpushare.broker.wire import Amount, Bytes, MessageModel  # decoded

__all__ = ["AvailabilityAnswer", "AvailabilityModel"]


class AvailabilityModel(msgspec.Struct, frozen=True):
    """When a share could be had: now, after an estimated wait, or never with the reason.

    Attributes:
        is_refused: whether waiting would not help: *reason* says what would.
        place: its place in line, from 1, were it asked for now; null where it fits or is refused.
        free: how many such shares the asker could have at once now; null when that is not worked out.
        memory: bytes that are guaranteed on each device, on the smallest that could hold it; null if none could.
        burst: bytes on each device that it may use when nobody else does; null as above.
        kinds: of the devices that could hold it.
    """

    share: str
    fits_now: bool
    estimate_s: float | None
    reason: MessageModel | None
    is_refused: bool = False
    place: int | None = None
    free: int | None = None
    memory: Bytes | None = None
    burst: Bytes | None = None
    kinds: list[str] = []


class AvailabilityAnswer(msgspec.Struct, frozen=True):
    """One answer for each share that was asked about, in that order.

    Attributes:
        project: the project that was asked about, and GPUs of its sessions: *in_use* of *quota*; *left* is what of it
            the asker could still have, with its own limit and with what those in line ask for.
        parks_up_to: bytes of parked memory that the host with the most room still takes; null where nothing bounds it.
        is_parking: whether a pool parks idle sessions at all now.
        is_simulated: whether the devices are simulated.
    """

    shares: list[AvailabilityModel]
    project: str = ""
    in_use: Amount = "0"
    quota: Amount = "0"
    left: Amount = "0"
    parks_up_to: Bytes | None = None
    is_parking: bool = False
    is_simulated: bool = False
