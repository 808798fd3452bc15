"""When a broker's own process looks for garbage among what is not young any more: at fixed times, and seldom.

Python looks whenever enough has come, in the middle of a decision as a rule. Among what is young are the newest books,
each of which names every lease: with ten thousand holders a look takes ten milliseconds and more, and one through
everything a second. What cells, requests and connections leave behind is young and goes soon.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

__all__ = ["collect_seldom"]

_EVERY_S: Final = 60.0
_OF_ALL_EVERY: Final = 10
# How many objects come before the youngest are looked at, and how many such looks before those that survived one are,
# should the fixed time be too late: somebody fills the memory.
_YOUNG: Final = 2_000
_MOST: Final = 500
_NEVER: Final = 1_000_000_000


async def collect_seldom() -> None:
    """Look through all now and every ten minutes, and among what is new every minute.

    For a task that goes on as long as the process.
    """
    gc.set_threshold(_YOUNG, _MOST, _NEVER)
    while True:
        gc.collect()
        for _ in range(_OF_ALL_EVERY):
            await asyncio.sleep(_EVERY_S)
            gc.collect(1)
