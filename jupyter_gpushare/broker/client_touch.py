"""Whether this process has run without a break: what waited in a socket meanwhile may be over by now.

A holder that was stopped (Ctrl-Z, a suspended machine) finds its connection as it left it, with a grant in it that the
broker has given to somebody else long ago. No time in a message can tell, for clocks differ: it has to ask again.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Touch"]

# It goes on while the machine is suspended, where there is such a clock.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BEATS: Final = 5


def _now() -> float:
    return time.clock_gettime(_CLOCK)


class Touch:
    """Of one holder with its broker. For one event loop.

    Args:
        most_s: a longer break than that, and what was heard before it, or is heard after it, counts no more.
        clock: seconds that only go forward, also while nothing runs.
    """

    def __init__(self, most_s: float, clock: Callable[[], float] = _now) -> None:
        self._most_s = most_s
        self._clock = clock
        self._beaten = clock()

    @property
    def is_lost(self) -> bool:
        """Whether there was such a break since `renew`."""
        return self._clock() - self._beaten > self._most_s

    def renew(self) -> None:
        """What is heard from now on is the answer to what is asked from now on."""
        self._beaten = self._clock()

    async def keep(self, lost: Callable[[], None]) -> None:
        """Beat as long as the loop runs; call *lost* when it did not for too long, and until `renew`."""
        while True:
            await asyncio.sleep(self._most_s / _BEATS)
            if self.is_lost:
                lost()
            else:
                self.renew()
