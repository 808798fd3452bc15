"""What the examiner of one server asks, and how: the kernels, their specs, the system, the simulated machine."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.devices.discovery import SIMULATED_MACHINE
from jupyter_gpushare.parking.facts import KernelFacts, Settings
from jupyter_gpushare.session.idle.cpu_time import read_tree, spent_ticks
from jupyter_gpushare.session.kernel_messages import request_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.session.idle.cpu_time import Ticks
    from jupyter_gpushare.session.idle.overrides import Overrides
    from jupyter_gpushare.session.kernels import Kernel, Kernels
    from jupyter_gpushare.session.wire import ParkingMode

__all__ = ["CpuSinceCell", "is_ipykernel", "kernel_traits", "machine_features", "probe_kernel", "settings_of"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LONGEST_WINDOW_S = 60.0


class CpuSinceCell:
    """CPU seconds of each kernel's process tree since its last cell ended, at most over the last minute or two.

    Measured between two calls, so the first one after a cell says that nothing is known yet.
    """

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._begins: dict[str, tuple[float, float, Mapping[Identity, Ticks]]] = {}

    async def __call__(self, kernel_id: str) -> tuple[float | None, float]:
        """Seconds of CPU time, None while unknown, and in how many seconds."""
        kernel, pid = self._kernels.get(kernel_id), self._kernels.pid(kernel_id)
        if kernel is None or pid is None:
            return None, 0.0
        tree = await asyncio.to_thread(read_tree, [pid])
        now = time.time()
        idle_since, began, before = self._begins.get(kernel_id, (0.0, now, tree))
        if idle_since != kernel.idle_since:
            self._begins[kernel_id] = kernel.idle_since, now, tree
            return None, 0.0
        if now - began > _LONGEST_WINDOW_S:
            self._begins[kernel_id] = kernel.idle_since, now, tree
        return spent_ticks(before, tree) / _TICKS_PER_S, now - began

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self._begins.pop(kernel_id, None)


def kernel_traits(manager: Any, can_gate: Callable[[str], bool]) -> Callable[[Kernel], KernelFacts]:
    """Says of a kernel of *manager*, a `MappingKernelManager`, what kind it is."""

    def traits(kernel: Kernel) -> KernelFacts:
        return KernelFacts(
            is_ipykernel=is_ipykernel(manager, kernel.id),
            is_gateway=not can_gate(kernel.id),
            is_ours=kernel.managed,
            has_part=kernel.releases_cache,
            cell_running=bool(kernel.cells),
        )

    return traits


def is_ipykernel(manager: Any, kernel_id: str) -> bool:
    """Whether the kernel's spec starts IPython's kernel."""
    spec = getattr(manager.get_kernel(kernel_id), "kernel_spec", None) if kernel_id in manager else None
    return any("ipykernel" in str(part) for part in getattr(spec, "argv", None) or ())


def probe_kernel(manager: Any, deadline_s: float) -> Callable[[str], Any]:
    """Asks a kernel of *manager* what goes on in it; see `request_probe`."""

    async def probe(kernel_id: str) -> object:
        return await request_probe(manager.get_kernel(kernel_id), since=None, timeout_s=deadline_s)

    return probe


def settings_of(mode: Callable[[], ParkingMode], overrides: Overrides) -> Callable[[str], Settings]:
    """What admin and owner decided for a kernel."""

    def settings(kernel_id: str) -> Settings:
        policy = overrides.of(kernel_id)
        return Settings(
            uid=os.geteuid(),
            mode=mode(),
            allow_background_work=policy.allow_background_work,
            allow_foreign=policy.allow_foreign,
        )

    return settings


def machine_features() -> Callable[[Identity], frozenset[str]] | None:
    """What processes use, as the simulated machine knows it; None on real devices."""
    directory = os.environ.get(SIMULATED_MACHINE)
    if not directory:
        return None
    from jupyter_gpushare.devices.simulated.machine import Machine

    def features(process: Identity) -> frozenset[str]:
        machine = Machine.open(directory)
        try:
            return machine.occupancy.features(process)
        finally:
            machine.close()

    return features
