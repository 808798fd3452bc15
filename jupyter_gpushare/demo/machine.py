"""The demo's simulated machine, and the other holder that moves on its first GPU."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.demo.processes import Child
from jupyter_gpushare.devices.simulated.machine import DEFAULT_DEVICES, Machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.demo.workspace import Workspace
    from jupyter_gpushare.devices.simulated.machine import DeviceSpec

__all__ = ["COPY_BYTES_PER_S", "create_machine", "start_holder", "until_holds"]

#: Slow enough to see memory move, fast enough not to wait for it.
COPY_BYTES_PER_S: Final = 3 * 10**9
_POLL_S: Final = 0.05


def create_machine(
    workspace: Workspace, devices: Sequence[DeviceSpec] = DEFAULT_DEVICES, *, copy_bytes_per_s: int = COPY_BYTES_PER_S
) -> None:
    """Make the simulated machine, usually with two GPUs."""
    Machine.create(workspace.machine, devices, copy_bytes_per_s=copy_bytes_per_s).close()


def start_holder(
    workspace: Workspace, environment: dict[str, str], *, memory: str = "8GiB", wave: bool = True
) -> Child:
    """Start a process, apart from any notebook, that holds up to *memory* on the first GPU; with *wave*, it moves."""
    argv = [sys.executable, "-m", "jupyter_gpushare.devices.simulated.holder", "--device", "0", "--memory", memory]
    return Child([*argv, "--wave"] if wave else argv, environment, workspace.root, workspace.root / "holder.log")


async def until_holds(holder: Child, deadline_s: float) -> None:
    """Wait until *holder* holds its memory, or has ended, or the deadline is over: it is scenery."""
    give_up = time.monotonic() + deadline_s
    while "holding" not in holder.log_tail() and holder.exit_code is None:  # what it prints is all that it tells
        if time.monotonic() > give_up:
            return
        await asyncio.sleep(_POLL_S)
