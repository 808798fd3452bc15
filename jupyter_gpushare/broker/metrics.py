"""Prometheus metrics of one broker. Never a notebook's or a person's name: names are private."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client import Counter as Total
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from jupyter_gpushare.broker.reconciler import Timings
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.snapshot import DeviceBooks, HostBooks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Metrics"]

_WAITS: Final = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400)
_LABELS: Final = attrgetter("project", "kind", "status")
_FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)


class Metrics:
    """The figures of one broker, on a page of their own: several brokers may live in one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._waits = self._histogram("gpushare_wait_seconds", "Seconds from a claim to its grant.", _WAITS, ["kind"])
        self._resumes = self._histogram(
            "gpushare_resume_wait_seconds", "Seconds from wanting a parked share back to having room for it.", _WAITS
        )
        decisions = self._histogram("gpushare_decision_seconds", "Seconds that the rules took for a step.", _FAST)
        commits = self._histogram("gpushare_commit_seconds", "Seconds that the ledger took for a commit.", _FAST)
        self._events = Total(
            "gpushare_audit_lines", "Lines of the audit, by what happened.", ["verb"], registry=self._registry
        )
        self.timings = Timings(decided=decisions.observe, committed=commits.observe)

    def watch(self, broker: Broker) -> None:
        """Show the books of *broker*."""
        self._registry.register(_Books(broker))

    def published(self, published: Published) -> None:
        """Count what a commit says."""
        for entry in published.change.audit:
            self._events.labels(verb=entry.verb.value).inc()
        for key, lease in published.change.leases.items():
            self._count_wait(published.old.leases.get(key), lease)

    def page(self) -> tuple[str, bytes]:
        """The content type, and everything as Prometheus reads it."""
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)

    def _count_wait(self, old: Lease | None, new: Lease) -> None:
        if new.status is Status.RESUMING and old is not None and old.status is Status.PARKED:
            self._resumes.observe(max(0.0, new.since - (old.wanted_since or new.since)))
        elif new.status is Status.GRANTED and (old is None or old.status is Status.QUEUED):
            since = new.submitted if old is None or not old.turns_lost else old.since
            self._waits.labels(kind=new.kind.value).observe(max(0.0, new.since - since))

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], labels: Iterable[str] = ()) -> Histogram:
        return Histogram(name, text, tuple(labels), buckets=buckets, registry=self._registry)


class _Books(Collector):
    """Gauges made from the books when somebody scrapes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The gauges of this moment."""
        broker = self._broker
        books = broker.books
        yield _leases(books)
        yield _gpus(books)
        yield _parked(books)
        yield _over_committed(books)
        yield GaugeMetricFamily("gpushare_holders", "Holders that are connected.", value=len(broker.holders))
        failing = broker.reconciler.trouble is not None
        yield GaugeMetricFamily("gpushare_ledger_failing", "1 while the ledger cannot be used.", value=int(failing))
        yield GaugeMetricFamily(
            "gpushare_parking_stopped", "1 while all parking is stopped.", value=int(books.is_parking_stopped)
        )


def _leases(books: Snapshot) -> Metric:
    family = GaugeMetricFamily(
        "gpushare_leases", "Leases, by project, kind and status.", labels=["project", "kind", "status"]
    )
    # All in C, and their values only of what is left: thousands of leases are counted while everybody waits.
    counts = Counter(map(_LABELS, books.leases.values()))
    for (project, kind, status), count in sorted(counts.items()):
        family.add_metric([project, kind.value, status.value], count)
    return family


def _gpus(books: Snapshot) -> Metric:
    """Where the capacity is: *free* is promised to nobody; *parked* is promised, and *lent* of it is in use."""
    family = GaugeMetricFamily("gpushare_gpus", "GPUs, by device and use.", labels=["device", "kind", "use"])
    for uuid, device in sorted(books.devices.items()):
        there = books.device_books.get(uuid, DeviceBooks())
        free = device.capacity - there.held - there.parked + there.lent
        uses = {
            "held": there.held - there.lent,
            "parked": there.parked,
            "lent": there.lent,
            "foreign": device.foreign,
            "free": free,
        }
        for use, amount in uses.items():
            family.add_metric([uuid, device.kind, use], amount.gpus)
    return family


def _parked(books: Snapshot) -> Metric:
    family = GaugeMetricFamily("gpushare_parked_bytes", "Host memory booked for parked state.", labels=["host"])
    for name in sorted(books.hosts):
        family.add_metric([name], books.host_books.get(name, HostBooks()).booked.bytes)
    return family


def _over_committed(books: Snapshot) -> Metric:
    over = sum(
        1
        for uuid, device in books.devices.items()
        if books.device_books.get(uuid, DeviceBooks()).held > device.capacity
    )
    return GaugeMetricFamily("gpushare_devices_over_committed", "Devices with more held than there is.", value=over)
