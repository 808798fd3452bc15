"""Gauges that are made from a broker's books when somebody scrapes."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from prometheus_client.registry import Collector

from jupyter_gpushare.broker import metrics_table as table
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.fair_share import fair_share
from jupyter_gpushare.rules.lease import Kind, Status
from jupyter_gpushare.rules.snapshot import DeviceBooks, HostBooks, ProjectBooks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from jupyter_gpushare.broker.metrics_table import Figure
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.quantity import Memory
    from jupyter_gpushare.rules.lease import Hold
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["BooksCollector"]

_LABELS: Final = attrgetter("project", "kind", "status")
_UNBOUNDED: Final = float("inf")
_NO_BOOKS: Final = ProjectBooks()
_CONDITIONS: Final = ("ready", "draining", "gone")
_Labels = TypeVar("_Labels", bound=tuple[str, ...])


class BooksCollector(Collector):
    """The books of *broker*."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The gauges of this moment."""
        books, now = self._broker.books, self._broker.clock.now()
        yield from _leases(books)
        yield from _line(books, now)
        yield from _devices(books)
        yield from _projects(books)
        yield from _hosts(books)
        yield from self._itself(now)

    def _itself(self, now: float) -> Iterator[Metric]:
        broker, reconciler = self._broker, self._broker.reconciler
        model = broker.model()
        info = table.INFO.family()
        info.add_metric([model.version, model.mode], 1)  # type: ignore[attr-defined]  # every family has it
        yield info
        since = reconciler.trouble_since
        yield _single(table.STARTED, model.started)
        yield _single(table.HOLDERS, len(broker.holders))
        yield _single(table.PARKING_STOPPED, int(broker.books.is_parking_stopped))
        yield _single(table.LEDGER_FAILING, int(reconciler.trouble is not None))
        yield _single(table.LEDGER_FAILING_S, 0.0 if since is None else max(0.0, now - since))
        yield _single(table.UNKEPT, reconciler.pending)


def _leases(books: Snapshot) -> Iterator[Metric]:
    # All in C, and their values only of what is left: thousands of leases are counted while everybody waits.
    counts = Counter(map(_LABELS, books.leases.values()))
    by_status = {(project, kind.value, status.value): count for (project, kind, status), count in counts.items()}
    yield _labelled(table.LEASES, by_status)
    held = Counter(_state(lease.status, lease.hold) for lease in books.leases.values() if lease.hold is not None)
    yield _labelled(table.HELD_CLAIMS, {(state,): held[state] for state in ("waiting", "granted", "starting")})


def _state(status: Status, hold: Hold) -> str:
    if hold.is_starting:
        return "starting"
    return "waiting" if status is Status.QUEUED else "granted"


def _line(books: Snapshot, now: float) -> Iterator[Metric]:
    waiting = [books.leases[key] for key in books.waiting]
    counts = Counter((lease.kind.value, "" if lease.reason is None else lease.reason.value) for lease in waiting)
    yield _labelled(table.WAITING, counts)
    longest = dict.fromkeys(Kind, 0.0)
    for lease in waiting:
        longest[lease.kind] = max(longest[lease.kind], now - lease.submitted)
    yield _labelled(table.LONGEST_WAIT, {(kind.value,): seconds for kind, seconds in longest.items()})


def _devices(books: Snapshot) -> Iterator[Metric]:
    """Where the capacity is: *free* is promised to nobody; *parked* is promised, and *lent* of it is in use."""
    uses: dict[tuple[str, ...], float] = {}
    over = trespassed = 0
    for uuid, device in books.devices.items():
        there = books.device_books.get(uuid, DeviceBooks())
        over += there.held > device.capacity
        trespassed += device.trespassed
        amounts = {
            "held": there.held - there.lent,
            "parked": there.parked,
            "lent": there.lent,
            "foreign": device.foreign,
            "free": device.capacity - there.held - there.parked + there.lent,
        }
        uses |= {(uuid, device.kind, use): amount.gpus for use, amount in amounts.items()}
    yield _labelled(table.GPUS, uses)
    conditions = Counter(device.condition for device in books.devices.values())
    yield _labelled(table.DEVICES, {(each,): conditions[each] for each in _CONDITIONS})
    yield _single(table.OVER_COMMITTED, over)
    yield _single(table.TRESPASSED, trespassed)


def _projects(books: Snapshot) -> Iterator[Metric]:
    shares = fair_share(books)
    known = {name: books.project_books.get(name, _NO_BOOKS) for name in books.projects}
    used: dict[tuple[str, ...], float] = {}
    for name, has in known.items():
        parts = {"sessions": has.sessions, "training": has.counted - has.sessions, "lent": has.lent}
        used |= {(name, use): amount.gpus for use, amount in parts.items()}
    yield _labelled(table.PROJECT_GPUS, used)
    yield _labelled(table.PROJECT_QUOTA, {(name,): _gpus(each.quota) for name, each in books.projects.items()})
    yield _labelled(table.PROJECT_FAIR_SHARE, {(name,): shares.get(name, Fraction.ZERO).gpus for name in known})
    yield _labelled(table.PROJECT_DEMAND, {(name,): has.demand.gpus for name, has in known.items()})


def _hosts(books: Snapshot) -> Iterator[Metric]:
    booked = {(name,): books.host_books.get(name, HostBooks()).booked.bytes for name in books.hosts}
    yield _labelled(table.PARKED_BYTES, booked)
    budgets = {(name,): _bytes(host.parking_budget) for name, host in books.hosts.items()}
    yield _labelled(table.PARKING_BUDGET, budgets)


def _labelled(figure: Figure, values: Mapping[_Labels, float]) -> Metric:
    family = figure.family()
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)  # type: ignore[attr-defined]  # every family has it
    return family


def _single(figure: Figure, value: float) -> Metric:
    return _labelled(figure, {(): value})


def _gpus(amount: Fraction) -> float:
    return _UNBOUNDED if amount.is_unlimited else amount.gpus


def _bytes(amount: Memory) -> float:
    return _UNBOUNDED if amount.is_unlimited else amount.bytes
