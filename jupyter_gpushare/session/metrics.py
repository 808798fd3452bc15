"""Prometheus metrics on the server's ``/metrics``. Never a notebook's name: names are private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.session.wire import ReadingModel, Snapshot

__all__ = ["SessionCollector", "count_loss"]

_LOSSES = Counter("gpushare_losses", "Endings of user state by us, by kind of loss.", ["loss"])


def count_loss(loss: Loss) -> None:
    """Count one loss."""
    _LOSSES.labels(loss=loss.value).inc()


class SessionCollector(Collector):
    """Gauges made from the newest snapshot when somebody scrapes; a number that is not known is left out.

    Args:
        latest: the newest snapshot, None when there is none or it is too old to speak for now.
    """

    def __init__(self, latest: Callable[[], Snapshot | None]) -> None:
        self._latest = latest

    def register(self) -> None:
        """Appear on ``/metrics``."""
        REGISTRY.register(self)

    def unregister(self) -> None:
        """Disappear again, so that a second server in the same process can register."""
        REGISTRY.unregister(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: registering must not read a device."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The gauges of this moment."""
        now = self._latest()
        if now is None:
            return
        yield _gauge("gpushare_session_memory_bytes", "GPU memory held by this server's processes.", now.memory)
        yield _gauge(
            "gpushare_session_utilisation_ratio", "GPU compute used by this server, 0 to 1.", now.utilisation, scale=100
        )
        yield from _share(now)
        yield from _devices(now)


def _gauge(name: str, text: str, reading: ReadingModel, scale: int = 1) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=None if reading.value is None else reading.value / scale)


def _share(now: Snapshot) -> Iterable[GaugeMetricFamily]:
    yield GaugeMetricFamily("gpushare_share_request_bytes", "GPU memory guaranteed to this server.", now.share.request)
    yield GaugeMetricFamily("gpushare_share_limit_bytes", "GPU memory up to which it may burst.", now.share.limit)
    holding = sum(1 for kernel in now.kernels if kernel.memory.value)
    yield GaugeMetricFamily("gpushare_kernels_holding", "Kernels that hold GPU memory.", holding)


def _devices(now: Snapshot) -> Iterable[GaugeMetricFamily]:
    labels = ["uuid", "kind"]
    used = GaugeMetricFamily("gpushare_device_memory_used_bytes", "Memory in use on the device.", labels=labels)
    usable = GaugeMetricFamily("gpushare_device_memory_usable_bytes", "Memory that holders can get.", labels=labels)
    busy = GaugeMetricFamily("gpushare_device_utilisation_ratio", "Compute use of the device, 0 to 1.", labels=labels)
    for device in now.devices:
        label = [device.uuid, device.kind]
        usable.add_metric(label, device.usable)
        if device.used.value is not None:
            used.add_metric(label, device.used.value)
        if device.utilisation.value is not None:
            busy.add_metric(label, device.utilisation.value / 100)
    yield from (used, usable, busy)
