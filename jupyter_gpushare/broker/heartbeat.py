"""Until when the broker before this one lived: the time of a file beside its socket, set anew every second.

Holders get back the time for which nobody could tell them anything, and no more: a broker that is killed again and
again must not give one that ignores its call a whole grace each time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.event import OutageOver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.broker.clock import Clock

__all__ = ["Heartbeat"]

_LOG: Final = logging.getLogger(__name__)
_BEAT_S: Final = 1.0


class Heartbeat:
    """Of one broker. It beats while somebody is asked for something; nobody needs to know otherwise.

    Args:
        path: the file.
        clock: what time it is.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def outage(self) -> OutageOver:
        """How long nobody was there, in seconds; without an end where no broker has left a beat."""
        try:
            last = self._path.stat().st_mtime
        except OSError:
            return OutageOver()
        return OutageOver(max(0.0, self._clock.now() - last))

    def beat(self) -> None:
        """Live now. Where that cannot be written, the next broker believes that it was away for longer."""
        now = self._clock.now()
        try:
            self._path.touch()
            os.utime(self._path, (now, now))  # one call: no broker that is killed leaves half of it
        except OSError as error:
            _LOG.warning("Should this broker be killed, holders are given more time than they need: %s", error)

    async def go_on(self, is_needed: Callable[[], bool]) -> None:
        """Beat for ever while it *is_needed*."""
        while True:
            if is_needed():
                await asyncio.to_thread(self.beat)
            await asyncio.sleep(_BEAT_S)
