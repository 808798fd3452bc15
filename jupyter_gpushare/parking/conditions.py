"""What stands against parking, one row for each condition: its constant code, its sentence, and what would help.

Why each one matters is in the reports that `harmful_drivers` cites and in CUDA's documentation of its process
checkpoint: on x86-64 Linux only; no managed memory, no MIG, no MPS; a stopped process never answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.parking import obstacles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.parking.facts import Facts, Settings

__all__ = ["CONDITIONS", "Condition", "Permission"]


@dataclass(frozen=True, slots=True)
class Permission:
    """Who may allow it nevertheless, by which setting, and what is then not guaranteed."""

    who: str
    setting: str
    caution: str

    def given(self, settings: Settings) -> bool:
        """Whether it was allowed."""
        return bool(getattr(settings, self.setting))


@dataclass(frozen=True, slots=True)
class Condition:
    """One row.

    Attributes:
        code: constant, for programs, metrics and translations.
        title: the condition in a few words, for the table in the documentation.
        sentence: why it cannot be parked, with values from *find*.
        remedy: what would help.
        find: the values of the sentence when the condition holds; None when it does not.
        asks_kernel: whether only the kernel's own answer tells.
        permission: how it may be allowed; None when nobody may.
    """

    code: str
    title: str
    sentence: str
    remedy: str
    find: Callable[[Facts], Mapping[str, str] | None]
    asks_kernel: bool = False
    permission: Permission | None = None


CONDITIONS: Final = (
    Condition(
        "PARKING_OFF",
        "an admin switched parking off",
        "Parking is switched off on this server.",
        "An admin can switch it on: c.GpuShare.parking = 'park'.",
        obstacles.parking_off,
    ),
    Condition(
        "NOT_X86",
        "the host is no x86-64",
        "NVIDIA's driver parks programs on x86-64 hosts only, and this one is {architecture}.",
        "Use a GPU in an x86-64 host.",
        obstacles.not_x86,
    ),
    Condition(
        "NO_CHECKPOINT_SUPPORT",
        "the driver cannot park: missing, not NVIDIA's, or older than 570",
        "The GPU driver cannot park programs: {why}.",
        "Ask an admin to install NVIDIA driver 580 or newer; `jupyter gpushare doctor` says what is missing.",
        obstacles.no_checkpoint_support,
    ),
    Condition(
        "HARMFUL_DRIVER",
        "the driver's version is known to damage a program's state",
        "GPU driver {version} is known to damage programs when it parks them ({report}).",
        "Ask an admin to install a driver of another branch, such as 580.",
        obstacles.harmful_driver,
    ),
    Condition(
        "GATEWAY_KERNEL",
        "the kernel runs behind a gateway, on another host",
        "This kernel runs behind a gateway, on another host.",
        "Install jupyter_gpushare where the kernel runs.",
        obstacles.gateway_kernel,
    ),
    Condition(
        "NOT_IPYKERNEL",
        "the kernel is not IPython's",
        "Cells can be held back safely in Python kernels (ipykernel) only.",
        "Use a Python kernel, or ask an admin to allow other kernels.",
        obstacles.not_ipykernel,
        permission=Permission(
            "admin",
            "allow_other_kernels",
            "Not guaranteed: messages from outside this server can reach this kernel while it is parked.",
        ),
    ),
    Condition(
        "FOREIGN_PROVISIONER",
        "another provisioner started the kernel",
        "This kernel was not started by gpushare's provisioner.",
        "Remove the kernel_provisioner from its kernel spec, or ask an admin to allow it.",
        obstacles.foreign_provisioner,
        permission=Permission(
            "admin",
            "allow_other_provisioners",
            "Not guaranteed: another provisioner started this kernel and may signal or end it while it is parked.",
        ),
    ),
    Condition(
        "NO_KERNEL_PART",
        "gpushare's part inside the kernel is not loaded",
        "Gpushare's part inside this kernel is not loaded.",
        "Install jupyter_gpushare in the kernel's environment, then restart the kernel.",
        obstacles.no_kernel_part,
    ),
    Condition(
        "MIG_DEVICE",
        "the device is a MIG instance",
        "{device} is a MIG instance, and NVIDIA's driver does not park programs on those.",
        "Use a whole GPU, or free the memory with the framework's own means.",
        obstacles.mig_device,
    ),
    Condition(
        "UNKNOWN_PROCESSES",
        "the driver does not tell which process holds what",
        "It cannot be told which process holds what on {device}: {why}.",
        "In a container, start it with the host's process ids (docker run --pid=host).",
        obstacles.unknown_processes,
    ),
    Condition(
        "NOTHING_HELD",
        "the kernel holds no GPU memory",
        "This kernel holds no GPU memory, so there is nothing to park.",
        "Nothing to do.",
        obstacles.nothing_held,
    ),
    Condition(
        "ZOMBIE",
        "a process has ended",
        "Process {process} has ended.",
        "Nothing to do: what it held is free. Restart the kernel if it does not answer.",
        obstacles.zombie,
    ),
    Condition(
        "PID_REUSED",
        "another process has the process id now, or the id is a thread's",
        "Process {process} is another one than the one that took the GPU memory.",
        "Nothing to do: it is looked at anew within seconds.",
        obstacles.pid_reused,
    ),
    Condition(
        "OTHER_USER",
        "the process runs as another user",
        "Process {process} runs as another user ({uid}), and only its own user may park it.",
        "Run the kernel and the server as the same user.",
        obstacles.other_user,
    ),
    Condition(
        "UNREADABLE",
        "what must be known about the process cannot be read",
        "Not everything that must be known about process {process} can be read: {why}.",
        "Let the server read /proc of its own kernels: no hidepid, and no program that makes itself undumpable.",
        obstacles.unreadable,
    ),
    Condition(
        "STOPPED",
        "a process is stopped, by a signal or a debugger",
        "Process {process} is stopped, and the driver would wait for it for ever.",
        "Continue it (kill -CONT {pid}, or let the debugger go), then try again.",
        obstacles.stopped,
    ),
    Condition(
        "MPS_CLIENT",
        "the process is a client of NVIDIA's MPS",
        "Process {process} uses the GPU through MPS, whose clients NVIDIA's driver does not park.",
        "Choose a pool without MPS for notebooks that are to be parked.",
        obstacles.mps_client,
    ),
    Condition(
        "MANAGED_MEMORY",
        "the process uses managed (unified) memory",
        "Process {process} uses managed memory, which NVIDIA's driver does not park.",
        "Avoid paged optimizers (bitsandbytes), RMM managed pools and cudaMallocManaged, then restart the kernel.",
        obstacles.managed_memory,
    ),
    Condition(
        "CUDA_IPC",
        "the process shares GPU memory with another, on drivers before 610",
        "Process {process} shares GPU memory with another process, which GPU driver {version} does not park.",
        "Share through host memory instead, or end the other processes and restart the kernel.",
        obstacles.cuda_ipc,
    ),
    Condition(
        "NCCL",
        "the process has an NCCL process group, on drivers that break it",
        "Process {process} has an NCCL process group, and GPU driver {version} breaks those ({report}).",
        "Call torch.distributed.destroy_process_group() when it is no longer needed, or use another driver branch.",
        obstacles.nccl,
    ),
    Condition(
        "NO_HOST_MEMORY",
        "the memory limit of the kernel's container or session is too near",
        "The copy needs {needed} of host memory, and the kernel's memory limit leaves {left}: {missing} are missing.",
        "Raise the memory limit of the container or session, or free host memory in the notebook.",
        obstacles.no_room_in_control_group,
    ),
    Condition(
        "NO_HOST_MEMORY",
        "the host's parking budget is used up",
        "The copy needs {needed} of host memory, and this host's parking budget leaves {left}: {missing} are missing.",
        "Wait until another notebook resumes or ends, or ask an admin to raise host_memory_budget.",
        obstacles.no_room_in_budget,
    ),
    Condition(
        "NO_HOST_MEMORY",
        "the host has too little memory",
        "The copy needs {needed} of host memory, and this host has {left} left: {missing} are missing.",
        "Wait until programs on this host use less memory.",
        obstacles.no_room_on_host,
    ),
    Condition(
        "GPU_OUTSIDE_KERNELS",
        "a process of this session outside kernels holds a GPU",
        "{holder} holds GPU memory outside of notebooks and cannot be parked with them.",
        "End that program first, then try again.",
        obstacles.gpu_outside_kernels,
    ),
    Condition(
        "FOREIGN_PROCESSES",
        "programs that gpushare does not know use the device",
        "Programs that gpushare does not know use {device} ({foreign}) and could take the room meanwhile.",
        "Wait until they are gone, or allow it: the way back then waits until there is room.",
        obstacles.foreign_processes,
        permission=Permission(
            "admin or owner",
            "allow_foreign",
            "Other programs use {device} ({foreign}): the way back is not guaranteed, it may have to wait.",
        ),
    ),
    Condition(
        "CELL_RUNNING",
        "a cell runs",
        "A cell runs.",
        "Wait until it ends, or interrupt it.",
        obstacles.cell_running,
    ),
    Condition(
        "BACKGROUND_UNKNOWN",
        "the kernel does not say whether anything runs in the background",
        "The kernel does not say whether anything runs in its background.",
        "Try again; restart the kernel if it never answers.",
        obstacles.background_unknown,
        asks_kernel=True,
    ),
    Condition(
        "NO_GATE_INSIDE",
        "the part inside the kernel cannot hold messages from outside the server, as with ipykernel before 7",
        "Messages that reach this kernel past the server, from a console for example, cannot be held back in it.",
        "Install ipykernel 7 or newer in the kernel's environment, then restart the kernel.",
        obstacles.no_gate_inside,
        asks_kernel=True,
    ),
    Condition(
        "PYTORCH_REFUSED",
        "PyTorch, on drivers that refuse it",
        "GPU driver {version} refuses to park programs that use PyTorch ({report}).",
        "Ask an admin to install NVIDIA driver 580 or newer.",
        obstacles.pytorch_refused,
        asks_kernel=True,
    ),
    Condition(
        "BACKGROUND_WORK",
        "threads, tasks or CPU time show work in the background",
        "Something works in this kernel's background: {work}. It could touch the GPU while that is away.",
        "End it, or allow background work for this notebook if it never touches the GPU.",
        obstacles.background_work,
        asks_kernel=True,
        permission=Permission(
            "owner",
            "allow_background_work",
            "You allowed background work: {work}. If it touches the GPU while that is away, the kernel ends.",
        ),
    ),
)
