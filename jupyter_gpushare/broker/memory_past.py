"""What a ledger keeps beside the books, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_gpushare.broker.ledger import ConflictError
from jupyter_gpushare.broker.ledger_guards import check_ask, check_memberships, check_past
from jupyter_gpushare.broker.ledger_records import OPEN, Ask, Idle, Membership, Moment

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.broker.ledger_records import AskState

__all__ = ["MemoryPast", "Past"]

_Record = TypeVar("_Record", Moment, Idle)


@dataclass
class Past:
    """What outlives a ledger that was let go of."""

    memberships: dict[str, Membership] = field(default_factory=dict)
    asks: list[Ask] = field(default_factory=list)
    moments: dict[int, Moment] = field(default_factory=dict)
    idles: dict[tuple[int, str, str], Idle] = field(default_factory=dict)


class MemoryPast:
    """That part of a `Ledger` in memory. Its heir says where it is kept and whether it may write."""

    @property
    def past(self) -> Past:
        """Where it is kept."""
        raise NotImplementedError

    @property
    def lock(self) -> threading.Lock:
        """To be held while one looks or writes."""
        raise NotImplementedError

    def _check_leader(self) -> None:
        """Raise NotLeaderError if another writer has taken over."""
        raise NotImplementedError

    def keep_memberships(self, memberships: Mapping[str, Membership]) -> None:
        """Keep the groups of these people, by name."""
        check_memberships(memberships)
        with self.lock:
            self._check_leader()
            self.past.memberships |= memberships

    def memberships(self) -> Mapping[str, Membership]:
        """The groups of people, by name."""
        with self.lock:
            return dict(self.past.memberships)

    def add_ask(self, ask: Ask) -> Ask:
        """Keep an ask, with the number that it gets."""
        check_ask(ask)
        with self.lock:
            self._check_leader()
            if any(_is_same(each, ask) for each in self.past.asks):
                raise ConflictError(f"an ask of {ask.person!r}: one is open already")
            kept = replace(ask, number=len(self.past.asks) + 1)
            self.past.asks.append(kept)
            return kept

    def decide_ask(self, decided: Ask) -> bool:
        """Keep how the ask of that number was decided; whether it was open until now."""
        check_ask(decided)
        with self.lock:
            self._check_leader()
            for index, each in enumerate(self.past.asks):
                if each.number == decided.number and each.state == OPEN:
                    names = ("state", "decided_by", "decided_at", "answer")
                    self.past.asks[index] = replace(each, **{name: getattr(decided, name) for name in names})
                    return True
        return False

    def asks(self, *, number: int | None = None, state: AskState | None = None, limit: int = 1000) -> Sequence[Ask]:
        """The newest asks, newest first."""
        with self.lock:
            newest = self.past.asks[::-1]
        found = [each for each in newest if number in (None, each.number) and state in (None, each.state)]
        return found[: max(0, limit)]

    def add_past(self, moments: Sequence[Moment], idles: Sequence[Idle]) -> None:
        """Add to what each moment, and each hour, project and pool, has already."""
        check_past([*moments, *idles])
        with self.lock:
            self._check_leader()
            for moment in moments:
                known = self.past.moments.get(moment.at, Moment(moment.at))
                self.past.moments[moment.at] = _sum(known, moment, ("at",))
            for idle in idles:
                key = (idle.hour, idle.project, idle.pool)
                self.past.idles[key] = _sum(self.past.idles.get(key, Idle(*key)), idle, ("hour", "project", "pool"))

    def moments(self, *, since: float) -> Sequence[Moment]:
        """What the GPUs did in the moments that begin then or later, oldest first."""
        with self.lock:
            return [each for at, each in sorted(self.past.moments.items()) if at >= since]

    def idles(self, *, since: float) -> Sequence[Idle]:
        """What ran idle in the hours that begin then or later: one for each project and pool, with its first hour."""
        found: dict[tuple[str, str], Idle] = {}
        with self.lock:
            recent = [each for (hour, *_), each in sorted(self.past.idles.items()) if hour >= since]
        for each in recent:
            first = found.get((each.project, each.pool), Idle(each.hour, each.project, each.pool))
            found[each.project, each.pool] = _sum(first, each, ("hour", "project", "pool"))
        return [found[key] for key in sorted(found)]

    def prune_past(self, *, moments: float, idles: float) -> None:
        """Forget moments, and idle hours, that began before then."""
        with self.lock:
            self._check_leader()
            self.past.moments = {at: each for at, each in self.past.moments.items() if at >= moments}
            self.past.idles = {key: each for key, each in self.past.idles.items() if key[0] >= idles}


def _is_same(known: Ask, ask: Ask) -> bool:
    asked = (ask.project, ask.person, ask.what)
    return known.state == OPEN and (known.project, known.person, known.what) == asked


def _sum(one: _Record, other: _Record, key: tuple[str, ...]) -> _Record:
    names = [each.name for each in fields(one) if each.name not in key]
    sums: dict[str, Any] = {name: getattr(one, name) + getattr(other, name) for name in names}
    return replace(one, **sums)
