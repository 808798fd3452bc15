"""MIG: the hardware divides the device, and the share is an instance. Nothing is left for us to enforce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.isolation.mode import Isolation, needs_one_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.session.isolation.mode import Slice

__all__ = ["Mig"]

_NOT_PARKABLE: Final = NotParkable(
    Message("MIG_DEVICE", "the device is a MIG instance, and NVIDIA's driver does not park programs on those."),
    Message("MIG_DEVICE_REMEDY", "Use a pool of whole GPUs, or free the memory with the framework's own means."),
)


class Mig(Isolation):
    """One instance for one session."""

    name = "mig"
    memory = "hardware: the instance has no more"
    compute = "enforced: hardware"
    notes = "`count` = 1. The share must be a whole instance (`1`): a part of one is not enforced. Not parkable."
    enforces_memory = True
    enforces_compute = True
    not_parkable = _NOT_PARKABLE

    def problem(self, slices: Sequence[Slice]) -> Message | None:
        """It needs one device that is an instance, and the whole of it."""
        others = [each.device.name for each in slices if not each.device.is_mig]
        if others:
            template = "Isolation mig needs MIG instances, and this server's share is on {device}. Ask your admin."
            return Message("ISOLATION_NO_MIG", template, {"device": others[0]})
        if any(each.memory < each.device.usable for each in slices):
            template = "Isolation mig cannot divide an instance, and this server's share is a part of one. Ask for 1."
            return Message("ISOLATION_PART_OF_MIG", template)
        return needs_one_device(self.name, slices)
