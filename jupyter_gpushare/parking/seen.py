"""What the doctor looks at: everything about a host that parking depends on and that needs no kernel. Blocking."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.process_tree import in_host_pid_namespace
from jupyter_gpushare.parking.device_token import TokenError, open_shared, shared_directory
from jupyter_gpushare.parking.headroom import cgroup_headroom, memory_available, memory_total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.devices.device import Device, DeviceUse, Driver, Source
    from jupyter_gpushare.parking.checkpoint import CheckpointDriver

__all__ = ["HostSeen", "Seen", "look_at_host"]

_PERSISTENCE_S: Final = 10.0
_MPS_NAMES: Final = frozenset({"nvidia-cuda-mps"})  # the system cuts a process's name off at 15 characters
_MPS_CONTROL: Final = Path("/tmp/nvidia-mps/control")  # noqa: S108  # where NVIDIA's daemon listens by default


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen:
    """The host, as far as no driver is asked. Memory is in bytes, None where unknown or unbounded.

    Attributes:
        architecture: of the processor, as uname(2) says.
        bindings: the installed version of cuda-bindings, empty when there is none.
        uid: the user's.
        host_pids: whether process ids here are those that a driver reports.
        ptrace_scope: the system's ``kernel.yama.ptrace_scope``; empty where it has none.
        persistence: what nvidia-smi says of persistence mode, empty when it cannot be asked.
        mps: process ids of NVIDIA's MPS daemon and servers.
        mps_listens: whether programs that start now become clients of MPS.
        available: host memory that programs can take without swapping.
        total: all host memory.
        headroom: what this process's control groups let it grow by.
        locks: the directory of the device tokens, empty when there is none to use.
        locks_problem: why there is none.
    """

    architecture: str
    bindings: str
    uid: int
    host_pids: bool
    ptrace_scope: str
    persistence: str
    mps: tuple[int, ...]
    mps_listens: bool
    available: int | None
    total: int | None
    headroom: int | None
    locks: str
    locks_problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Host, driver and devices at one moment.

    Attributes:
        host: the host.
        driver: what gives the readings.
        checkpoint: what parks, None when the checkpoint process did not answer.
        checkpoint_problem: why it did not.
        devices: those that this user may see.
        uses: their readings.
    """

    host: HostSeen
    driver: Driver
    checkpoint: CheckpointDriver | None
    checkpoint_problem: str
    devices: Sequence[Device]
    uses: Sequence[DeviceUse]

    @property
    def simulated(self) -> bool:
        """Whether it is a simulated machine."""
        return self.driver.vendor == "simulated"

    @classmethod
    def of(
        cls, source: Source, host: HostSeen, checkpoint: CheckpointDriver | None, checkpoint_problem: str = ""
    ) -> Seen:
        """Read the devices of *source*."""
        return cls(
            host=host,
            driver=source.driver(),
            checkpoint=checkpoint,
            checkpoint_problem=checkpoint_problem,
            devices=source.devices(),
            uses=source.read(),
        )


def look_at_host(*, simulated: bool, locks: str | os.PathLike[str] | None = None) -> HostSeen:
    """The host now. A simulated machine has its own driver, so nothing of a real one is asked then."""
    directory, problem = _locks(locks)
    return HostSeen(
        architecture=platform.machine(),
        bindings=_bindings(),
        uid=os.geteuid(),
        host_pids=simulated or in_host_pid_namespace(),
        ptrace_scope=_line(Path("/proc/sys/kernel/yama/ptrace_scope")),
        persistence="" if simulated else _persistence(),
        mps=() if simulated else _mps(),
        mps_listens=not simulated and _mps_listens(),
        available=memory_available(),
        total=memory_total(),
        headroom=cgroup_headroom(os.getpid()),
        locks=directory,
        locks_problem=problem,
    )


def _locks(given: str | os.PathLike[str] | None) -> tuple[str, str]:
    try:
        directory = shared_directory(given)
        os.close(open_shared(directory, "doctor.lock"))
    except (TokenError, OSError) as trouble:
        return "", str(trouble)
    return str(directory), ""


def _bindings() -> str:
    try:
        return version("cuda-bindings")
    except PackageNotFoundError:
        return ""


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _persistence() -> str:
    command = ["nvidia-smi", "--query-gpu=persistence_mode", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_PERSISTENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ", ".join(dict.fromkeys(asked.stdout.split()))


def _mps() -> tuple[int, ...]:
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return tuple(pid for pid in sorted(numbers) if _line(Path(f"/proc/{pid}/comm")) in _MPS_NAMES)


def _mps_listens() -> bool:
    given = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
    with suppress(OSError):
        return (Path(given) / "control" if given else _MPS_CONTROL).exists()
    return True
