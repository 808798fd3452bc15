"""What must not be left: tokens, bookings, journal rows, flags, processes."""

from __future__ import annotations

import asyncio
import fcntl
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from jupyter_gpushare.demo.processes import marked_processes
from jupyter_gpushare.parking.host_memory import HostMemory
from scripts.soak.harness import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scripts.soak.harness import Site

__all__ = ["left_after_all", "left_while_running"]

_SETTLE_S = 20.0


async def left_while_running(site: Site) -> list[str]:
    """What is left although no kernel is parked or on its way, once it has had a moment to go."""
    return await _settled(
        lambda: [*_tokens(site.locks), *_bookings(site.locks), *_rows(site.state), *_flags(site.state)]
    )


async def left_after_all(site: Site) -> list[str]:
    """What is left although the server has ended."""
    await left_while_running(site)
    return await _settled(
        lambda: [
            *_tokens(site.locks),
            *_bookings(site.locks),
            *_rows(site.state),
            *_flags(site.state),
            *_processes(site),
        ]
    )


async def _settled(look: Callable[[], list[str]]) -> list[str]:
    found: list[str] = []

    async def is_clean() -> bool:
        found[:] = await asyncio.to_thread(look)
        return not found

    try:
        await until(is_clean, "nothing is left", _SETTLE_S)
    except TimeoutError:
        return found
    return []


def _tokens(locks: Path) -> list[str]:
    return [f"the token {path.name} is held" for path in locks.glob("*.token") if _is_locked(path)]


def _is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _bookings(locks: Path) -> list[str]:
    booked = HostMemory(locks, 1 << 50).booked() if locks.exists() else 0
    return [f"{booked} bytes of host memory are booked"] if booked else []


def _rows(state: Path) -> list[str]:
    path = state / "parking.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        rows = connection.execute("SELECT kernel_id, step FROM entry").fetchall()
    return [f"the journal has kernel {kernel_id} at step {step}" for kernel_id, step in rows]


def _flags(state: Path) -> list[str]:
    return [f"the flag {path.parent.name}/{path.name} is set" for path in state.glob("gates-*/*.closed")]


def _processes(site: Site) -> list[str]:
    return [f"process {process.pid} still runs" for process in marked_processes(site.workspace.root)]
