"""One row of preflight's table as a test wants it: which kernel, on which machine, and what stands against it."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jupyter_gpushare.parking.conditions import CONDITIONS, Condition
from tests.session.parking.conftest import HOLD

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine

Spec = dict[str, Any]

#: A program that holds a GPU. With a process id as its argument it first waits until that parent has ended.
HOLDER = """
import os, signal, sys, time
from jupyter_gpushare.devices.simulated import cuda
while sys.argv[1:] and os.getppid() == int(sys.argv[1]):
    time.sleep(0.01)
held = cuda.allocate("64MiB")
print("holding", flush=True)
"""
STAYS = "time.sleep(600)"
PROBE = "probes = get_ipython().kernel.control_handlers\nprobe = probes['gpushare_probe_request']\n"
#: More threads than preflight looks through.
CROWD = """
import threading
ended, usual = threading.Event(), threading.stack_size(64 << 10)
crowd = [threading.Thread(target=ended.wait, daemon=True) for _ in range(2100)]
for thread in crowd: thread.start()
threading.stack_size(usual)
"""


def child(then: str) -> str:
    """A cell that starts a child of the kernel; it holds a GPU, too, and then does that."""
    command = f"[sys.executable, '-c', {HOLDER + then!r}]"
    begin = f"import os, signal, subprocess, sys\nchild = subprocess.Popen({command}, stdout=subprocess.PIPE)\n"
    return begin + "assert child.stdout.readline() == b'holding\\n'\n"


@dataclass(frozen=True)
class Server:
    """The real server with the kernel in question, for what is done beside the kernel's cells."""

    kernel_id: str
    app: Any
    session: Any
    machine: Machine
    page_of: Any
    until: Any


def nothing_beside(_server: Server) -> AbstractAsyncContextManager[None]:
    """What the kernel itself does is enough."""
    return nullcontext()


@dataclass(frozen=True)
class Row:
    """How one condition comes about.

    Attributes:
        code: the condition's.
        title: the condition's, where several have that code.
        holds: the cell that takes the GPU.
        cell: a further cell, which brings the obstacle about.
        beside: brings it about from outside the kernel, and ends it.
        undo: a cell after which the kernel can be parked; None where it cannot be mended while the server lives.
        version: of the driver.
        options: the server's.
        devices: the machine's, where the usual ones do not do.
        spec: makes the kernel's spec, where the usual one does not do.
        needs: a file that it must be possible to write.
        answer: ``refused`` at once, or ``failed`` where only the examination right before the park finds it.
    """

    code: str
    title: str = ""
    holds: str = HOLD
    cell: str = ""
    beside: Callable[[Server], AbstractAsyncContextManager[None]] = nothing_beside
    undo: str | None = None
    version: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    devices: tuple[DeviceSpec, ...] = ()
    spec: Callable[[Path], Spec] | None = None
    needs: Path | None = None
    answer: Literal["refused", "failed"] = "refused"

    def __str__(self) -> str:
        return f"{self.code}: {self.title}" if self.title else self.code

    @property
    def condition(self) -> Condition:
        """The one row of the table that is meant."""
        (found,) = (one for one in CONDITIONS if one.code == self.code and self.title in ("", one.title))
        return found

    def says(self, sentence: str) -> bool:
        """Whether that row of the table said it: two may have one code."""
        parts = (re.escape(part) for part in re.split(r"{\w+}", self.condition.sentence))
        return re.fullmatch(".+".join(parts), sentence) is not None


#: It needs a server of its own behind the server, and holds no GPU of this machine: see test_preflight_gateway.py.
GATEWAY = Row("GATEWAY_KERNEL", holds="")
