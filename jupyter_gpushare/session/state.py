"""The one sentence that says how this session's share is now. No other module makes it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.own_share import OwnShare

__all__ = ["clock_time", "reading_gpus", "state_of"]


def clock_time(at: float) -> str:
    """A time of day as the server's machine shows it, "14:02"."""
    return time.strftime("%H:%M", time.localtime(at))


def reading_gpus() -> Message:
    """Before the first sample."""
    return Message("READING", "Reading the GPUs…")


def state_of(sample: Sample, kernels: Sequence[Kernel], own: OwnShare, release: Message | None) -> Message:
    """The state, most pressing first: no driver, a release, then what runs or is held.

    Args:
        sample: the newest sample.
        kernels: this server's kernels.
        own: this session's share.
        release: what to say of a release under way or just ended, None for none.
    """
    return _driver_trouble(sample, own) or release or _with_mig_note(_use(sample, kernels, own), sample, own)


def _driver_trouble(sample: Sample, own: OwnShare) -> Message | None:
    driver = sample.driver
    if driver.state is DriverState.LOST:
        return Message("DRIVER_LOST", "The GPU driver stopped answering: {reason}", {"reason": driver.reason})
    if driver.state is DriverState.ABSENT and driver.vendor == "none":
        return Message("NO_GPU", "No GPU here: {reason}", {"reason": driver.reason})
    if driver.state is DriverState.ABSENT:
        return Message("NO_DRIVER", "No GPU driver: {reason}", {"reason": driver.reason})
    if not sample.devices:
        return Message("NO_GPU", "No GPU here: the driver works, but this server may not see a device.")
    if not own.devices(sample.devices):
        values = {"share": own.share.describe(), "kinds": ", ".join(sorted({d.kind for d in sample.devices}))}
        return Message("NO_GPU", "No GPU of this share's kind is here: {share}; there is {kinds}.", values)
    return None


def _use(sample: Sample, kernels: Sequence[Kernel], own: OwnShare) -> Message:
    busy = [kernel for kernel in kernels if kernel.busy_since is not None]
    if len(busy) == 1:
        return Message("ACTIVE", "Active. {notebook} is running a cell.", {"notebook": busy[0].label})
    if busy:
        return Message("ACTIVE", "Active. {count} notebooks are running cells.", {"count": str(len(busy))})
    held = sample.attributed.memory
    if held.value is None:
        return Message("HOLDING", "No cell is running. What is held cannot be told: {reason}", {"reason": held.reason})
    if held.value:
        template = "No cell is running; {memory} are still held. Release gives them back."
        return Message("HOLDING", template, {"memory": Memory(held.value).human})
    return Message("NOTHING_HELD", "Nothing is held. Your share is ready: {share}.", {"share": own.share.describe()})


def _with_mig_note(message: Message, sample: Sample, own: OwnShare) -> Message:
    """MIG instances give no compute figures, which people would otherwise take for a fault."""
    if not any(device.is_mig for device in own.devices(sample.devices)):
        return message
    template = message.template + " Compute use is not available: a MIG device does not report it."
    return Message("MIG_WITHOUT_UTILISATION", template, message.values)
