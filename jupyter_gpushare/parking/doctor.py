"""The doctor's checks: what was seen of a host, judged row by row. Pure.

One row's answer is *ok*, *note* (parking works, but somebody should know), *no* (it does not), or *skipped*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.parking.harmful_drivers import DEFECTS, Effect, defect, why_unsupported
from jupyter_gpushare.parking.obstacles import CGROUP_MARGIN, HOST_MARGIN, X86_64
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jupyter_gpushare.parking.seen import Seen

__all__ = ["CHECKS", "Result", "Row", "diagnose", "obstacles"]

Result = Literal["ok", "note", "no", "skipped"]

_NEW_DRIVER: Final = "Install NVIDIA driver 580 or newer, of a branch without known defects (docs/preflight.md)."
_SEES_NO_PIDS: Final = "In a container, start it with the host's process ids (docker run --pid=host)."


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the doctor's table. *code* is constant; *remedy* is empty where nothing need be done."""

    code: str
    title: str
    result: Result
    found: str
    remedy: str = ""


def diagnose(seen: Seen) -> list[Row]:
    """All rows, in a constant order."""
    return [_row(code, title, check, seen) for code, title, check in CHECKS]


def obstacles(rows: Iterable[Row]) -> list[Row]:
    """The rows that say no."""
    return [row for row in rows if row.result == "no"]


_Answer = tuple[Result, str, str]


def _row(code: str, title: str, check: Callable[[Seen], _Answer], seen: Seen) -> Row:
    result, found, remedy = check(seen)
    return Row(code, title, result, found, remedy)


def _ok(found: str) -> _Answer:
    return "ok", found, ""


def _architecture(seen: Seen) -> _Answer:
    name = seen.host.architecture or "unknown"
    if seen.simulated or name in X86_64:
        return _ok(name)
    return "no", f"{name}; NVIDIA's driver parks programs on x86-64 only", "Use a GPU in an x86-64 host."


def _driver(seen: Seen) -> _Answer:
    driver = seen.driver
    if driver.state is DriverState.READY:
        return _ok(_named(driver.vendor, driver.version))
    found, _, remedy = driver.reason.partition(". ")
    return "no", found or "there is no GPU driver", remedy or "Install NVIDIA's driver, version 580 or newer."


def _devices(seen: Seen) -> _Answer:
    if not seen.devices:
        return "no", "no GPU can be seen", "Give this user or container a GPU (docker run --gpus all)."
    names = ", ".join(f"{device.index}: {device.name} ({device.total.human})" for device in seen.devices)
    mig = [device for device in seen.devices if device.is_mig]
    if not mig:
        return _ok(names)
    remedy = "Use whole GPUs for notebooks that are to be parked."
    if len(mig) == len(seen.devices):
        return "no", f"{names}; MIG instances only, which cannot be parked", remedy
    return "note", f"{names}; {len(mig)} of them MIG instances, which cannot be parked", remedy


def _bindings(seen: Seen) -> _Answer:
    if seen.simulated:
        return "skipped", "not needed for a simulated machine", ""
    if seen.host.bindings:
        return _ok(f"cuda-bindings {seen.host.bindings}")
    return "no", "cuda-bindings is not installed", "pip install 'jupyter_gpushare[gpu]'"


def _checkpoint(seen: Seen) -> _Answer:
    if seen.checkpoint is None:
        return "no", seen.checkpoint_problem or "the checkpoint process does not answer", _NEW_DRIVER
    if why := why_unsupported(seen.checkpoint):
        return "no", why, _NEW_DRIVER
    cuda = f", CUDA {seen.checkpoint.cuda}" if seen.checkpoint.cuda else ""
    return _ok(f"{_named(seen.checkpoint.vendor, seen.checkpoint.version)}{cuda}")


def _named(vendor: str, version: str) -> str:
    return vendor if version in {"", vendor} else f"{vendor} {version}"


def _defects(seen: Seen) -> _Answer:
    if seen.checkpoint is None or not seen.checkpoint.version:
        return "skipped", "the driver's version is not known", ""
    version = seen.checkpoint.version
    harm = defect(Effect.DAMAGES_STATE, version)
    if harm is not None:
        return "no", harm.report, _NEW_DRIVER
    known = [one.report for one in DEFECTS if defect(one.effect, version) is one]
    if known:
        return "note", "; ".join(known), "Nothing to do: what is affected is not parked. See docs/preflight.md."
    return _ok(f"none is known of {version}")


def _processes(seen: Seen) -> _Answer:
    if not seen.devices:
        return "skipped", "no GPU can be seen", ""
    hidden = next((use.processes_reason for use in seen.uses if use.processes is None), None)
    if hidden is not None:
        return "no", f"the driver does not list who holds what: {hidden}", _SEES_NO_PIDS
    if not seen.host.host_pids:
        return "note", "process ids here may not be those that the driver reports", _SEES_NO_PIDS
    return _ok("the driver lists who holds what")


def _neighbours(seen: Seen) -> _Answer:
    if not seen.devices:
        return "skipped", "no GPU can be seen", ""
    held = [process for use in seen.uses for process in use.processes or ()]
    if not held:
        return _ok("no process holds GPU memory")
    size = Memory(sum(process.memory.value or 0 for process in held)).human
    found = f"{len(held)} {'process holds' if len(held) == 1 else 'processes hold'} {size}"
    return "note", found, "Those outside of gpushare's sessions make a notebook's way back wait: parking asks first."


def _mps(seen: Seen) -> _Answer:
    if seen.simulated:
        return "skipped", "not looked for on a simulated machine", ""
    if seen.host.mps_listens:
        found = "a daemon listens, so every program here becomes its client, and those cannot be parked"
        return "no", found, "Stop it (echo quit | nvidia-cuda-mps-control), or park in a pool without it."
    if seen.host.mps:
        found = f"it runs (process {', '.join(map(str, seen.host.mps))}); its clients cannot be parked"
        return "note", found, "Nothing to do for notebooks that do not use it."
    return _ok("it does not run")


def _user(seen: Seen) -> _Answer:
    scope = f", ptrace_scope {seen.host.ptrace_scope}" if seen.host.ptrace_scope else ""
    found = f"uid {seen.host.uid}{scope}"
    if seen.host.ptrace_scope in {"", "0"} or seen.host.uid == 0 or seen.simulated:
        return _ok(found)
    return "note", found, "If the self-test is refused for want of permission, set kernel.yama.ptrace_scope to 0."


def _persistence(seen: Seen) -> _Answer:
    if seen.simulated or not seen.host.persistence:
        return "skipped", "not known here", ""
    if seen.host.persistence == "Enabled":
        return _ok("enabled")
    return "note", seen.host.persistence.lower(), "Enable it (nvidia-smi -pm 1): each first use of a GPU is then quick."


def _host_memory(seen: Seen) -> _Answer:
    if seen.host.available is None:
        return "note", "the system does not say", ""
    found = f"{Memory(seen.host.available).human} available"
    largest = max((device.usable.bytes for device in seen.devices), default=0)
    if seen.host.available < HOST_MARGIN:
        return "no", found, "Give this host more memory: parked GPU memory lies there."
    if seen.host.available < largest + HOST_MARGIN and not seen.simulated:
        return "note", f"{found}, less than one full GPU", "What does not fit is not parked, and the notebook says so."
    return _ok(found)


def _budget(seen: Seen) -> _Answer:
    if seen.host.total is None:
        return "note", "the host's memory is not known, so parking has no bound", "Set c.GpuShare.host_memory_budget."
    half = Memory(seen.host.total // 2).human
    return _ok(f"{half}, half of the host's memory, unless host_memory_budget says otherwise")


def _control_group(seen: Seen) -> _Answer:
    if seen.host.headroom is None:
        return _ok("no memory limit")
    found = f"this process may grow by {Memory(seen.host.headroom).human}"
    if seen.host.headroom < CGROUP_MARGIN:
        return "no", found, "Raise the memory limit of the container or session."
    return "note", found, "What does not fit is not parked. Raise the memory limit to park more."


def _locks(seen: Seen) -> _Answer:
    if seen.host.locks:
        return _ok(f"{seen.host.locks} can be written")
    return (
        "no",
        seen.host.locks_problem,
        "Make it a directory with mode 1777 that every user of this host may write to.",
    )


#: Every check that needs no kernel, in the order of the table.
CHECKS: Final[Sequence[tuple[str, str, Callable[[Seen], _Answer]]]] = (
    ("ARCHITECTURE", "Architecture", _architecture),
    ("DRIVER", "GPU driver", _driver),
    ("DEVICES", "GPUs", _devices),
    ("BINDINGS", "CUDA bindings", _bindings),
    ("CHECKPOINT", "Process checkpoint", _checkpoint),
    ("DEFECTS", "Known defects", _defects),
    ("PROCESSES", "Process list", _processes),
    ("NEIGHBOURS", "GPU memory in use", _neighbours),
    ("MPS", "MPS daemon", _mps),
    ("USER", "Permissions", _user),
    ("PERSISTENCE", "Persistence mode", _persistence),
    ("HOST_MEMORY", "Host memory", _host_memory),
    ("BUDGET", "Parking budget", _budget),
    ("CONTROL_GROUP", "Control group", _control_group),
    ("LOCKS", "Directory for locks", _locks),
)
