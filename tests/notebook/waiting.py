"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


def until(condition: Callable[[], _T], what: str, deadline_s: float = 30.0) -> _T:
    """Poll until *condition* holds; return what it gave."""
    started = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() - started < deadline_s, f"{what}: not within {deadline_s:g} s"
        time.sleep(0.01)
    return found
