"""How many copies and saves go on at once on each host, counted from what holders are told, not from the rules."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jupyter_gpushare.rules.lease import Status, Target

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.step import Step

__all__ = ["Peaks"]


class Peaks:
    """Watches every step, and remembers the most.

    Attributes:
        copies: parks and resumes at once, for each host.
        saves: jobs that save themselves at once, for each host.
    """

    def __init__(self) -> None:
        self.copies: Counter[str] = Counter()
        self.saves: Counter[str] = Counter()
        self._doing: dict[str, tuple[str, str]] = {}
        self._now: Counter[tuple[str, str]] = Counter()

    @property
    def most_copies(self) -> int:
        """On any host."""
        return max(self.copies.values(), default=0)

    @property
    def most_saves(self) -> int:
        """On any host."""
        return max(self.saves.values(), default=0)

    def __call__(self, step: Step) -> None:
        """Count what this step began and ended."""
        for key, lease in step.change.leases.items():
            before = self._doing.pop(key, None)
            if before is not None:
                self._now[before] -= 1
            what = _what(lease)
            if what:
                host = step.snapshot.devices[lease.grants[0].device].host
                self._doing[key] = (host, what)
                self._now[host, what] += 1
        for (host, what), count in self._now.items():
            peaks = self.copies if what == "copy" else self.saves
            peaks[host] = max(peaks[host], count)


def _what(lease: Lease) -> str:
    if lease.status in (Status.PARKING, Status.RESUMING):
        return "copy"
    # A session or job that ends for good has nothing to save.
    return "save" if lease.status is Status.YIELDING and lease.target is not Target.ENDED else ""
