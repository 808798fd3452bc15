"""What a lease asks of its project's part, in GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.quantity import Memory
    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.share import Share

__all__ = ["cost_of", "could_hold", "demand_of", "share_cost"]


def share_cost(share: Share, usable: Memory) -> Fraction:
    """What one device with *usable* memory gives for *share*: a part of it; more than one GPU when it is too small."""
    return cost_of(share.request, usable)


def cost_of(amount: Fraction | Memory, usable: Memory) -> Fraction:
    """What *amount*, a request or a limit, is of a device with *usable* memory."""
    if isinstance(amount, Fraction):
        return amount
    return amount.fraction_of(usable)


def could_hold(lease: Lease, device: GpuDevice) -> bool:
    """Whether *device* could ever hold a part of this lease, were it empty."""
    return (
        lease.share.kind in ("", device.kind)
        and lease.pool in ("", device.pool)
        and device.condition != "gone"
        and share_cost(lease.share, device.usable) <= Fraction.ONE
    )


def demand_of(lease: Lease, devices: Mapping[str, GpuDevice]) -> Fraction:
    """What the lease has, or while it waits, what it would have on the smallest device that it could get.

    A share in GiB costs the fraction that it takes of a device's usable memory (DESIGN 5, rule 4).
    """
    if lease.grants and not lease.is_waiting:
        return lease.amount
    if isinstance(lease.share.request, Fraction):
        return lease.share.request * lease.share.count
    fitting = [share_cost(lease.share, device.usable) for device in devices.values() if could_hold(lease, device)]
    return max(fitting, default=Fraction.ZERO) * lease.share.count
