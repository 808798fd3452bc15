"""Prometheus metrics of one broker. Never a notebook's or a person's name: names are private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from jupyter_gpushare.broker import metrics_table as table
from jupyter_gpushare.broker.hub_metrics import outcomes_of, route_of
from jupyter_gpushare.broker.metrics_of_books import BooksCollector
from jupyter_gpushare.broker.reconciler import Timings
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.loss import Loss

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tornado.web import RequestHandler

    from jupyter_gpushare.broker.ledger import UsageHours
    from jupyter_gpushare.broker.metrics_table import Figure
    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.rules.change import Entry
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["Metrics"]


class Metrics:
    """The figures of one broker, on a page of their own: several brokers may live in one process.

    Attributes:
        registry: whoever works for this broker in its process puts its figures here, and they are on the same page.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._waits = self._histogram(table.WAITS)
        self._resumes = self._histogram(table.RESUMES)
        decisions, commits = self._histogram(table.DECISIONS), self._histogram(table.COMMITS)
        self._events = self._counter(table.AUDIT_LINES)
        self._claims = self._counter(table.CLAIMS)
        self._hours = self._counter(table.GPU_HOURS)
        self._requests = self._counter(table.REQUESTS)
        self._refusals = self._counter(table.REFUSALS)
        self._losses = self._counter(table.LOSSES)
        for loss in Loss:
            # A counter that appears with its first loss would hide that very loss from `increase`.
            self._losses.labels(loss=loss.value)
        self.timings = Timings(decided=decisions.observe, committed=commits.observe)

    def watch(self, broker: Broker) -> None:
        """Show the books of *broker*."""
        self.registry.register(BooksCollector(broker))

    def published(self, published: Published) -> None:
        """Count what a commit says."""
        for entry in published.change.audit:
            self._count_line(entry)
        for kind, outcome, reason in outcomes_of(published):
            self._claims.labels(kind=kind, outcome=outcome, reason=reason).inc()
        for key, lease in published.change.leases.items():
            self._count_wait(published.old.leases.get(key), lease)

    def used(self, usage: Iterable[UsageHours]) -> None:
        """Count GPU-hours that the ledger has just kept."""
        for each in usage:
            parts = {"held": each.held, "handed_back": each.handed_back, "lent": each.lent, "computed": each.computed}
            for use, hours in parts.items():
                self._hours.labels(project=each.project, use=use).inc(max(0.0, hours))

    def answered(self, handler: RequestHandler) -> None:
        """Count a request that was answered (tornado's ``log_function``)."""
        route, verb = route_of(handler)
        self._requests.labels(route=route, verb=verb, status=str(handler.get_status())).inc()

    def refused(self, handler: RequestHandler, code: str) -> None:
        """Count a request that was refused with *code*, one of our own constants."""
        self._refusals.labels(route=route_of(handler)[0], code=code).inc()

    def page(self) -> tuple[str, bytes]:
        """The content type, and everything as Prometheus reads it."""
        return CONTENT_TYPE_LATEST, generate_latest(self.registry)

    def _count_line(self, entry: Entry) -> None:
        self._events.labels(verb=entry.verb.value).inc()
        if entry.verb is Verb.LOSS:
            self._losses.labels(loss=entry.details["loss"]).inc()

    def _count_wait(self, old: Lease | None, new: Lease) -> None:
        if new.status is Status.RESUMING and old is not None and old.status is Status.PARKED:
            self._resumes.observe(max(0.0, new.since - (old.wanted_since or new.since)))
        elif new.status is Status.GRANTED and (old is None or old.status is Status.QUEUED):
            since = new.submitted if old is None or not old.turns_lost else old.since
            self._waits.labels(kind=new.kind.value).observe(max(0.0, new.since - since))

    def _histogram(self, figure: Figure) -> Histogram:
        return Histogram(figure.name, figure.text, figure.labels, buckets=figure.buckets, registry=self.registry)

    def _counter(self, figure: Figure) -> Counter:
        return Counter(figure.name, figure.text, figure.labels, registry=self.registry)
