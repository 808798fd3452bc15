"""Work that is carried to its end even when whoever waits for it gives up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["completed"]

_T = TypeVar("_T")


async def completed(work: Coroutine[None, None, _T]) -> _T:
    """The result of *work*, which runs to its end first; only then is a cancellation meanwhile passed on."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as trouble:
            cancelled = trouble
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()
