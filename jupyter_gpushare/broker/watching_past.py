"""What the GPUs do, looked at every few seconds and added up: the last day, and what parking would have won."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.ledger_records import Idle, Moment
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.snapshot import DeviceBooks
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["STEP_S", "Watch", "parts_of"]

_LOG: Final = logging.getLogger(__name__)
#: How long one moment is.
STEP_S: Final = 300
_HOUR_S: Final = 3600
# A longer pause than this is a machine that slept or a clock that was set: nobody knows what was then.
_LONGEST_S: Final = 60.0
# So many leases take a millisecond or so: then everybody else has a turn.
_AT_ONCE: Final = 500
_PARTS: Final = ("running", "parked", "lent", "training", "foreign", "free")


def parts_of(books: Snapshot) -> dict[str, float]:
    """What the GPUs are used for, in GPUs: see `hub_wire.DayModel`. They sum up to all there are."""
    sums = dict.fromkeys(_PARTS, 0)
    for device in books.devices.values():
        if device.condition == "gone":
            continue
        own = books.device_books.get(device.uuid, DeviceBooks())
        sessions = (own.promised - own.parked).millionths
        lent = own.lent.millionths
        kept = max(0, own.parked.millionths - lent)
        training = max(0, own.held.millionths - sessions - lent)
        foreign = min(Fraction.PER_GPU, device.foreign.millionths)
        sums["running"] += sessions
        sums["lent"] += lent
        sums["parked"] += kept
        sums["training"] += training
        sums["foreign"] += foreign
        # Where more is promised than there is, nothing is free.
        sums["free"] += max(0, Fraction.PER_GPU - foreign - sessions - lent - kept - training)
    return {name: amount / Fraction.PER_GPU for name, amount in sums.items()}


@dataclass(slots=True)
class Watch:
    """Adds up, look after look. For one event loop."""

    _moments: dict[int, Moment] = field(default_factory=dict)
    _idles: defaultdict[tuple[int, str, str], list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0.0, 0.0])
    )
    _idle_now: set[str] = field(default_factory=set)
    _last: float | None = None

    async def look(self, books: Snapshot, now: float) -> None:
        """What *books* say holds since the last look."""
        last, self._last = self._last, now
        passed = 0.0 if last is None else now - last
        if not 0 < passed <= _LONGEST_S:
            return
        self._add_moment(books, now, passed)
        await self._add_idles(books, now, passed)

    def take(self) -> tuple[list[Moment], list[Idle]]:
        """What came together since the last time."""
        moments, self._moments = list(self._moments.values()), {}
        idles = [Idle(*key, idle=hours, parks=int(parks)) for key, (hours, parks) in self._idles.items()]
        self._idles.clear()
        return moments, idles

    def put_back(self, moments: list[Moment], idles: list[Idle]) -> None:
        """Have the next `take` give these once more: they could not be kept."""
        for moment in moments:
            self._merge(moment)
        for idle in idles:
            sums = self._idles[idle.hour, idle.project, idle.pool]
            sums[0] += idle.idle
            sums[1] += idle.parks

    def unkept(self) -> list[Moment]:
        """The moments that are not taken yet."""
        return list(self._moments.values())

    def _add_moment(self, books: Snapshot, now: float, passed: float) -> None:
        at = int(now // STEP_S) * STEP_S
        used = {name: gpus * passed for name, gpus in parts_of(books).items()}
        self._merge(Moment(at, seconds=passed, **used))

    def _merge(self, moment: Moment) -> None:
        known = self._moments.get(moment.at, Moment(moment.at))
        sums = {name: getattr(known, name) + getattr(moment, name) for name in ("seconds", *_PARTS)}
        self._moments[moment.at] = replace(known, **sums)

    async def _add_idles(self, books: Snapshot, now: float, passed: float) -> None:
        hour = int(now // _HOUR_S) * _HOUR_S
        before, self._idle_now = self._idle_now, set()
        for number, lease in enumerate(_idle_sessions(books, now)):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            sums = self._idles[hour, lease.project, pool_of(books, lease).name]
            sums[0] += lease.amount.millionths / Fraction.PER_GPU * passed / _HOUR_S
            sums[1] += lease.id not in before
            self._idle_now.add(lease.id)


def _idle_sessions(books: Snapshot, now: float) -> Iterator[Lease]:
    """The sessions that run and have been idle for longer than their pool lets a share lie."""
    for lease in books.leases.values():
        if lease.idle_since is None or lease.status is not Status.RUNNING or not lease.is_session:
            continue
        if now - lease.idle_since > pool_of(books, lease).idle_timeout_s:
            yield lease
