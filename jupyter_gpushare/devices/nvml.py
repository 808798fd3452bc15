"""NVIDIA GPUs and MIG instances through NVML, as the package nvidia-ml-py (module ``pynvml``) binds it."""

from __future__ import annotations

import importlib
import os
import re
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.devices.device import Device, DeviceUse, ProcessUse, Reading
from jupyter_gpushare.devices.driver_link import Opened
from jupyter_gpushare.devices.driver_source import DriverSource
from jupyter_gpushare.devices.guard import Failure, Guard
from jupyter_gpushare.devices.kind import kind_of
from jupyter_gpushare.devices.nvml_errors import GONE, NO_LIBRARY, NOT_FOUND, NOT_SUPPORTED, explain
from jupyter_gpushare.devices.visibility import Physical, visible_to_cuda
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["NvmlSource"]

# NVML opens nvidiactl even where no GPU may be used; WSL has one device for all GPUs.
_DEVICE_FILES: Final = re.compile(r"/dev/(?:nvidia[0-9]+|nvidia-uvm|dxg)")
# nvmlMemory_v2 in nvml.h: the structure's size and its version.
_MEMORY_V2: Final = 0x02000028
# Listing processes takes milliseconds under a lock of the whole driver. Who comes, goes or allocates changes the
# device's memory in use, so while that stands still the list does; graphics in a notebook are rare.
_READS_PER_LIST: Final = 5
_READS_PER_GRAPHICS_LIST: Final = 2 * _READS_PER_LIST
# Without a version 2 answer the driver's reserve can only be guessed; above this part of the device it is none.
_LARGEST_RESERVE: Final = 16
_FULL: Final = 100
_MICROSECONDS: Final = 1_000_000

_NO_BINDING: Final = "The Python package nvidia-ml-py is missing; install it (pip install nvidia-ml-py)."
_NO_MIG_UTILISATION: Final = "NVIDIA's driver gives no utilisation for MIG instances."
_NO_PROCESS_MEMORY: Final = "NVIDIA's driver does not say how much memory this process holds."
_IMPOSSIBLE_UTILISATION: Final = "NVIDIA's driver gave an impossible utilisation."


@dataclass(slots=True)
class _Handle:
    """One device as the library knows it, and what has to be remembered between two readings."""

    device: Device
    physical: Physical
    native: Any
    has_v2: bool
    reserve: int
    seen_us: int
    graphics: list[Any] = field(default_factory=list)
    listed: dict[int, int | None] | Failure | None = None
    used: int | None = None
    moved: bool = True
    reads: int = 0


class NvmlSource(DriverSource[_Handle]):
    """Devices of the NVIDIA driver, MIG instances in place of the GPU that they divide.

    Args:
        library: an object with pynvml's functions; pynvml itself by default.
        environ: whose ``CUDA_VISIBLE_DEVICES`` and ``NVIDIA_VISIBLE_DEVICES`` restrict what is seen.
        clock: seconds that only go forward, for back-off.
        now: seconds since the epoch, as the driver stamps its samples.
    """

    def __init__(
        self,
        library: object | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("nvidia", _DEVICE_FILES, clock)
        self._library = library
        self._environ = os.environ if environ is None else environ
        self._now = now

    def _load(self) -> Guard | Failure:
        try:
            return Guard(self._library or importlib.import_module("pynvml"), explain)
        except ImportError:
            return Failure(None, _NO_BINDING)

    def _start(self, guard: Guard) -> Failure | None:
        answer = guard("nvmlInit")
        refused = answer if isinstance(answer, Failure) else None
        self._installed = refused is None or refused.code != NO_LIBRARY
        return refused

    def _list(self, guard: Guard) -> Opened[_Handle] | Failure:
        found = _enumerate(guard, self._now)
        if isinstance(found, Failure):
            return found
        version = guard("nvmlSystemGetDriverVersion")
        visible = visible_to_cuda(found, self._environ)
        return Opened("" if isinstance(version, Failure) else _text(version), tuple(visible))

    def _shut(self, guard: Guard) -> None:
        guard("nvmlShutdown")

    def _read_device(self, guard: Guard, handle: _Handle) -> DeviceUse | Failure:
        memory = _memory_info(guard, handle.native, has_v2=handle.has_v2)
        if isinstance(memory, Failure) and memory.code in GONE:
            return memory
        listed = _listed(guard, handle, memory)
        handle.reads += 1
        return DeviceUse(
            uuid=handle.device.uuid,
            memory=_used(memory, handle),
            utilisation=_utilisation(guard, handle),
            processes=None if isinstance(listed, Failure) else _process_uses(guard, handle, listed, self._now),
            processes_reason=listed.reason if isinstance(listed, Failure) else "",
        )


def _enumerate(guard: Guard, now: Callable[[], float]) -> list[_Handle] | Failure:
    """Every device that answers; the first failure if there are devices but none of them does."""
    count = guard("nvmlDeviceGetCount")
    if isinstance(count, Failure):
        return count
    found: list[_Handle] = []
    failures: list[Failure] = []
    for index in range(count):
        gpu = guard("nvmlDeviceGetHandleByIndex", index)
        for part in [gpu] if isinstance(gpu, Failure) else _gpu_handles(guard, gpu, index, now):
            (failures if isinstance(part, Failure) else found).append(part)  # type: ignore[arg-type]
    return found if found or not failures else failures[0]


def _gpu_handles(guard: Guard, gpu: Any, index: int, now: Callable[[], float]) -> list[_Handle | Failure]:
    uuid = guard("nvmlDeviceGetUUID", gpu)
    if isinstance(uuid, Failure):
        return [uuid]
    physical = Physical(index, _text(uuid))
    mode = guard("nvmlDeviceGetMigMode", gpu)
    if isinstance(mode, Failure) or mode[0] != 1:
        return [_handle(guard, gpu, physical, now)]
    return [_mig_handle(guard, instance, physical, now) for instance in _mig_instances(guard, gpu)]


def _mig_instances(guard: Guard, gpu: Any) -> list[Any]:
    most = guard("nvmlDeviceGetMaxMigDeviceCount", gpu)
    places = range(0 if isinstance(most, Failure) else most)
    instances = [guard("nvmlDeviceGetMigDeviceHandleByIndex", gpu, place) for place in places]
    return [instance for instance in instances if not isinstance(instance, Failure)]


def _mig_handle(guard: Guard, instance: Any, gpu: Physical, now: Callable[[], float]) -> _Handle | Failure:
    uuid = guard("nvmlDeviceGetUUID", instance)
    if isinstance(uuid, Failure):
        return uuid
    return _handle(guard, instance, Physical(gpu.index, gpu.gpu_uuid, _text(uuid)), now)


def _handle(guard: Guard, native: Any, physical: Physical, now: Callable[[], float]) -> _Handle | Failure:
    info, has_v2 = _memory_info(guard, native, has_v2=True), True
    if isinstance(info, Failure):
        info, has_v2 = _memory_info(guard, native, has_v2=False), False
    if isinstance(info, Failure) and info.code in GONE:
        return info
    name = guard("nvmlDeviceGetName", native)
    name = "" if isinstance(name, Failure) else _text(name)
    total = 0 if isinstance(info, Failure) else int(info.total)
    reserve = 0 if isinstance(info, Failure) else _reserve(guard, native, info, has_v2=has_v2)
    device = Device(
        uuid=physical.mig_uuid or physical.gpu_uuid,
        index=physical.index,
        host=socket.gethostname(),
        kind=kind_of(name),
        name=name,
        total=Memory(total),
        usable=Memory(total - reserve),
        is_mig=bool(physical.mig_uuid),
    )
    # Stamp 0 would average over everything in the driver's buffer; a moment ago is what "now" means.
    return _Handle(device, physical, native, has_v2, reserve, int((now() - 1) * _MICROSECONDS))


def _memory_info(guard: Guard, native: Any, *, has_v2: bool) -> Any:
    if has_v2:
        return guard("nvmlDeviceGetMemoryInfo", native, _MEMORY_V2)
    return guard("nvmlDeviceGetMemoryInfo", native)


def _reserve(guard: Guard, native: Any, info: Any, *, has_v2: bool) -> int:
    """What the driver keeps of the device for itself.

    Version 2 of the memory information (driver 510 and newer) says it. Version 1 counts it as used, without saying
    how much: it is then what is used and held by no process, unless that is so much that somebody must hide in it.
    """
    if has_v2:
        return int(info.reserved)
    processes = guard("nvmlDeviceGetComputeRunningProcesses", native)
    if isinstance(processes, Failure) or any(process.usedGpuMemory is None for process in processes):
        return 0
    unexplained = int(info.used) - sum(process.usedGpuMemory for process in processes)
    return unexplained if 0 <= unexplained <= info.total // _LARGEST_RESERVE else 0


def _used(memory: Any, handle: _Handle) -> Reading:
    if isinstance(memory, Failure):
        return Reading.unavailable(memory.reason)
    # Version 1 counts the driver's reserve as used, version 2 does not.
    return Reading.exact(int(memory.used) if handle.has_v2 else max(0, int(memory.used) - handle.reserve))


def _utilisation(guard: Guard, handle: _Handle) -> Reading:
    if handle.device.is_mig:
        return Reading.unavailable(_NO_MIG_UTILISATION)
    rates = guard("nvmlDeviceGetUtilizationRates", handle.native)
    return Reading.unavailable(rates.reason) if isinstance(rates, Failure) else _per_cent(int(rates.gpu))


def _per_cent(value: int) -> Reading:
    return Reading.exact(value) if 0 <= value <= _FULL else Reading.unavailable(_IMPOSSIBLE_UTILISATION)


def _listed(guard: Guard, handle: _Handle, memory: Any) -> dict[int, int | None] | Failure:
    """Memory by process, asked anew when the memory in use has moved, and once more after it came to rest."""
    used = None if isinstance(memory, Failure) else int(memory.used)
    moves, handle.used = used is None or used != handle.used, used
    due = moves or handle.moved or handle.reads % _READS_PER_LIST == 0
    handle.moved = moves
    if due or handle.listed is None or isinstance(handle.listed, Failure):
        handle.listed = _list_processes(guard, handle)
    return handle.listed


def _list_processes(guard: Guard, handle: _Handle) -> dict[int, int | None] | Failure:
    """Memory by process, None where the driver does not give it. A process of both kinds is listed twice, in full."""
    compute = guard("nvmlDeviceGetComputeRunningProcesses", handle.native)
    if isinstance(compute, Failure):
        return compute
    if handle.reads % _READS_PER_GRAPHICS_LIST == 0:
        graphics = guard("nvmlDeviceGetGraphicsRunningProcesses", handle.native)
        if isinstance(graphics, Failure):
            if graphics.code != NOT_SUPPORTED:
                return graphics
            graphics = []
        handle.graphics = graphics
    memory: dict[int, int | None] = {}
    for process in (*compute, *handle.graphics):
        held = process.usedGpuMemory
        if held is not None and not 0 <= held <= handle.device.total.bytes:
            held = None
        known = memory.get(process.pid)
        memory[process.pid] = held if known is None else max(known, held or 0)
    return memory


def _process_uses(
    guard: Guard, handle: _Handle, listed: Mapping[int, int | None], now: Callable[[], float]
) -> tuple[ProcessUse, ...]:
    if not listed:
        # The stamp goes on, or the first process's first sample would be an average since the last one left.
        handle.seen_us = max(handle.seen_us, int((now() - 1) * _MICROSECONDS))
        return ()
    utilisation = _process_utilisation(guard, handle)
    return tuple(
        ProcessUse(
            pid,
            Reading.unavailable(_NO_PROCESS_MEMORY) if held is None else Reading.exact(held),
            Reading.unavailable(utilisation.reason)
            if isinstance(utilisation, Failure)
            else utilisation.get(pid, Reading.exact(0)),
        )
        for pid, held in listed.items()
    )


def _process_utilisation(guard: Guard, handle: _Handle) -> dict[int, Reading] | Failure:
    """Utilisation of the processes that used the device since the last reading; the others used none.

    NVML takes and gives stamps in microseconds, and answers NOT_FOUND when nobody used the device since.
    """
    if handle.device.is_mig:
        return Failure(NOT_SUPPORTED, _NO_MIG_UTILISATION)
    samples = guard("nvmlDeviceGetProcessUtilization", handle.native, handle.seen_us)
    if isinstance(samples, Failure):
        return {} if samples.code == NOT_FOUND else samples
    fresh = sorted((sample for sample in samples if sample.timeStamp > handle.seen_us), key=_stamp)
    if fresh:
        handle.seen_us = fresh[-1].timeStamp
    return {sample.pid: _per_cent(int(sample.smUtil)) for sample in fresh}


def _stamp(sample: Any) -> int:
    return int(sample.timeStamp)


def _text(value: str | bytes) -> str:
    """Bindings before 11.515 answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
