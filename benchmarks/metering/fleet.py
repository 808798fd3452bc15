"""The servers of one experiment, all alive at once, each with one kernel that has run a cell."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.metering.kernel_client import KernelClient
from benchmarks.servers import Server, Workplace
from benchmarks.stand_in.source import DEVICE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.servers import Extension

__all__ = ["Member", "fleet"]

# The file stays open in the kernel: to our extension that is what holds a device.
_HOLD = f"import os; device = open(os.environ['{DEVICE_FILE}']); print(os.getpid())"
_HOLD_NOTHING = "import os; print(os.getpid())"


@dataclass(frozen=True, slots=True)
class Member:
    """A server and its kernel."""

    server: Server
    kernel_id: str


@contextlib.contextmanager
def fleet(
    workplace: Workplace, extensions: Mapping[str, Extension], *, holding_nothing: str = "", delay_ms: float = 0
) -> Iterator[dict[str, Member]]:
    """Servers by name inside the block. Every kernel holds 2 GiB of GPU 0, but that of the server *holding_nothing*."""
    members: dict[str, Member] = {}
    holders: list[int] = []
    with contextlib.ExitStack() as running:
        for name, extension in extensions.items():
            server = running.enter_context(Server(workplace, f"{name}-{delay_ms:g}", extension, delay_ms))
            members[name] = Member(server, server.start_kernel())
            with KernelClient(server, members[name].kernel_id) as client:
                pid = int(client.execute(_HOLD_NOTHING if name == holding_nothing else _HOLD))
            holders += [] if name == holding_nothing else [pid]
        workplace.hold(holders)
        yield members
