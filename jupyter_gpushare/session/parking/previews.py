"""Whether each kernel could be parked, known before anything is pressed: cheap answers, kept for a few seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.parking.facts import Background
    from jupyter_gpushare.session.parking.examination import Examiner
    from jupyter_gpushare.session.parking.parts import Examined

__all__ = ["Previews"]


@dataclass(slots=True)
class _Seen:
    at: float
    began_at: float
    examined: Examined
    background: Background | None
    probed_at: float


class Previews:
    """The newest cheap answers, so that every frame can show them. Kernels are asked only while they are idle.

    Args:
        examiner: finds out.
        every_s: how old an answer may become; a kernel itself is asked at most every *probe_every_s*.
        changed: called when an answer has changed.
    """

    def __init__(
        self,
        examiner: Examiner,
        *,
        changed: Callable[[], None],
        every_s: float = 3.0,
        probe_every_s: float = 15.0,
    ) -> None:
        self._examiner = examiner
        self._changed = changed
        self._every_s = every_s
        self._probe_every_s = probe_every_s
        self._seen: dict[str, _Seen] = {}

    def of(self, kernel_id: str) -> Examined | None:
        """The newest answer, None when there is none yet."""
        seen = self._seen.get(kernel_id)
        return None if seen is None else seen.examined

    def looked_at(self, kernel_id: str) -> float:
        """When the look began that gave the newest answer, in seconds since the epoch; 0 when there is none yet."""
        seen = self._seen.get(kernel_id)
        return 0.0 if seen is None else seen.began_at

    def forget(self, kernel_id: str) -> None:
        """The kernel, or what was known of it, is no more."""
        self._seen.pop(kernel_id, None)

    def is_due(self, kernel_id: str) -> bool:
        """Whether the answer is too old."""
        seen = self._seen.get(kernel_id)
        return seen is None or time.monotonic() - seen.at > self._every_s

    async def refresh(self, kernel_id: str, *, idle_since: float | None) -> None:
        """Look again; *idle_since* (seconds since the epoch) is None while a cell runs, which is not disturbed."""
        before, began_at = self._seen.get(kernel_id), time.time()
        background, probed_at = (before.background, before.probed_at) if before else (None, 0.0)
        if idle_since is None or probed_at < idle_since:
            background = None
        if idle_since is not None and (background is None or time.time() - probed_at > self._probe_every_s):
            probed_at = time.time()
            background = await self._examiner.background(kernel_id)
        examined = await self._examiner.look(kernel_id, background)
        self._seen[kernel_id] = _Seen(time.monotonic(), began_at, examined, background, probed_at)
        if before is None or before.examined.verdict != examined.verdict:
            self._changed()
