"""Facts of a kernel that can be parked, and for each row of the table the one change that makes it refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.parking.checkpoint import CheckpointDriver
from jupyter_gpushare.parking.facts import (
    Background,
    DeviceFacts,
    Facts,
    HostFacts,
    KernelFacts,
    Outside,
    ProcessFacts,
    Settings,
    Work,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY = 8 << 30
PROCESS = Identity(4242, 1000)

HEALTHY = Facts(
    driver=CheckpointDriver("nvidia", "580.95.05", "13.0"),
    host=HostFacts(architecture="x86_64", available=64 << 30, budget_left=32 << 30),
    settings=Settings(uid=1000),
    kernel=KernelFacts(),
    memory=MEMORY,
    devices=(DeviceFacts(uuid="GPU-1", name="NVIDIA H200"),),
    processes=(
        ProcessFacts(identity=PROCESS, name="python3", found=PROCESS, state="S", uid=1000, threads=("python3",)),
    ),
    background=Background(probe="answered", cpu_s=0.1, window_s=60),
)


def driver(**values: Any) -> Callable[[Facts], Facts]:
    """Facts with another driver."""
    return lambda facts: replace(
        facts, driver=CheckpointDriver(**({"vendor": "nvidia", "version": "580.95.05"} | values))
    )


def process(**values: Any) -> Callable[[Facts], Facts]:
    """Facts in which the last process differs."""
    return lambda facts: replace(
        facts, processes=(*facts.processes[:-1], *(replace(last, **values) for last in facts.processes[-1:]))
    )


def part(name: str, **values: Any) -> Callable[[Facts], Facts]:
    """Facts in which one part differs."""
    return lambda facts: replace(facts, **{name: replace(getattr(facts, name), **values)})


def device(**values: Any) -> Callable[[Facts], Facts]:
    """Facts in which the devices differ."""
    return lambda facts: replace(facts, devices=tuple(replace(one, **values) for one in facts.devices))


def whole(**values: Any) -> Callable[[Facts], Facts]:
    """Facts that differ themselves."""
    return lambda facts: replace(facts, **values)


def both(*changes: Callable[[Facts], Facts]) -> Callable[[Facts], Facts]:
    """All of *changes*, in order."""

    def change(facts: Facts) -> Facts:
        for one in changes:
            facts = one(facts)
        return facts

    return change


# Each by itself makes a healthy kernel refused with exactly this code.
WRONG: dict[str, tuple[str, Callable[[Facts], Facts]]] = {
    "parking is off": ("PARKING_OFF", part("settings", mode="off")),
    "an ARM host": ("NOT_X86", part("host", architecture="aarch64")),
    "an unknown host": ("NOT_X86", part("host", architecture="")),
    "no driver": ("NO_CHECKPOINT_SUPPORT", driver(version="", missing="libcuda.so.1 is not installed.")),
    "an old driver": ("NO_CHECKPOINT_SUPPORT", driver(version="565.57.01")),
    "a driver of no known version": ("NO_CHECKPOINT_SUPPORT", driver(version="")),
    "an old simulated driver": ("NO_CHECKPOINT_SUPPORT", driver(vendor="simulated", version="550.54")),
    "a harmful driver": ("HARMFUL_DRIVER", driver(version="610.57.04")),
    "a harmful simulated driver": ("HARMFUL_DRIVER", driver(vendor="simulated", version="610.57.04")),
    "a gateway": ("GATEWAY_KERNEL", part("kernel", is_gateway=True)),
    "another kernel": ("NOT_IPYKERNEL", part("kernel", is_ipykernel=False)),
    "another provisioner": ("FOREIGN_PROVISIONER", part("kernel", is_ours=False)),
    "no kernel part": ("NO_KERNEL_PART", part("kernel", has_part=False)),
    "MIG": ("MIG_DEVICE", device(is_mig=True)),
    "no list of processes": ("UNKNOWN_PROCESSES", device(listed=False, why_not_listed="host process ids.")),
    "unknown neighbours": ("UNKNOWN_PROCESSES", device(foreign_processes=None)),
    "unknown memory of neighbours": ("UNKNOWN_PROCESSES", device(foreign=None)),
    "unknown memory": ("UNKNOWN_PROCESSES", whole(memory=None)),
    "no memory": ("NOTHING_HELD", whole(memory=0)),
    "no process": ("NOTHING_HELD", whole(processes=())),
    "no device": ("NOTHING_HELD", whole(devices=())),
    "a process that ended": ("ZOMBIE", process(found=None, state="")),
    "a zombie": ("ZOMBIE", process(found=None, state="Z")),
    "a zombie still found": ("ZOMBIE", process(state="Z")),
    "a dead process": ("ZOMBIE", process(state="X")),
    "a reused process id": ("PID_REUSED", process(found=Identity(PROCESS.pid, PROCESS.start + 1))),
    "a thread's id": ("PID_REUSED", process(is_leader=False)),
    "another user": ("OTHER_USER", process(uid=1001)),
    "root's process": ("OTHER_USER", process(uid=0)),
    "unreadable facts": ("UNREADABLE", process(unreadable="Permission denied")),
    "an unknown user": ("UNREADABLE", process(uid=None)),
    "stopped by a signal": ("STOPPED", process(state="T")),
    "stopped by a debugger": ("STOPPED", process(state="t")),
    "MPS": ("MPS_CLIENT", process(features=frozenset({"mps"}))),
    "managed memory": ("MANAGED_MEMORY", process(features=frozenset({"managed_memory"}))),
    "two mappings of managed memory": ("MANAGED_MEMORY", process(uvm_mappings=2)),
    "shared GPU memory": ("CUDA_IPC", process(features=frozenset({"ipc"}))),
    "shared GPU memory, says the kernel": ("CUDA_IPC", part("background", features=frozenset({"ipc"}))),
    "tensors shared by two": (
        "CUDA_IPC",
        both(
            lambda facts: replace(facts, processes=facts.processes * 2), process(features=frozenset({"torch_shared"}))
        ),
    ),
    "NCCL's threads": ("NCCL", both(driver(version="595.84"), process(threads=("python3", "pt_nccl_watchdg")))),
    "NCCL's own threads": ("NCCL", both(driver(version="595.84"), process(threads=("NCCL Progress 0",)))),
    "NCCL, says the kernel": ("NCCL", both(driver(version="595.84"), part("background", features=frozenset({"nccl"})))),
    "NCCL, says the machine": ("NCCL", both(driver(version="595.84"), process(features=frozenset({"nccl"})))),
    "a near control group": ("NO_HOST_MEMORY", process(cgroup_headroom=MEMORY)),
    "a full control group": ("NO_HOST_MEMORY", process(cgroup_headroom=0)),
    "a small budget": ("NO_HOST_MEMORY", part("host", budget_left=MEMORY - 1)),
    "a small host": ("NO_HOST_MEMORY", part("host", available=MEMORY)),
    "a terminal with a GPU": ("GPU_OUTSIDE_KERNELS", whole(outside=(Outside("terminal", "1", 77),))),
    "foreign processes": ("FOREIGN_PROCESSES", device(foreign_processes=1, foreign=1 << 30)),
    "a cell": ("CELL_RUNNING", part("kernel", cell_running=True)),
    "no answer": ("BACKGROUND_UNKNOWN", part("background", probe="no_answer")),
    "no question": ("BACKGROUND_UNKNOWN", part("background", probe="not_asked")),
    "no gate inside": ("NO_GATE_INSIDE", part("background", is_gated=False)),
    "PyTorch on an old driver": (
        "PYTORCH_REFUSED",
        both(driver(version="570.158"), part("background", frameworks=frozenset({"torch"}))),
    ),
    "a thread": ("BACKGROUND_WORK", part("background", work=(Work("thread", "poller", "__main__"),))),
    "a task": ("BACKGROUND_WORK", part("background", work=(Work("task", "poll", ""),))),
    "CPU time": ("BACKGROUND_WORK", part("background", cpu_s=0.7, window_s=60)),
    "CPU time in a short window": ("BACKGROUND_WORK", part("background", cpu_s=0.6, window_s=2)),
}
