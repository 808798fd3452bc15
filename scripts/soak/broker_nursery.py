"""Starts brokers in a fraction of a second: a process that has loaded all that they need forks them.

``python -m scripts.soak.broker_nursery`` reads a line with the arguments of ``jupyter gpushare broker`` as JSON, and
answers with the pid of a process that is that command from there on. A line with a pid is answered, once that broker
has ended, with its exit code, negative for a signal.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Nursery"]

_ANSWER_S: Final = 120.0
#: What a broker loads, sooner or later.
_LOADED: Final = (
    "alembic.command",
    "sqlalchemy.dialects.sqlite",
    "jupyter_gpushare.app.broker",
    "jupyter_gpushare.broker.sql.ledger",
    "jupyter_gpushare.devices.simulated.source",
    "scripts.soak.broker_hand",
)


class Nursery:
    """The program, seen from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def open(cls, environment: Mapping[str, str], log: Path) -> Nursery:
        """Start it; its brokers write into *log*."""
        pipe = asyncio.subprocess.PIPE
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", __name__, env=dict(environment), stdin=pipe, stdout=pipe, stderr=output
            )
        return cls(process)

    async def start(self, arguments: Sequence[str]) -> int:
        """Start a broker; its pid."""
        return int(await self._ask(list(arguments)))

    async def ended(self, pid: int) -> int:
        """The exit code of the broker *pid*; waits for its end."""
        return int(await self._ask(pid))

    async def close(self) -> None:
        """End it; its brokers have ended before."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()

    async def _ask(self, order: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  # both are pipes
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()
        return json.loads(await asyncio.wait_for(self._process.stdout.readline(), _ANSWER_S))


def _be_broker(arguments: list[str]) -> None:
    from pathlib import Path

    from jupyter_gpushare.app.broker import BrokerApp
    from scripts.soak.broker_hand import ORDER, install

    os.setsid()
    os.dup2(2, 1)
    install(Path(os.environ[ORDER]))
    BrokerApp.launch_instance(argv=arguments)
    os._exit(0)


def main() -> None:
    """Obey until the input ends."""
    for module in _LOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            _, status = os.waitpid(order, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.close(0)
            os.open(os.devnull, os.O_RDONLY)
            _be_broker(order)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
