"""A user's own broker that died is started again by whoever holds a lease of it, as the first holder started it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Reviving"]

#: One that is being restarted by its user gets this moment; one that cannot start is not tried more often than that.
_FIRST_S: Final = 1.0
_LAST_S: Final = 60.0
_DEADLINE_S: Final = 15.0

_log = logging.getLogger(__name__)


class Reviving:
    """Of one holder. Of many that try at the same moment one starts it, and the others wait for that.

    Args:
        environ: with what it is started; None for a broker that is not ours to start.
    """

    def __init__(self, environ: Mapping[str, str] | None) -> None:
        self._environ = environ
        self._pause_s = _FIRST_S
        self._next: float | None = None
        self._told = ""

    def answered(self) -> None:
        """It is there."""
        self._pause_s, self._next, self._told = _FIRST_S, None, ""

    async def lost(self) -> None:
        """It cannot be reached: start it if it is ours and nobody answers, though not at once, and not all the time."""
        now = time.monotonic()
        if self._environ is None:
            return
        if self._next is None:
            self._next = now + _about(self._pause_s)
        elif now >= self._next:
            self._pause_s = min(self._pause_s * 2, _LAST_S)
            self._next = now + _about(self._pause_s)
            await self._start(self._environ)

    async def _start(self, environ: Mapping[str, str]) -> None:
        from jupyter_gpushare.broker.starting import start

        try:
            await asyncio.to_thread(start, environ, _DEADLINE_S)
        except OSError as error:
            if str(error) != self._told:
                self._told = str(error)
                _log.warning("The broker has ended and could not be started again, which is tried on: %s", error)


def _about(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311  # no secret
