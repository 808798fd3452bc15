"""How the news get on, for Prometheus and for whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from jupyter_gpushare.broker import metrics_table as table

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["NewsFigures"]


class NewsFigures:
    """The figures of all hooks.

    Args:
        registry: where they are shown.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        counters = (table.NEWS_SENT, table.NEWS_FAILED, table.NEWS_GIVEN_UP)
        gauges = (table.NEWS_WAITING, table.NEWS_FAILING)
        self._sent, self._failed, self._given_up = (
            Counter(each.name, each.text, each.labels, registry=registry) for each in counters
        )
        self._waiting, self._failing = (Gauge(each.name, each.text, each.labels, registry=registry) for each in gauges)

    def sent(self, hook: str, event: str) -> None:
        """A receiver took it."""
        self._sent.labels(hook=hook, event=event).inc()

    def failed(self, hook: str, why: str) -> None:
        """An attempt failed."""
        self._failed.labels(hook=hook, why=why).inc()

    def given_up(self, hook: str, why: str) -> None:
        """No receiver will ever hear it."""
        self._given_up.labels(hook=hook, why=why).inc()

    def waiting(self, hook: str, count: int) -> None:
        """So many are not delivered yet."""
        self._waiting.labels(hook=hook).set(count)

    def failing(self, hook: str, *, is_failing: bool) -> None:
        """Whether the hook's secret or its receiver fails now."""
        self._failing.labels(hook=hook).set(is_failing)

    def withdraw(self) -> None:
        """Be shown no more."""
        for each in (self._sent, self._failed, self._given_up, self._waiting, self._failing):
            self._registry.unregister(each)

    def forget(self, hook: str) -> None:
        """There is no such hook any more; what was counted stays."""
        for gauge in (self._waiting, self._failing):
            gauge.remove(hook)
