"""GPU-hours: what each person held, handed back, was lent and really computed. Pure; the clock is passed in."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.ledger import UsageHours
from jupyter_gpushare.rules.snapshot import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Accountant"]

_HOUR_S: Final = 3600
#: A longer step than this between two looks is a clock that was set, or a machine that slept: nobody computed.
_LONGEST_STEP_S: Final = 900.0
_MILLIONTHS: Final = 1_000_000

#: Project and person.
_Who = tuple[str, str]
#: Millionths of a GPU that are held, handed back, lent.
_Rates = tuple[int, int, int]
#: GPU-seconds held, handed back, lent, computed.
_Sums = list[float]


@dataclass(slots=True)
class _Account:
    """One person in one project: what is in use, up to where on the clock that is counted, and the sums by hour."""

    rates: _Rates = (0, 0, 0)
    counted: Mapping[int, float] = field(default_factory=dict)
    hours: dict[int, _Sums] = field(default_factory=dict)

    def settle(self, passed: Mapping[int, float]) -> None:
        """Count what has *passed* since the last time."""
        if passed is self.counted:
            return
        held, handed_back, lent = self.rates
        if held or handed_back or lent:
            for hour, seconds in passed.items():
                more = (seconds - self.counted.get(hour, 0.0)) / _MILLIONTHS
                if more > 0:
                    sums = self.of(hour)
                    sums[0] += held * more
                    sums[1] += handed_back * more
                    sums[2] += lent * more
        self.counted = passed

    def of(self, hour: int) -> _Sums:
        """The sums of *hour*."""
        sums = self.hours.get(hour)
        if sums is None:
            sums = self.hours[hour] = [0.0, 0.0, 0.0, 0.0]
        return sums


class _Clock:
    """Seconds that really passed, by the hour in which they did. A step back or far ahead counts as nothing."""

    def __init__(self) -> None:
        self.passed: Mapping[int, float] = {}
        self.total = 0.0
        self._now: float | None = None

    def advance(self, now: float) -> None:
        """Go on to *now*."""
        before, self._now = self._now, now
        if before is None or not 0 < now - before <= _LONGEST_STEP_S:
            return
        self.total += now - before
        passed = dict(self.passed)
        while before < now:
            hour = self.hour_of(before)
            until = min(now, float(hour + _HOUR_S))
            passed[hour] = passed.get(hour, 0.0) + until - before
            before = until
        # A new one each time, so that whoever has counted it all can tell at a glance.
        self.passed = passed

    def forget(self) -> None:
        """Begin anew, as all accounts have counted everything."""
        self.passed = {}

    @property
    def hour(self) -> int:
        """The hour that it is."""
        return self.hour_of(self._now or 0.0)

    @staticmethod
    def hour_of(at: float) -> int:
        """The beginning of the hour of *at*."""
        return int(at // _HOUR_S) * _HOUR_S


class Accountant:
    """Adds up use while snapshots follow each other. `take` gives what came together since the last time."""

    def __init__(self) -> None:
        self._clock = _Clock()
        self._snapshot: Snapshot = EMPTY
        self._accounts: defaultdict[_Who, _Account] = defaultdict(_Account)
        self._reported: dict[str, float] = {}

    def advance(self, snapshot: Snapshot, now: float, among: Iterable[str] | None = None) -> None:
        """*snapshot* holds from *now* on; what held until now is counted. Call it also when nothing changes.

        Between two calls may lie at most 15 minutes: what lies further apart counts as nothing. Leases other than since
        the last call are looked for *among* these, each named once; among all if nobody knows.
        """
        self._clock.advance(now)
        old, self._snapshot = self._snapshot, snapshot
        if old.leases is snapshot.leases:
            return
        for key in _changed_leases(old, snapshot) if among is None else among:
            self._change(old.leases.get(key), snapshot.leases.get(key))

    def computed(self, lease: str, seconds: float, now: float) -> None:
        """The holder of *lease* says that it computed for so many GPU-seconds since it last said so.

        It is believed no more than its devices could do in that time.
        """
        self._clock.advance(now)
        found = self._snapshot.leases.get(lease)
        if found is None or not math.isfinite(seconds):
            return
        since = self._reported.get(lease, self._clock.total)
        self._reported[lease] = self._clock.total
        possible = (self._clock.total - since) * len(found.grants)
        account = self._accounts[(found.project, found.person)]
        account.of(self._clock.hour)[3] += min(max(0.0, seconds), possible)

    def take(self) -> list[UsageHours]:
        """What came together since the last time."""
        taken = []
        for (project, person), account in self._accounts.items():
            account.settle(self._clock.passed)
            for hour, sums in account.hours.items():
                if any(sums):
                    taken.append(UsageHours(hour, project, person, *[each / _HOUR_S for each in sums]))
            account.hours = {}
            account.counted = {}
        self._clock.forget()
        self._accounts = defaultdict(_Account, {who: each for who, each in self._accounts.items() if any(each.rates)})
        return taken

    def put_back(self, usage: Iterable[UsageHours]) -> None:
        """Have the next `take` give *usage* once more: it could not be kept."""
        for each in usage:
            sums = self._accounts[(each.project, each.person)].of(each.hour)
            for n, hours in enumerate((each.held, each.handed_back, each.lent, each.computed)):
                sums[n] += hours * _HOUR_S

    def _change(self, old: Lease | None, new: Lease | None) -> None:
        for sign, lease in ((-1, old), (1, new)):
            if lease is not None:
                account = self._accounts[(lease.project, lease.person)]
                account.settle(self._clock.passed)
                held, handed_back, lent = (sign * rate for rate in _rates(lease))
                account.rates = (account.rates[0] + held, account.rates[1] + handed_back, account.rates[2] + lent)
        if new is None and old is not None:
            self._reported.pop(old.id, None)
        elif new is not None:
            self._reported.setdefault(new.id, self._clock.total)


def _rates(lease: Lease) -> _Rates:
    if lease.is_resident:
        lent = lease.lent.millionths
        return lease.amount.millionths - lent, 0, lent
    return 0, lease.amount.millionths if lease.is_promised else 0, 0


def _changed_leases(old: Snapshot, new: Snapshot) -> Iterator[str]:
    """The ids of leases that are not what they were. Projects whose books are the same have none of them."""
    for project in old.project_books.keys() | new.project_books.keys():
        before, after = old.project_books.get(project), new.project_books.get(project)
        if before is after:
            continue
        ids = (before.leases if before else frozenset()) | (after.leases if after else frozenset())
        yield from (key for key in ids if _is_other(old.leases, new.leases, key, project))


def _is_other(old: Mapping[str, Lease], new: Mapping[str, Lease], key: str, project: str) -> bool:
    before, after = old.get(key), new.get(key)
    if before is after:
        return False
    # One that went from a project to another is found in both, and counts once.
    return project == (after or before or None).project  # type: ignore[union-attr]  # one of them is there
