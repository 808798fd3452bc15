"""The sentence for a lease's reason, with what is true of that lease now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.admission import values_of
from jupyter_gpushare.rules.demand import could_hold, share_cost
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.rules.reason import Reason, explain
from jupyter_gpushare.rules.snapshot import DeviceBooks

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["NAMES_CLOSED", "closed_devices", "explain_lease"]

#: Not all waiting is for others: with these, what keeps GPUs from being used at all is named beside it.
NAMES_CLOSED: Final = {
    Reason.WAITING_FOR_QUOTA: "{project} uses its fair share of what can be used now",
    Reason.WAITING_FOR_DEVICE: "Waits for a GPU with {share} free",
}
_BY_AN_ADMIN: Final = "An admin reclaimed the GPU; the job goes on by itself when there is room."
_GAVE_WAY: Final = "Gave its GPU back when it was reclaimed; goes on by itself when there is room."


def explain_lease(reason: Reason, lease: Lease, books: Snapshot, closed: Collection[GpuDevice] = ()) -> Message:
    """Why *lease* waits, was refused, yields or failed, for people.

    Args:
        reason: the constant.
        lease: the lease.
        books: where it is.
        closed: see `closed_devices`.
    """
    message = explain(reason, **values_of(books, lease.evolve(reason=reason)))
    if reason is Reason.RECLAIMED and not lease.because_of:
        # The rules reclaim in favour of somebody, who is named until the job has left.
        message = Message(message.code, _BY_AN_ADMIN if lease.is_resident else _GAVE_WAY, message.values)
    elif reason in NAMES_CLOSED:
        message = _with_closed(message, NAMES_CLOSED[reason], lease, books, closed)
    # Only what the sentence says: a reason is also shown to people whom the rest does not concern.
    values = {key: value for key, value in message.values.items() if f"{{{key}}}" in message.template}
    return Message(message.code, message.template, values)


def closed_devices(books: Snapshot) -> tuple[GpuDevice, ...]:
    """The devices that take nothing new, or less than they might: drained, or used by others than our holders."""
    return tuple(device for device in books.devices.values() if _is_drained(books, device) or _is_foreign(device))


def _with_closed(message: Message, head: str, lease: Lease, books: Snapshot, closed: Collection[GpuDevice]) -> Message:
    """*message*, or what keeps the lease from devices that could hold it, under a code of its own."""
    could = [device for device in closed if could_hold(lease, device)]
    drained = [device for device in could if _is_drained(books, device)]
    foreign = [device for device in could if device not in drained and _is_in_the_way(lease, device, books)]
    tails = [
        *(["an admin empties {drained} GPU that could hold it"] if drained else []),
        *(["programs that take part in no share hold memory on {foreign} GPU that could hold it"] if foreign else []),
    ]
    if not tails:
        return message
    counts = {"drained": str(len(drained)), "foreign": str(len(foreign))}
    code = Reason.BLOCKED_BY_DRAIN if drained else Reason.BLOCKED_BY_FOREIGN_MEMORY
    return Message(code.value, f"{head}; {', and '.join(tails)}.", {**message.values, **counts})


def _is_drained(books: Snapshot, device: GpuDevice) -> bool:
    host = books.hosts.get(device.host)
    return "draining" in (device.condition, host.condition if host is not None else "ready")


def _is_foreign(device: GpuDevice) -> bool:
    return device.trespassed or bool(device.foreign)


def _is_in_the_way(lease: Lease, device: GpuDevice, books: Snapshot) -> bool:
    """Whether *device* had room for it but for what is foreign there."""
    held = books.device_books.get(device.uuid, DeviceBooks()).held
    need = held + share_cost(lease.share, device.usable)
    return need <= need.ONE and (device.trespassed or need > device.capacity)
