"""When a broker's own process looks through all of its memory for garbage: at fixed times, and seldom.

Python looks whenever enough has changed, and with ten thousand holders that stops everything for a second. What cells,
requests and connections leave behind is young and goes at once; only the whole look is put off.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

__all__ = ["collect_seldom"]

_EVERY_S: Final = 600.0
_NEVER: Final = 1_000_000_000


async def collect_seldom() -> None:
    """Look now, and every ten minutes; for a task that goes on as long as the process."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    while True:
        gc.collect()
        await asyncio.sleep(_EVERY_S)
