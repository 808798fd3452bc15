"""MPS: NVIDIA's daemon shares a device among processes, with a memory limit and a part of the compute for each.

Limits belong to single processes, not to a session (NVIDIA k8s-device-plugin 594). So the share is divided into equal
parts for a fixed number of kernels, and no more than that many have a GPU at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.descendants import descendants
from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.isolation.mode import Isolation, needs_one_device, parts
from jupyter_gpushare.session.isolation.mps_daemon import MpsDaemon, find_control

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from jupyter_gpushare.session.isolation.mode import Slice

__all__ = ["Mps"]

_PIPE: Final = "CUDA_MPS_PIPE_DIRECTORY"
_MEMORY: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_COMPUTE: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_NOT_PARKABLE: Final = NotParkable(
    Message("MPS_CLIENT", "programs use the GPU through MPS here, and NVIDIA's driver does not park those."),
    Message("MPS_CLIENT_REMEDY", "Choose a pool without MPS for notebooks that are to be parked."),
)


class Mps(Isolation):
    """Limits of single processes, through a daemon for the device.

    Args:
        kernels: into how many equal parts the share is divided.
        directory: where the daemons of this user on this host are; short, since sockets go below it.
        pipes: the pipe directory of a daemon that an admin runs, empty to run our own.
    """

    name = "mps"
    memory = (
        "preventive, per process: each kernel has an equal part of the share (`mps_kernels`), as has each program "
        "that it starts"
    )
    compute = "enforced, per process, in the same parts"
    notes = (
        "One daemon for each device, one Unix user, `count` = 1. A fatal fault of one program ends every program on "
        "the device. Clients are taken from the daemon (`terminate_client`) before any kill. Not parked until measured."
    )
    enforces_memory = True
    enforces_compute = True
    limits = ("CUDA_MPS_",)
    not_parkable = _NOT_PARKABLE

    def __init__(self, *, kernels: int, directory: Path, pipes: str = "") -> None:
        self.most_kernels: int | None = kernels
        self._kernels = kernels
        self._directory = directory
        self._pipes = pipes
        self._daemon: MpsDaemon | None = None

    def problem(self, slices: Sequence[Slice]) -> Message | None:
        """It needs NVIDIA's control program, and one device that is no MIG instance."""
        if find_control() is None:
            template = "Isolation mps needs NVIDIA's {program}, which is not on this server's PATH. Ask your admin."
            return Message("ISOLATION_MPS_MISSING", template, {"program": "nvidia-cuda-mps-control"})
        if any(each.device.is_mig for each in slices):
            return Message("ISOLATION_MPS_ON_MIG", "Isolation mps and MIG do not go together. Ask your admin for mig.")
        return needs_one_device(self.name, slices)

    async def prepare(self, slices: Sequence[Slice]) -> None:
        """Start the device's daemon, unless it runs or an admin runs one.

        Raises:
            IsolationError: it does not start.
        """
        if self._daemon is None:
            uuid = slices[0].device.uuid
            daemon = MpsDaemon.of_admin(self._pipes) if self._pipes else MpsDaemon(uuid, self._directory)
            await asyncio.to_thread(daemon.start)
            self._daemon = daemon

    def environment(self, slices: Sequence[Slice], given: Mapping[str, str]) -> dict[str, str]:
        """The daemon, and the part of one kernel."""
        assert self._daemon is not None  # noqa: S101  # `prepare` comes first
        limits = ",".join(f"{each.device.uuid}={parts(each.memory, self._kernels)}M" for each in slices)
        percent = max(1, min(each.percent for each in slices) // self._kernels)
        own = {_PIPE: str(self._daemon.pipes), _MEMORY: limits, _COMPUTE: str(percent)}
        return {name: value for name, value in own.items() if name not in given}

    async def before_kill(self, pids: Collection[int]) -> None:
        """Take the processes and their children from the daemon: one killed in the midst of work harms the others."""
        if self._daemon is not None:
            daemon = self._daemon
            await asyncio.to_thread(lambda: daemon.terminate_clients(descendants(pids)))

    async def close(self) -> None:
        """Let the daemon end after its last client, unless another server of this user uses it.

        The kernels end after this: they are still taken from the daemon before they are killed.
        """
        if self._daemon is not None:
            await asyncio.to_thread(self._daemon.stop)
