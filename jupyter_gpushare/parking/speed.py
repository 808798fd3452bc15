"""How long a move takes: the speeds that others measured, until this host's own are known."""

from __future__ import annotations

import json
import logging
import math
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Direction", "Speed", "SpeedRecord"]

_LOG: Final = logging.getLogger(__name__)

Direction = Literal["park", "resume"]

# How much a new measurement counts against what was known.
_WEIGHT: Final = 0.3
# A smaller move says something about the fixed cost only, a larger one about the rate.
_TELLS_THE_RATE: Final = 512 << 20
_FIXED_S: Final = (0.0, 60.0)
_BYTES_PER_S: Final = (1e6, 1e13)
_LARGEST_FILE: Final = 1 << 16
_MOST_DRIVERS: Final = 32


@dataclass(frozen=True, slots=True)
class Speed:
    """Bytes per second each way, and what every move costs besides.

    The defaults are what others measured through CUDA's driver on PCIe 4 (4 GB/s out, 7 GB/s in, 0.25 s).
    """

    out_bytes_per_s: float = 4e9
    in_bytes_per_s: float = 7e9
    out_fixed_s: float = 0.25
    in_fixed_s: float = 0.25

    def park_s(self, size: int) -> float:
        """Seconds that *size* bytes take to host memory."""
        return self.out_fixed_s + size / self.out_bytes_per_s

    def resume_s(self, size: int) -> float:
        """Seconds that *size* bytes take back to the device."""
        return self.in_fixed_s + size / self.in_bytes_per_s

    def after(self, direction: Direction, size: int, seconds: float) -> Speed:
        """What is expected now that *size* bytes took *seconds*. Measurements that make no sense teach nothing."""
        if size <= 0 or not 0 < seconds < math.inf:
            return self
        if direction == "park":
            fixed, rate = _learn(self.out_fixed_s, self.out_bytes_per_s, size, seconds)
            return replace(self, out_fixed_s=fixed, out_bytes_per_s=rate)
        fixed, rate = _learn(self.in_fixed_s, self.in_bytes_per_s, size, seconds)
        return replace(self, in_fixed_s=fixed, in_bytes_per_s=rate)


def _learn(fixed_s: float, rate: float, size: int, seconds: float) -> tuple[float, float]:
    if size < _TELLS_THE_RATE:
        seen = max(seconds - size / rate, 0.0)
        return fixed_s + _WEIGHT * (seen - fixed_s), rate
    # Seconds per byte are averaged and not bytes per second: it is seconds that are foretold. A move that was quicker
    # than the fixed cost alone shows that cost to be too high, so that it never makes the rate infinite.
    fixed_s = min(fixed_s, seconds / 2)
    per_byte = (1 - _WEIGHT) / rate + _WEIGHT * (seconds - fixed_s) / size
    return fixed_s, 1 / per_byte


class SpeedRecord:
    """The speeds of this host, one for each driver, in the JSON file *path*.

    It only makes estimates better, so it never fails: a file that is missing, broken or cannot be written is as none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def speed(self, driver: str) -> Speed:
        """What to expect with *driver*, a vendor and version."""
        return _speed(self._read().get(driver))

    def measured(self, driver: str, direction: Direction, size: int, seconds: float) -> Speed:
        """Learn from a move of *size* bytes that took *seconds*; the speed expected now."""
        known = self._read()
        speed = _speed(known.pop(driver, None)).after(direction, size, seconds)
        newest = list(known.items())[-(_MOST_DRIVERS - 1) :]
        self._write({**dict(newest), driver: _as_json(speed)})
        return speed

    def _read(self) -> dict[str, Any]:
        try:
            with self._path.open("rb") as file:
                content = json.loads(file.read(_LARGEST_FILE))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, content: dict[str, Any]) -> None:
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(content))
            unfinished.replace(self._path)
        except OSError as trouble:
            _LOG.debug("the speed of moves is not kept: %s", trouble)
            with suppress(OSError):
                unfinished.unlink()


def _as_json(speed: Speed) -> dict[str, float]:
    return {name: getattr(speed, name) for name in Speed.__slots__}


def _speed(content: Any) -> Speed:
    values = content if isinstance(content, dict) else {}
    good = {name: float(values[name]) for name in Speed.__slots__ if _is_sensible(name, values.get(name))}
    return Speed(**good)


def _is_sensible(name: str, value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    low, high = _FIXED_S if name.endswith("fixed_s") else _BYTES_PER_S
    return low <= value <= high
