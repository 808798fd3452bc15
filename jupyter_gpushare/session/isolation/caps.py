"""Caps inside the frameworks, and a guard that ends the session's own offender. See `notebook/caps.py`, `overrun`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.session.isolation.mode import Isolation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.session.isolation.mode import Slice

__all__ = ["CAPS_VARIABLE", "Caps"]

#: Tells the part of ours in a kernel its caps: ``limit/total`` in bytes for each device, in the order of
#: ``CUDA_VISIBLE_DEVICES``; a device beyond the list has the last one's.
CAPS_VARIABLE: Final = "GPUSHARE_MEMORY_CAPS"


class Caps(Isolation):
    """A program that asks its framework is refused in time; one that does not is ended within seconds."""

    name = "caps"
    memory = (
        "framework caps refuse in time (PyTorch, CuPy, JAX); then a guard warns and ends the *offender* within "
        "seconds. A neighbour's existing memory is safe, its new allocations may fail meanwhile"
    )
    compute = "shared: the driver gives each process equal time"
    notes = "The guard needs the driver to list processes with ids of this server's namespace."
    guards = True

    def environment(self, slices: Sequence[Slice], given: Mapping[str, str]) -> dict[str, str]:
        """The caps, in the order of the devices; the smallest alone where another order was given."""
        caps = [f"{each.memory.bytes}/{each.device.total.bytes}" for each in slices]
        if "CUDA_VISIBLE_DEVICES" in given:
            smallest = min(slices, key=lambda each: each.memory, default=None)
            caps = [] if smallest is None else [f"{smallest.memory.bytes}/{smallest.device.total.bytes}"]
        return {CAPS_VARIABLE: ",".join(caps)} if caps else {}
