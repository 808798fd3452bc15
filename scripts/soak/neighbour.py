"""Another program on the same GPU, which takes what a parked kernel left and overwrites it.

``python -m scripts.soak.neighbour`` reads one order a line and answers each with one line of JSON:
``churn BYTES`` takes, overwrites and frees; ``hold BYTES`` takes, fills and keeps; ``crowd BYTES`` takes all but so
many; ``sum`` are the checksums of its pieces; ``thin COUNT`` frees all but its first pieces.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.devices.simulated import cuda

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Neighbour"]

_PIECE = 8 << 20
_ANSWER_S = 60.0


class Neighbour:
    """The program, seen from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, environment: Mapping[str, str], directory: Path) -> Neighbour:
        """Start it in *directory*."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, env=dict(environment), cwd=directory, stdin=pipe, stdout=pipe
        )
        return cls(process)

    async def ask(self, order: str) -> Any:
        """Have it do something; its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  # both are pipes
        self._process.stdin.write(f"{order}\n".encode())
        await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), _ANSWER_S)
        if not line:
            raise RuntimeError(f"the neighbour ended over {order!r}")
        return json.loads(line)

    async def end(self) -> None:
        """End it by closing its input."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


def _take(size: int) -> list[cuda.Buffer]:
    """As much of *size* as there is room for."""
    taken: list[cuda.Buffer] = []
    try:
        while sum(buffer.size for buffer in taken) < size:
            taken.append(cuda.allocate(min(_PIECE, size - sum(buffer.size for buffer in taken))))
    except cuda.OutOfMemoryError:
        return taken
    return taken


def _free(buffers: list[cuda.Buffer]) -> None:
    while buffers:
        buffers.pop().free()
    cuda.empty_cache()


def _do(order: str, held: list[cuda.Buffer]) -> object:
    name, _, amount = order.partition(" ")
    match name:
        case "churn":
            taken = _take(int(amount))
            for buffer in taken:
                buffer.write(os.urandom(4096) * (buffer.size // 4096))
            size = sum(buffer.size for buffer in taken)
            _free(taken)
            return size
        case "hold":
            held += _take(int(amount))
            for number, buffer in enumerate(held):
                buffer.fill(number)
        case "crowd":
            held += _take(max(0, cuda.mem_get_info()[0] - int(amount)))
        case "thin":
            kept = held[: int(amount)]
            del held[: int(amount)]
            _free(held)
            held += kept
        case "sum":
            return [buffer.checksum() for buffer in held]
    return sum(buffer.size for buffer in held)


def _main() -> None:
    held: list[cuda.Buffer] = []
    for line in sys.stdin:
        print(json.dumps(_do(line.strip(), held)), flush=True)


if __name__ == "__main__":
    _main()
