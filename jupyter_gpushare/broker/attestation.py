"""Whether a lease that leaves its devices has left them: device evidence, and nobody's word alone (DESIGN 6, 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.copies import copy_s
from jupyter_gpushare.rules.event import Attested
from jupyter_gpushare.rules.lease import RESIDENT, Status, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_gpushare.broker.roster import Roster
    from jupyter_gpushare.broker.sighting import Sighting
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Attestations"]

# A holder that said "released" has left the lists by then, or something is wrong with it.
_IMPATIENT_S: Final = 5.0
# How much a driver's list may lag behind: what was never seen on it is looked for once more after that.
_LAG_S: Final = 1.0
_TELL_AGAIN_S: Final = 5.0
# A holder that is not heard begins nothing any more when it has noticed (twice its ping of 20 s) and 10 s later.
_BEGINS_WITHIN_S: Final = 60.0
_STARTING: Final = frozenset({Status.GRANTED, Status.RESUMING})
_LEAVING: Final = frozenset({Status.PARKING, Status.YIELDING, Status.MISSING})


@dataclass(frozen=True, slots=True)
class _Noted:
    """Something about a lease in one of its epochs, and when."""

    epoch: int
    at: float


class Attestations:
    """What was said and what was seen, look after look. For one event loop.

    Args:
        roster: the processes of each lease.
        monotonic: seconds that only go forward.
    """

    def __init__(self, roster: Roster, monotonic: Callable[[], float]) -> None:
        self._roster = roster
        self._monotonic = monotonic
        self._said: dict[str, _Noted] = {}
        self._seen: dict[str, int] = {}
        self._clean: dict[str, _Noted] = {}
        self._told: dict[str, _Noted] = {}
        self._missed: dict[str, tuple[float, float]] = {}

    def said(self, lease: str, epoch: int) -> None:
        """Its holder says that nothing of *lease* is on a device any more."""
        self._said[lease] = _Noted(epoch, self._monotonic())

    @property
    def is_urgent(self) -> bool:
        """Whether somebody has just said so: capacity is about to be free."""
        now = self._monotonic()
        return any(now - said.at < _IMPATIENT_S for said in self._said.values())

    def events(self, seen: Sighting, books: Snapshot) -> Iterator[Attested]:
        """Who has left, as of this look."""
        for key in seen.held:
            if (held := books.leases.get(key)) is not None:
                self._seen[key] = held.epoch
        leaving = {key for key in books.unsettled if books.leases[key].status in _LEAVING}
        self._forget_others(leaving, books)
        for key in sorted(leaving):
            lease = books.leases[key]
            if self._is_gone(lease, seen) and self._is_news(lease, seen.began):
                yield Attested(lease.id, lease.epoch)

    def _forget_others(self, leaving: set[str], books: Snapshot) -> None:
        for noted in (self._clean, self._told, self._missed):
            for key in noted.keys() - leaving:
                del noted[key]
        for key in self._seen.keys() - books.leases.keys():
            del self._seen[key]
        for key in self._said.keys() - leaving:
            # It may be said before the books show that it leaves; not much before.
            if self._monotonic() - self._said[key].at > _IMPATIENT_S:
                del self._said[key]

    def _is_gone(self, lease: Lease, seen: Sighting) -> bool:
        if lease.id in seen.held:
            self._clean.pop(lease.id, None)
            return False
        is_dead = self._roster.is_dead(lease.id)
        if not is_dead and not self._is_expected(lease, seen):
            return False
        present = {device.uuid for device in seen.devices}
        if any(uuid in present and uuid not in seen.readable for uuid in lease.devices):
            return is_dead
        if not self._roster.has(lease.id) and lease.status is Status.MISSING:
            # Nobody knows which processes it had: any that belongs to no lease may be its.
            return not any(seen.strangers.get(uuid) for uuid in lease.devices)
        return is_dead or self._is_settled(lease, seen)

    def _is_expected(self, lease: Lease, seen: Sighting) -> bool:
        """Whether it is time to believe an empty list: the holder said so before this look, or is missing.

        One that was parked when it went missing has an empty list as it should, and keeps its promise.
        """
        if lease.status is Status.MISSING:
            return lease.was in RESIDENT and not self._may_start(lease, seen.began)
        said = self._said.get(lease.id)
        return said is not None and said.epoch == lease.epoch and said.at <= seen.began

    def _may_start(self, lease: Lease, now: float) -> bool:
        """Whether it was told to start or to restore, lives, and may not have noticed yet that it is not heard.

        What it has begun shows on the device, or it has begun nothing by the time when it has to ask again first.
        """
        if lease.was not in _STARTING or lease.target is Target.ENDED or not self._roster.has(lease.id):
            return False
        return now - self._missed_since(lease, now) < _BEGINS_WITHIN_S + copy_s(lease.host_memory)

    def _missed_since(self, lease: Lease, now: float) -> float:
        """Since which look it is missing this time, by the clock of looks."""
        entered, first = self._missed.get(lease.id, (lease.since, now))
        if entered != lease.since:
            first = now
        self._missed[lease.id] = (lease.since, first)
        return first

    def _is_settled(self, lease: Lease, seen: Sighting) -> bool:
        """A list may lag. Who was on it in this epoch and is not now has left; anybody else may still be coming."""
        if self._seen.get(lease.id) == lease.epoch:
            return True
        clean = self._clean.get(lease.id)
        if clean is None or clean.epoch != lease.epoch:
            self._clean[lease.id] = _Noted(lease.epoch, seen.began)
            return False
        return seen.began - clean.at >= _LAG_S

    def _is_news(self, lease: Lease, now: float) -> bool:
        told = self._told.get(lease.id)
        if told is not None and told.epoch == lease.epoch and now - told.at < _TELL_AGAIN_S:
            return False
        self._told[lease.id] = _Noted(lease.epoch, now)
        return True
