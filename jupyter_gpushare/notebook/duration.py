"""Time spans as people write and read them: ``30m``, ``2h``, ``1h30m``; "30 min", "2 h", "1 h 30 min"."""

from __future__ import annotations

import math
import re
from typing import Final

__all__ = ["LONGEST_S", "DurationError", "clock", "parse_duration", "spoken"]

#: What the server takes at most: a week.
LONGEST_S: Final = 7 * 86400

_NUMBER: Final = r"(\d{1,6}(?:\.\d{1,2})?)"
_DURATION: Final = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m(?:in)?)?(?:{_NUMBER}s)?", re.ASCII)
_UNITS_S: Final = (3600, 60, 1)
#: From here on nobody wants the seconds.
_EXACT_BELOW_S: Final = 600


class DurationError(ValueError):
    """The text is no time span. It names what was written and shows how to write one."""


def parse_duration(text: str) -> float:
    """Read ``90s``, ``30m``, ``2h``, ``1.5h`` or ``1h30m`` as seconds.

    Raises:
        DurationError: it is written otherwise, nothing, or longer than a week.
    """
    match = _DURATION.fullmatch(text)
    parts = match.groups() if match else ()
    seconds = sum(float(part) * unit for part, unit in zip(parts, _UNITS_S, strict=False) if part)
    if not 1 <= seconds <= LONGEST_S:
        raise DurationError(
            f"{text[:40]!r} is no time span from a second to a week. Write for example 30m, 2h or 1h30m."
        )
    return seconds


def spoken(seconds: float) -> str:
    """A time span as people say it: "45 s", "1 min 30 s", "30 min", "1 h 30 min"; seconds count below ten minutes."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    named = [(hours, "h"), (minutes, "min"), (rest if whole < _EXACT_BELOW_S else 0, "s")]
    return " ".join(f"{count} {unit}" for count, unit in named if count) or "0 s"


def clock(seconds: float) -> str:
    """What is left of a countdown: "4:10", "1:04:10". It is "0:00" at its end and not before."""
    minutes, whole = divmod(max(0, math.ceil(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes}:{whole:02d}"
