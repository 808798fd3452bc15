"""What is known about a kernel, its processes, its devices and its host at the moment when it is to be parked.

Immutable values: `preflight` judges them, `gather` reads the part that comes from the system, the session adds what
it knows itself. Memory is in bytes. *None* means that it is not known; preflight then refuses, it never guesses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.parking.speed import Speed

if TYPE_CHECKING:
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.checkpoint import CheckpointDriver

__all__ = [
    "Background",
    "DeviceFacts",
    "Facts",
    "HostFacts",
    "KernelFacts",
    "Outside",
    "ProcessFacts",
    "Settings",
    "Work",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """One process that would be parked.

    Attributes:
        identity: which process is meant.
        name: what the system calls it, for people.
        found: who has that process id now; None when nobody, or a zombie.
        state: the letter of proc(5), ``S`` for sleeping; empty when it is gone.
        uid: the effective user it runs as; None when it cannot be read.
        is_leader: whether the id is a process's and not a thread's.
        threads: the names of its threads; programs choose them.
        uvm_mappings: how often it maps the driver's file for managed memory; a plain CUDA program does so once.
        features: what it uses of ``managed_memory``, ``mps``, ``nccl``, ``ipc``, as far as that can be seen.
        cgroup_headroom: what its control groups let it grow by; None when nothing bounds it.
        unreadable: which of these facts could not be read, and why; empty when all could.
    """

    identity: Identity
    name: str = ""
    found: Identity | None
    state: str
    uid: int | None
    is_leader: bool = True
    threads: tuple[str, ...] = ()
    uvm_mappings: int = 0
    features: frozenset[str] = frozenset()
    cgroup_headroom: int | None = None
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """What the server knows of the kernel.

    Attributes:
        is_ipykernel: whether it is IPython's kernel, whose messages can be held inside too.
        is_gateway: whether it runs behind a gateway, on another machine.
        is_ours: whether our provisioner started it.
        has_part: whether our part inside the kernel is loaded and answers.
        cell_running: whether a cell, or another message that runs user code, is under way.
    """

    is_ipykernel: bool = True
    is_gateway: bool = False
    is_ours: bool = True
    has_part: bool = True
    cell_running: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """A thread or a task of the user's inside the kernel: its name, and the module or file that it comes from."""

    kind: Literal["thread", "task"]
    name: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What goes on in the kernel without any message. `probe.background_of` makes it from the kernel's answer.

    Attributes:
        probe: whether the kernel was asked, and whether it answered.
        work: live threads and pending tasks that are the user's.
        frameworks: the GPU frameworks that were imported.
        features: what it says to use, such as ``nccl``.
        is_gated: whether the part of ours inside can hold messages that do not come through the server.
        cpu_s: CPU seconds of the kernel's process tree in the window; None when they were not measured.
        window_s: the window's length; it begins no earlier than the last cell ended.
    """

    probe: Literal["answered", "no_answer", "not_asked"] = "not_asked"
    work: tuple[Work, ...] = ()
    frameworks: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    is_gated: bool = True
    cpu_s: float | None = None
    window_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """One device on which the kernel holds memory.

    Attributes:
        uuid: as the driver writes it.
        name: for people.
        is_mig: whether it is a MIG instance.
        listed: whether the driver tells which process holds what, in process ids of ours.
        why_not_listed: the reason when it does not.
        foreign_processes: how many processes on it are no session's of ours; None when unknown.
        foreign: bytes that those hold; None when unknown.
    """

    uuid: str
    name: str = ""
    is_mig: bool = False
    listed: bool = True
    why_not_listed: str = ""
    foreign_processes: int | None = 0
    foreign: int | None = 0


@dataclass(frozen=True, slots=True)
class Outside:
    """A process of this session that holds a GPU and belongs to no kernel."""

    kind: Literal["terminal", "server", "process"]
    name: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Room for the copy: what the system says is available, and what is left of the host's parking budget.

    None where nothing bounds it. What control groups allow stands with each process.
    """

    architecture: str
    available: int | None
    budget_left: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the admin and the owner decided. *uid*: the user whose processes the checkpoint process may touch."""

    uid: int
    mode: Literal["off", "observe", "park"] = "park"
    allow_background_work: bool = False
    allow_foreign: bool = False
    allow_other_kernels: bool = False
    allow_other_provisioners: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that preflight judges. *memory* is what would move, on all devices together; None when unknown."""

    driver: CheckpointDriver
    host: HostFacts
    settings: Settings
    kernel: KernelFacts
    memory: int | None
    devices: tuple[DeviceFacts, ...]
    processes: tuple[ProcessFacts, ...]
    outside: tuple[Outside, ...] = ()
    background: Background = field(default_factory=Background)
    speed: Speed = field(default_factory=Speed)
