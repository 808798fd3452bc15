"""How the demo stops following its server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.demo.lending import Lending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class SwallowsACancellation:
    """A server whose stream loses a cancellation, as `asyncio.wait_for` of Python 3.11 does at the wrong moment."""

    def __init__(self) -> None:
        self.child = SimpleNamespace(exit_code=None)
        self.waits = asyncio.Event()

    async def snapshots(self) -> AsyncIterator[Any]:
        """A frame after each loss."""
        while True:
            with suppress(asyncio.CancelledError):
                self.waits.set()
                await asyncio.Event().wait()
            yield SimpleNamespace(kernels=[])


async def test_following_ends_though_its_cancellation_was_lost() -> None:
    """Ctrl-C must end the demo at every moment: who follows on for ever keeps it, and all that it started."""
    server: Any = SwallowsACancellation()
    lending = Lending(None, {}, lambda _: None)  # type: ignore[arg-type]  # no job is started here
    following = asyncio.create_task(lending.follow(server))
    await server.waits.wait()
    lending.stop()
    following.cancel()
    done, _ = await asyncio.wait([following], timeout=30)
    assert done
