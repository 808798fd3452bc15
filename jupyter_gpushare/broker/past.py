"""The past, kept and told: the last day, what parking would have won, and how far back the audit reaches."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.watching_past import STEP_S, Watch
from jupyter_gpushare.rules.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.broker.ledger_records import Moment
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["LONGEST_DAY_H", "LONGEST_REPORT_D", "Past"]

_LOG: Final = logging.getLogger(__name__)
_LOOK_S: Final = 15.0
_LOOKS_KEPT: Final = 4
_HOUR_S: Final = 3600.0
_DAY_S: Final = 86400.0
#: How far the picture reaches back at most, in hours.
LONGEST_DAY_H: Final = 192
#: How far the report reaches back at most, in days.
LONGEST_REPORT_D: Final = 400
_T = TypeVar("_T")


class _Asks(Protocol):
    async def __call__(self, question: Callable[[Ledger], _T], /) -> _T: ...


class Past:
    """For one event loop.

    Args:
        books: the newest books that are kept.
        clock: what time it is.
        ask: asks the ledger something, in its thread; may raise LedgerError.
        keeps_audit_s: for how long lines of the audit are kept now; None for ever.
    """

    def __init__(
        self, books: Callable[[], Snapshot], clock: Clock, ask: _Asks, keeps_audit_s: Callable[[], float | None]
    ) -> None:
        self._books = books
        self._clock = clock
        self._ask = ask
        self._keeps_audit_s = keeps_audit_s
        self._watch = Watch()
        self._pruned: float | None = None

    async def go_on(self) -> None:
        """Look and keep; for a task."""
        while True:
            for _ in range(_LOOKS_KEPT):
                await self._watch.look(self._books(), self._clock.now())
                await asyncio.sleep(_LOOK_S)
            await self.keep()
            await self.prune()

    async def keep(self) -> None:
        """Keep what came together since the last time; later if that cannot be now."""
        moments, idles = self._watch.take()
        if not moments and not idles:
            return
        try:
            await self._ask(lambda ledger: ledger.add_past(moments, idles))
        except LedgerError as error:
            self._watch.put_back(moments, idles)
            _LOG.warning("What the GPUs did is kept later: %s", error)

    async def prune(self) -> None:
        """Once a day, forget what nobody asks for any more."""
        now = self._clock.now()
        if self._pruned is not None and now - self._pruned < _DAY_S:
            return
        audit_s = self._keeps_audit_s()
        moments, idles = now - LONGEST_DAY_H * _HOUR_S, now - LONGEST_REPORT_D * _DAY_S
        try:
            await self._ask(lambda ledger: ledger.prune_past(moments=moments, idles=idles))
            if audit_s is not None:
                gone = await self._ask(lambda ledger: ledger.prune_audit(now - audit_s))
                _LOG.info("%d lines of the audit were older than it is kept", gone)
        except LedgerError as error:
            _LOG.warning("What is old is forgotten later: %s", error)
        else:
            self._pruned = now

    async def day(self, hours: int = 24) -> hub_wire.DayAnswer:
        """What the GPUs did in the last *hours*.

        Raises:
            LedgerError: the ledger cannot be asked now.
        """
        since = self._clock.now() - hours * _HOUR_S
        await self.keep()
        known = await self._ask(lambda ledger: ledger.moments(since=since))
        found = {moment.at: _slot(moment) for moment in known if moment.seconds > 0}
        for moment in self._watch.unkept():
            if moment.seconds > 0:
                found.setdefault(moment.at, _slot(moment))
        return hub_wire.DayAnswer(float(STEP_S), [found[at] for at in sorted(found)])

    async def report(self, days: int = 7) -> hub_wire.ParkingReport:
        """What parking would have won in the last *days*, most first.

        Raises:
            LedgerError: the ledger cannot be asked now.
        """
        now = self._clock.now()
        since = now - days * _DAY_S
        await self.keep()
        idles = await self._ask(lambda ledger: ledger.idles(since=since))
        hours = await self._ask(lambda ledger: ledger.usage_of_projects(since=since, until=now + 1))
        handed_back = {each.project: each.handed_back for each in hours}
        pools = self._books().pools
        lines = [
            hub_wire.ParkingReportLine(
                each.project,
                each.pool,
                pools.get(each.pool, Pool(each.pool, parking="off")).parking,
                each.idle,
                each.parks,
                handed_back.get(each.project, 0.0),
            )
            for each in idles
        ]
        return hub_wire.ParkingReport(since, now, sorted(lines, key=lambda line: (-line.idle, line.project, line.pool)))


def _slot(moment: Moment) -> hub_wire.DayModel:
    """The average over what was looked at."""
    parts = ("running", "parked", "lent", "training", "foreign", "free")
    return hub_wire.DayModel(float(moment.at), *(getattr(moment, name) / moment.seconds for name in parts))
