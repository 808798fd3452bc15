"""Lengths of time as people write and read them."""

from __future__ import annotations

import math
import re
from typing import Final

__all__ = ["LONGEST_TIMEOUT_S", "DurationError", "parse_timeout", "say_seconds"]

LONGEST_TIMEOUT_S: Final = 7 * 86400.0
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_WRITTEN: Final = re.compile(r"([0-9]{1,7})([smhd]?)", re.ASCII)
_EXAMPLE: Final = 'write for example "30m", 1800 or "never"'


class DurationError(ValueError):
    """A value that is no idle timeout; the text says what to write instead."""


def parse_timeout(value: object) -> float | None:
    """Seconds, None for ``"never"``. Takes a number of seconds, or text such as ``"90s"``, ``"30m"``, ``"2h"``.

    Raises:
        DurationError: it is neither, or not between 1 second and 7 days.
    """
    if value == "never":
        return None
    seconds = _seconds(value)
    if not 1 <= seconds <= LONGEST_TIMEOUT_S:
        raise DurationError(f'a timeout is from 1 second to 7 days; for no parking write "never", else {_EXAMPLE[6:]}')
    return seconds


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    written = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if written is None:
        raise DurationError(_EXAMPLE)
    return float(int(written[1]) * _UNITS[written[2]])


def say_seconds(seconds: float) -> str:
    """Two figures at most: ``45 s``, ``6 min``, ``3 h 12 min``, ``2 d 5 h``."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if not minutes:
        return f"{whole} s"
    if not hours:
        return f"{minutes} min"
    if not days:
        return _pair(hours, "h", minutes % 60, "min")
    return _pair(days, "d", hours % 24, "h")


def _pair(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large} {unit} {small} {small_unit}" if small else f"{large} {unit}"
