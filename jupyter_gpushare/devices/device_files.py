"""Which processes have a GPU's device file open: evidence from the kernel's own tables, without the driver."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection

__all__ = ["DeviceFiles"]

# An answer holds while the process has the same descriptor numbers, but not for ever: a number can be used again.
_FRESH_S: Final = 10.0
_MOST_CACHED: Final = 1024


class DeviceFiles:
    """Looks through ``/proc/<pid>/fd`` for device files.

    Args:
        pattern: matches the whole path of a device file.
        proc: where proc(5) is mounted.
        clock: seconds that only go forward.
    """

    def __init__(
        self, pattern: re.Pattern[str], proc: str = "/proc", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pattern = pattern
        self._proc = proc
        self._clock = clock
        self._answers: dict[int, tuple[list[str], float, bool]] = {}

    def opened_by(self, pids: Collection[int]) -> frozenset[int]:
        """Which of *pids* have one open. A process that may not be looked into counts as one that has not."""
        return frozenset(pid for pid in pids if self._has_open(pid))

    def _has_open(self, pid: int) -> bool:
        directory = f"{self._proc}/{pid}/fd"
        try:
            numbers = os.listdir(directory)  # noqa: PTH208  # a Path per descriptor costs ten times the call
        except OSError:
            self._answers.pop(pid, None)
            return False
        now = self._clock()
        known = self._answers.get(pid)
        if known is not None and known[0] == numbers and now - known[1] < _FRESH_S:
            return known[2]
        answer = any(self._is_device(f"{directory}/{number}") for number in numbers)
        if len(self._answers) >= _MOST_CACHED:
            self._answers.clear()
        self._answers[pid] = (numbers, now, answer)
        return answer

    def _is_device(self, link: str) -> bool:
        try:
            return self._pattern.fullmatch(os.readlink(link)) is not None  # noqa: PTH115  # as above
        except OSError:
            return False
