"""How fast memory moves here: what is remembered of this host, and learned with every move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.parking.speed import Speed, SpeedRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.parking.checkpoint import CheckpointDriver

__all__ = ["Speeds"]


class Speeds:
    """The speeds of the driver that parks, kept in the file *path*. *driver* is None while it was not asked."""

    def __init__(self, path: Path, driver: Callable[[], CheckpointDriver | None]) -> None:
        self._record = SpeedRecord(path)
        self._driver = driver
        self._known: tuple[str, Speed] | None = None

    def now(self) -> Speed:
        """What to expect."""
        driver = self._driver()
        if driver is None:
            return Speed()
        key = f"{driver.vendor} {driver.version}"
        if self._known is None or self._known[0] != key:
            self._known = key, self._record.speed(key)
        return self._known[1]

    def learn(self, direction: Literal["park", "resume"], memory: int, seconds: float) -> None:
        """A move of so many bytes took so many seconds."""
        self.now()
        if self._known is not None:
            self._known = self._known[0], self._record.measured(self._known[0], direction, memory, seconds)
