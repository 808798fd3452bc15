"""A small real NVML in memory, with pynvml's names, and hostile kinds of it."""

# ruff: noqa: N802  # the functions have the names of the binding that they stand for
from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

GIB = 1 << 30
MIB = 1 << 20
RESERVE = 512 * MIB
MEMORY_V2 = 0x02000028

UNINITIALIZED = 1
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
VERSION_MISMATCH = 18
UNKNOWN = 999


class NVMLError(Exception):
    """As pynvml's: the code is in ``value``."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


@dataclass(eq=False)
class FakeGpu:
    """One GPU: its processes by pid, in bytes; None is memory that the driver does not give."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB"
    total: int = 40 * GIB
    utilisation: int = 0
    compute: dict[int, int | None] = field(default_factory=dict)
    graphics: dict[int, int | None] = field(default_factory=dict)
    samples: list[SimpleNamespace] = field(default_factory=list)
    instances: list[FakeGpu | None] = field(default_factory=list)
    lost: int = 0

    @property
    def used(self) -> int:
        """What its processes hold; the reserve is not in it."""
        return sum(held or 0 for held in {**self.graphics, **self.compute}.values())


class FakeNvml:
    """A healthy driver with *gpus*, which a test may change while it runs."""

    def __init__(self, gpus: int | list[FakeGpu] = 1, *, has_v2: bool = True) -> None:
        self.gpus = [FakeGpu(f"GPU-{i:08x}") for i in range(gpus)] if isinstance(gpus, int) else gpus
        self.has_v2 = has_v2
        self.users = 0
        self.inits = 0
        self.seen: list[str] = []
        self.stamps: list[int] = []

    def nvmlInit(self) -> None:
        self.seen.append("nvmlInit")
        self.users += 1
        self.inits += 1

    def nvmlShutdown(self) -> None:
        self.seen.append("nvmlShutdown")
        if self.users == 0:
            raise NVMLError(UNINITIALIZED)
        self.users -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self.enter("nvmlSystemGetDriverVersion")
        return "580.95.05"

    def nvmlDeviceGetCount(self) -> int:
        self.enter("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        self.enter("nvmlDeviceGetHandleByIndex", self.gpus[index])
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        self.enter("nvmlDeviceGetUUID", gpu)
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        self.enter("nvmlDeviceGetName", gpu)
        return gpu.name

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:
        self.enter("nvmlDeviceGetMigMode", gpu)
        return [1, 1] if gpu.instances else [0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:
        self.enter("nvmlDeviceGetMaxMigDeviceCount", gpu)
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, index: int) -> FakeGpu:
        self.enter("nvmlDeviceGetMigDeviceHandleByIndex", gpu)
        instance = gpu.instances[index] if index < len(gpu.instances) else None
        if instance is None:
            raise NVMLError(NOT_FOUND)
        return instance

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int | None = None) -> Any:
        self.enter("nvmlDeviceGetMemoryInfo", gpu)
        if version is None:
            return SimpleNamespace(total=gpu.total, used=gpu.used + RESERVE, free=gpu.total - gpu.used - RESERVE)
        if not self.has_v2:
            raise NVMLError(FUNCTION_NOT_FOUND)
        assert version == MEMORY_V2
        return SimpleNamespace(total=gpu.total, used=gpu.used, reserved=RESERVE, free=gpu.total - gpu.used - RESERVE)

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> Any:
        self.enter("nvmlDeviceGetUtilizationRates", gpu)
        if gpu.uuid.startswith("MIG-"):
            raise NVMLError(NOT_SUPPORTED)
        return SimpleNamespace(gpu=gpu.utilisation, memory=0)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        self.enter("nvmlDeviceGetComputeRunningProcesses", gpu)
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in gpu.compute.items()]

    def nvmlDeviceGetGraphicsRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        self.enter("nvmlDeviceGetGraphicsRunningProcesses", gpu)
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in gpu.graphics.items()]

    def nvmlDeviceGetProcessUtilization(self, gpu: FakeGpu, stamp: int) -> list[Any]:
        self.enter("nvmlDeviceGetProcessUtilization", gpu)
        self.stamps.append(stamp)
        fresh = [sample for sample in gpu.samples if sample.timeStamp > stamp]
        if not fresh:
            raise NVMLError(NOT_FOUND)
        return fresh

    def enter(self, name: str, gpu: FakeGpu | None = None) -> None:
        """Each call passes here: hostile kinds of this driver change it."""
        self.seen.append(name)
        if self.users == 0:
            raise NVMLError(UNINITIALIZED)
        if gpu is not None and gpu.lost:
            raise NVMLError(gpu.lost)


def sample(pid: int, stamp_us: int, per_cent: int) -> SimpleNamespace:
    """What the driver says that *pid* used, with memUtil wrong on purpose: it is bandwidth, not memory."""
    return SimpleNamespace(pid=pid, timeStamp=stamp_us, smUtil=per_cent, memUtil=99)


class NvmlAbsent(FakeNvml):
    """A machine on which `nvmlInit` fails with *code*."""

    def __init__(self, code: int = LIBRARY_NOT_FOUND) -> None:
        super().__init__(0)
        self.code = code

    def nvmlInit(self) -> None:
        self.inits += 1
        if self.code:
            raise NVMLError(self.code)
        self.users += 1


class NvmlLost(FakeNvml):
    """A driver that from `lose` on fails every call with *code*, until `recover`, perhaps with other devices."""

    def __init__(self, gpus: int | list[FakeGpu] = 1, code: int = GPU_IS_LOST) -> None:
        super().__init__(gpus)
        self.code = code
        self.is_lost = False

    def nvmlInit(self) -> None:
        if self.is_lost:
            self.inits += 1
            raise NVMLError(DRIVER_NOT_LOADED)
        super().nvmlInit()

    def enter(self, name: str, gpu: FakeGpu | None = None) -> None:
        super().enter(name, gpu)
        if self.is_lost:
            raise NVMLError(self.code)


class NvmlRaisesOn(FakeNvml):
    """One call always fails, with an error of the driver or with any other exception."""

    def __init__(self, call: str, error: Exception) -> None:
        super().__init__([FakeGpu("GPU-0", utilisation=40, compute={7: GIB})])
        self.call = call
        self.error = error

    def enter(self, name: str, gpu: FakeGpu | None = None) -> None:
        super().enter(name, gpu)
        if name == self.call:
            raise self.error


class NvmlSlow(FakeNvml):
    """Every call takes *delay_s*."""

    def __init__(self, gpus: int, delay_s: float) -> None:
        super().__init__(gpus)
        self.delay_s = delay_s

    def enter(self, name: str, gpu: FakeGpu | None = None) -> None:
        time.sleep(self.delay_s)
        super().enter(name, gpu)


class NvmlLiesAboutPids(FakeNvml):
    """Lists processes by the numbers that they have elsewhere: *offset* away from ours."""

    def __init__(self, gpus: list[FakeGpu], offset: int) -> None:
        super().__init__(gpus)
        self.offset = offset

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        listed = super().nvmlDeviceGetComputeRunningProcesses(gpu)
        return [SimpleNamespace(pid=entry.pid + self.offset, usedGpuMemory=entry.usedGpuMemory) for entry in listed]


class NvmlMig(FakeNvml):
    """One GPU divided in two instances, with an empty place between them, and one that is not divided."""

    def __init__(self) -> None:
        name = "NVIDIA A100-SXM4-40GB"
        instances = [
            FakeGpu("MIG-aaaa", f"{name} MIG 3g.20gb", 20 * GIB, compute={7: GIB}),
            None,
            FakeGpu("MIG-bbbb", f"{name} MIG 1g.5gb", 5 * GIB),
        ]
        super().__init__([FakeGpu("GPU-0", name, instances=instances), FakeGpu("GPU-1", name)])


class NvmlAnswersNonsense(FakeNvml):
    """Answers that no driver should give: lists of nothing, memory above the device, impossible per cents."""

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> Any:
        super().nvmlDeviceGetUtilizationRates(gpu)
        return SimpleNamespace(gpu=4294967295)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        super().nvmlDeviceGetComputeRunningProcesses(gpu)
        return [SimpleNamespace(pid=7, usedGpuMemory=(1 << 64) - 1)]

    def nvmlDeviceGetProcessUtilization(self, gpu: FakeGpu, stamp: int) -> list[Any]:
        super().enter("nvmlDeviceGetProcessUtilization", gpu)
        return [sample(7, stamp + 1, 4294967295)]


class NvmlHidesProcesses(FakeNvml):
    """Lists nobody, as in some containers, whatever is held."""

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        super().nvmlDeviceGetComputeRunningProcesses(gpu)
        return []
