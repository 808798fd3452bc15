"""What the API takes to answer while everybody reports: a request at a time, as dashboards and commands ask."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client_endpoint import API

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["ROUTES", "ask", "get"]

ROUTES: Final = (
    "/",
    "/health",
    "/projects",
    "/leases/{lease}",
    "/leases?person=nobody",
    "/availability?share=0.5&share=1&project=team-00&kind=interactive",
    "/availability?share=4&project=team-00&kind=training",
)
_BETWEEN_S: Final = 0.05


async def get(path: Path, route: str) -> tuple[int, bytes]:
    """One GET over the Unix socket *path*: status and body."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(f"GET {API}{route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), body


async def ask(path: Path, leases: Sequence[str], seconds: float) -> dict[str, list[float]]:
    """Ask one route after the other for so long; milliseconds by route.

    Raises:
        RuntimeError: an answer was not 200.
    """
    times: dict[str, list[float]] = {route: [] for route in ROUTES}
    until = time.monotonic() + seconds
    for route, lease in zip(itertools.cycle(ROUTES), _cycle(leases), strict=False):
        if time.monotonic() >= until:
            break
        began = time.perf_counter()
        status, body = await get(path, route.format(lease=lease))
        times[route].append((time.perf_counter() - began) * 1000)
        if status != 200:
            raise RuntimeError(f"{route}: {status} {body[:200]!r}")
        await asyncio.sleep(_BETWEEN_S)
    return times


def _cycle(leases: Sequence[str]) -> Iterator[str]:
    return itertools.cycle(leases or [""])
