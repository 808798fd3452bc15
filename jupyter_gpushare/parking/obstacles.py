"""Whether each condition of the table holds: functions from the facts to the values of its sentence, or None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from jupyter_gpushare.parking.harmful_drivers import Effect, defect, version_of, why_unsupported
from jupyter_gpushare.parking.probe import printable
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.parking.facts import Background, Facts, ProcessFacts

__all__ = ["CGROUP_MARGIN", "HOST_MARGIN", "X86_64"]

Values: TypeAlias = "Mapping[str, str]"

X86_64: Final = frozenset({"x86_64", "AMD64"})

#: What the copy needs besides its own size: the driver's buffers. A control group that overflows ends the kernel.
CGROUP_MARGIN: Final = 256 << 20
#: What is left to everybody else: a host without memory swaps, and swapped state takes minutes to come back.
HOST_MARGIN: Final = 1 << 30

# 60 ticks of 10 ms in 60 s separate kernels at rest, children included, from those that work; a shorter window allows
# for what our own questions cost.
_QUIET_CPU_SHARE: Final = 0.01
_QUIET_CPU_S: Final = 0.5
_MOST_NAMED: Final = 3

# PyTorch names its NCCL watchdogs so, cut off at the system's 15 characters.
_NCCL_THREADS: Final = ("pt_nccl_watchd", "pt_nccl_heartb", "NCCL")


def parking_off(facts: Facts) -> Values | None:
    return {} if facts.settings.mode == "off" else None


def not_x86(facts: Facts) -> Values | None:
    if facts.driver.vendor == "simulated" or facts.host.architecture in X86_64:
        return None
    return {"architecture": facts.host.architecture or "unknown"}


def no_checkpoint_support(facts: Facts) -> Values | None:
    why = why_unsupported(facts.driver)
    return {"why": why} if why else None


def harmful_driver(facts: Facts) -> Values | None:
    return _defect(facts, Effect.DAMAGES_STATE)


def _defect(facts: Facts, effect: Effect) -> Values | None:
    known = defect(effect, facts.driver.version)
    return None if known is None else {"version": facts.driver.version, "report": known.report}


def gateway_kernel(facts: Facts) -> Values | None:
    return {} if facts.kernel.is_gateway else None


def not_ipykernel(facts: Facts) -> Values | None:
    return None if facts.kernel.is_ipykernel else {}


def foreign_provisioner(facts: Facts) -> Values | None:
    return None if facts.kernel.is_ours else {}


def no_kernel_part(facts: Facts) -> Values | None:
    """Our part exists for ipykernel only: another kernel that an admin allows goes without it."""
    return {} if facts.kernel.is_ipykernel and not facts.kernel.has_part else None


def mig_device(facts: Facts) -> Values | None:
    return next(({"device": device.name or device.uuid} for device in facts.devices if device.is_mig), None)


def unknown_processes(facts: Facts) -> Values | None:
    for device in facts.devices:
        if not device.listed or device.foreign_processes is None or device.foreign is None:
            why = device.why_not_listed.rstrip(". ") or "the driver does not list its processes"
            return {"device": device.name or device.uuid, "why": why}
    if facts.memory is None:
        return {"device": "the GPU", "why": "the driver does not say how much each one holds"}
    return None


def nothing_held(facts: Facts) -> Values | None:
    return None if facts.memory and facts.processes and facts.devices else {}


def _first(facts: Facts, holds: Callable[[ProcessFacts], bool]) -> ProcessFacts | None:
    return next((process for process in facts.processes if holds(process)), None)


def _named(process: ProcessFacts | None, **values: str) -> Values | None:
    if process is None:
        return None
    name = printable(process.name)
    pid = str(process.identity.pid)
    return {"process": f"{pid} ({name})" if name else pid, "pid": pid, **values}


def zombie(facts: Facts) -> Values | None:
    return _named(_first(facts, lambda process: process.found is None or process.state in {"", "Z", "X", "x"}))


def pid_reused(facts: Facts) -> Values | None:
    return _named(_first(facts, lambda process: process.found != process.identity or not process.is_leader))


def other_user(facts: Facts) -> Values | None:
    process = _first(facts, lambda process: process.uid not in {None, facts.settings.uid})
    return None if process is None else _named(process, uid=str(process.uid))


def unreadable(facts: Facts) -> Values | None:
    process = _first(facts, lambda process: bool(process.unreadable) or process.uid is None)
    return None if process is None else _named(process, why=process.unreadable or "its user")


def stopped(facts: Facts) -> Values | None:
    return _named(_first(facts, lambda process: process.state in {"T", "t"}))


def mps_client(facts: Facts) -> Values | None:
    return _named(_first(facts, lambda process: "mps" in process.features))


def managed_memory(facts: Facts) -> Values | None:
    return _named(_first(facts, lambda process: process.uvm_mappings > 1 or "managed_memory" in process.features))


def cuda_ipc(facts: Facts) -> Values | None:
    version = facts.driver.version
    if version_of(version) is not None and defect(Effect.LACKS_IPC, version) is None:
        return None
    shares = "ipc" in facts.background.features
    # PyTorch counts references to shared tensors in files of its own, on the GPU or not: with one process alone on
    # the GPU there is nobody to share that with.
    suspects = {"ipc", "torch_shared"} if len(facts.processes) > 1 else {"ipc"}
    process = _first(facts, lambda process: shares or bool(process.features & suspects))
    return _named(process, version=version or "of unknown version")


def nccl(facts: Facts) -> Values | None:
    known = _defect(facts, Effect.BREAKS_NCCL)
    process = _first(facts, lambda process: _uses_nccl(process, facts.background))
    return None if known is None else _named(process, **known)


def _uses_nccl(process: ProcessFacts, background: Background) -> bool:
    by_threads = any(name.startswith(_NCCL_THREADS) for name in process.threads)
    return by_threads or "nccl" in process.features or "nccl" in background.features


def no_room_in_control_group(facts: Facts) -> Values | None:
    # The copy lands in the processes' own memory, so what bounds them bounds it.
    bounds = [process.cgroup_headroom for process in facts.processes if process.cgroup_headroom is not None]
    return _short(facts, min(bounds, default=None), CGROUP_MARGIN)


def no_room_in_budget(facts: Facts) -> Values | None:
    return _short(facts, facts.host.budget_left, 0)


def no_room_on_host(facts: Facts) -> Values | None:
    return _short(facts, facts.host.available, HOST_MARGIN)


def _short(facts: Facts, have: int | None, margin: int) -> Values | None:
    needed = facts.memory or 0
    if have is None or have >= needed + margin:
        return None
    left, missing = max(have - margin, 0), needed + margin - have
    return {"needed": Memory(needed).human, "left": Memory(left).human, "missing": Memory(missing).human}


def gpu_outside_kernels(facts: Facts) -> Values | None:
    if not facts.outside:
        return None
    one = facts.outside[0]
    more = f" and {len(facts.outside) - 1} more" if len(facts.outside) > 1 else ""
    return {"holder": f"{one.kind} {printable(one.name)} (process {one.pid}){more}"}


def foreign_processes(facts: Facts) -> Values | None:
    for device in facts.devices:
        if device.foreign_processes:
            return {"device": device.name or device.uuid, "foreign": Memory(device.foreign or 0).human}
    return None


def cell_running(facts: Facts) -> Values | None:
    return {} if facts.kernel.cell_running else None


def background_unknown(facts: Facts) -> Values | None:
    # Only ipykernel has our part that could answer; for another one an admin took the risk.
    expected = facts.kernel.is_ipykernel
    return {} if expected and facts.background.probe != "answered" else None


def no_gate_inside(facts: Facts) -> Values | None:
    answered = facts.background.probe == "answered"
    return {} if answered and not facts.background.is_gated else None


def pytorch_refused(facts: Facts) -> Values | None:
    return _defect(facts, Effect.REFUSES_PYTORCH) if "torch" in facts.background.frameworks else None


def background_work(facts: Facts) -> Values | None:
    background = facts.background
    names = [f"{one.kind} {one.name}" + (f" of {one.origin}" if one.origin else "") for one in background.work]
    shown = names[:_MOST_NAMED] + ([f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else [])
    if background.cpu_s is not None and background.cpu_s > max(_QUIET_CPU_S, _QUIET_CPU_SHARE * background.window_s):
        shown.append(f"{background.cpu_s:.1f} s of CPU time in the last {background.window_s:.0f} s")
    return {"work": ", ".join(shown)} if shown else None
