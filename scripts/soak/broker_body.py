"""What a light holder has on a device: a process whose memory is real on the simulated machine, and nothing else.

``python -m scripts.soak.broker_body`` reads one order a line and answers each with one line of JSON: ``start`` forks a
child that takes memory of one device and fills it, ``check`` has the child sum it up, ``stop`` ends the child. Each
grant gets a child of its own, as a job's restart does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.devices.simulated import cuda
from jupyter_gpushare.devices.simulated.visible import HOST_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

__all__ = ["Body", "BodyError"]

_ANSWER_S: Final = 60.0


class BodyError(RuntimeError):
    """It could not do as it was told: its memory did not fit, or it has ended."""


class Body:
    """The program, seen from outside.

    Attributes:
        own: the process that forks; every child descends from it.
        child: the process with the memory; None while there is none.
    """

    def __init__(self, process: asyncio.subprocess.Process, own: Identity) -> None:
        self._process = process
        self.own = own
        self.child: Identity | None = None

    @classmethod
    async def start(cls, environment: Mapping[str, str]) -> Body:
        """Start it."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, env=dict(environment), stdin=pipe, stdout=pipe
        )
        own = identify(process.pid)
        if own is None:
            raise BodyError("a body ended at once")
        return cls(process, own)

    async def take(self, host: str, device: str, size: int, seed: int) -> str:
        """Have a new child take *size* bytes of *device*; their checksum.

        Raises:
            BodyError: there is no room, or the body has ended.
        """
        told = await self._ask({"do": "start", "host": host, "device": device, "size": size, "seed": seed})
        self.child = identify(told["pid"])
        return str(told["sum"])

    async def check(self) -> str:
        """The checksum of its memory now.

        Raises:
            BodyError: the child has ended.
        """
        return str((await self._ask({"do": "check"}))["sum"])

    async def let_go(self) -> None:
        """End the child, and with it all that it holds."""
        if self.child is not None:
            await self._ask({"do": "stop"})
            self.child = None

    async def end(self) -> None:
        """End it by closing its input."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()

    async def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  # both are pipes
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), _ANSWER_S)
        if not line:
            raise BodyError(f"the body ended over {order}")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise BodyError(told["error"])
        return told


class _Child:
    """A forked process and the two pipes to it."""

    def __init__(self, order: dict[str, Any]) -> None:
        to_child, to_parent = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(to_child[1])
            os.close(to_parent[0])
            _be_child(order, os.fdopen(to_child[0]), os.fdopen(to_parent[1], "w", buffering=1))
        os.close(to_child[0])
        os.close(to_parent[1])
        self._orders, self._answers = os.fdopen(to_child[1], "w", buffering=1), os.fdopen(to_parent[0])

    def answer(self) -> str:
        line = self._answers.readline()
        return line or json.dumps({"error": f"child {self.pid} ended"})

    def check(self) -> str:
        try:
            self._orders.write("check\n")
        except BrokenPipeError:
            return json.dumps({"error": f"child {self.pid} ended"})
        return self.answer()

    def end(self) -> None:
        self._orders.close()
        self._answers.close()
        os.waitpid(self.pid, 0)


def _be_child(order: dict[str, Any], orders: TextIO, answers: TextIO) -> None:
    """Hold memory until there are no more orders."""
    os.environ["CUDA_VISIBLE_DEVICES"] = order["device"]
    os.environ[HOST_VARIABLE] = order["host"]
    try:
        memory = cuda.allocate(order["size"])
        memory.fill(order["seed"])
        print(json.dumps({"pid": os.getpid(), "sum": memory.checksum()}), file=answers)
        for _ in orders:
            print(json.dumps({"sum": memory.checksum()}), file=answers)
    except cuda.CudaError as trouble:
        print(json.dumps({"error": f"{type(trouble).__name__}: {trouble}"}), file=answers)
    os._exit(0)


def main() -> None:
    """Obey until the input ends."""
    child: _Child | None = None
    for line in sys.stdin:
        order = json.loads(line)
        told = "{}\n"
        if order["do"] == "check":
            told = json.dumps({"error": "there is no child"}) if child is None else child.check()
        elif child is not None:
            child.end()
            child = None
        if order["do"] == "start":
            child = _Child(order)
            told = child.answer()
        print(told.rstrip("\n"), flush=True)
    if child is not None:
        child.end()


if __name__ == "__main__":
    main()
