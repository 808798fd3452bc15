"""The one sentence that says how this session's share is now. No other module makes it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.parking import view as parking_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.devices.device import Reading
    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.own_share import OwnShare
    from jupyter_gpushare.session.parking.view import KernelParking

__all__ = ["Told", "clock_time", "driver_trouble", "holding", "reading_gpus", "state_of"]


def clock_time(at: float) -> str:
    """A time of day as the server's machine shows it, "14:02"."""
    return time.strftime("%H:%M", time.localtime(at))


def reading_gpus() -> Message:
    """Before the first sample."""
    return Message("READING", "Reading the GPUs…")


def state_of(
    sample: Sample,
    kernels: Sequence[Kernel],
    own: OwnShare,
    held: Reading,
    release: Told | None = None,
    *,
    parkings: Sequence[KernelParking] = (),
) -> Message:
    """The session's state, most pressing first: no driver, something that moves, a running cell, what is held.

    Args:
        sample: the newest sample.
        kernels: this server's kernels.
        own: this session's share.
        held: the session's memory, by the best evidence there is.
        release: a release under way or just ended, None for none.
        parkings: how it is with parking each kernel.
    """
    trouble = driver_trouble(sample, own)
    if trouble is not None:
        return trouble
    if (moving := parking_view.most_pressing(parkings)) is not None:
        return moving
    busy = [kernel for kernel in kernels if kernel.cells]
    if release is not None and (release.is_running or not busy):
        return release.message
    told = parking_view.just_resumed(parkings) or parking_view.busy_but_quiet(parkings)
    if told is None and not busy:
        told = parking_view.when_nothing_runs(parkings, held=held.value, read_at=sample.at)
    return told or _with_mig_note(_running(busy) or holding(held, own.share.describe()), sample, own)


class Told(NamedTuple):
    """What there is to say of a release."""

    message: Message
    is_running: bool


def driver_trouble(sample: Sample, own: OwnShare) -> Message | None:
    """Why no number can be had, or the share not be kept; None when all is well."""
    driver = sample.driver
    if driver.state is DriverState.LOST:
        return Message("DRIVER_LOST", "The GPU driver stopped answering: {reason}", {"reason": driver.reason})
    if driver.state is DriverState.ABSENT and driver.vendor == "none":
        return Message("NO_GPU", "No GPU here: {reason}", {"reason": driver.reason})
    if driver.state is DriverState.ABSENT:
        return Message("NO_DRIVER", "No GPU driver: {reason}", {"reason": driver.reason})
    if not sample.devices:
        return Message("NO_GPU", "No GPU here: the driver works, but this server may not see a device.")
    return own.problem(sample.devices)


def holding(held: Reading, share: str) -> Message:
    """No cell runs: what is held all the same."""
    if held.value is None:
        return Message("HOLDING", "No cell is running. What is held cannot be told: {reason}", {"reason": held.reason})
    if held.value:
        template = "No cell is running; {memory} are still held. Release gives them back."
        return Message("HOLDING", template, {"memory": Memory(held.value).human})
    return Message("NOTHING_HELD", "Nothing is held. Your share is ready: {share}.", {"share": share})


def _running(busy: Sequence[Kernel]) -> Message | None:
    if len(busy) == 1:
        return Message("ACTIVE", "Active. {notebook} is running a cell.", {"notebook": busy[0].label})
    if busy:
        return Message("ACTIVE", "Active. {count} notebooks are running cells.", {"count": str(len(busy))})
    return None


def _with_mig_note(message: Message, sample: Sample, own: OwnShare) -> Message:
    """MIG instances give no compute figures, which people would otherwise take for a fault."""
    if not any(device.is_mig for device in own.devices(sample.devices)):
        return message
    template = message.template + " Compute use is not available: a MIG device does not report it."
    return Message("MIG_WITHOUT_UTILISATION", template, message.values)
