"""The demo's simulated machine, and the other holder that moves on its first GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.demo.processes import Child
from jupyter_gpushare.devices.simulated.machine import Machine

if TYPE_CHECKING:
    from jupyter_gpushare.demo.workspace import Workspace

__all__ = ["create_machine", "start_holder"]

#: Slow enough to see memory move, fast enough not to wait for it.
_COPY_BYTES_PER_S: Final = 3 * 10**9


def create_machine(workspace: Workspace) -> None:
    """Make the simulated machine with its two GPUs."""
    Machine.create(workspace.machine, copy_bytes_per_s=_COPY_BYTES_PER_S)


def start_holder(
    workspace: Workspace, environment: dict[str, str], *, memory: str = "8GiB", wave: bool = True
) -> Child:
    """Start a process, apart from any notebook, that holds up to *memory* on the first GPU; with *wave*, it moves."""
    argv = [sys.executable, "-m", "jupyter_gpushare.devices.simulated.holder", "--device", "0", "--memory", memory]
    return Child([*argv, "--wave"] if wave else argv, environment, workspace.root, workspace.root / "holder.log")
