"""Prometheus metrics on the server's ``/metrics``. Never a notebook's name: names are private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.session.wire import ReadingModel, Snapshot

__all__ = ["SessionCollector", "count_loss", "count_lost_state", "count_park", "count_refusal", "count_resume"]

_LOSSES = Counter("gpushare_losses", "Endings of user state by us, by kind of loss.", ["loss"])

_SECONDS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)
_PARK_S = Histogram("gpushare_park_seconds", "Seconds to park a kernel, from the gate on.", buckets=_SECONDS)
_RESUME_S = Histogram("gpushare_resume_seconds", "Seconds to resume a kernel, without waiting.", buckets=_SECONDS)
_MOVED = Counter("gpushare_moved_bytes", "GPU memory that was moved.", ["direction"])
_PARKS = Counter("gpushare_parks", "Kernels that were parked.")
_RESUMES = Counter("gpushare_resumes", "Kernels that came back.")
_REFUSALS = Counter("gpushare_park_refusals", "Attempts to park that failed, by reason.", ["code"])
_LOST_STATES = Counter("gpushare_lost_gpu_states", "Kernels whose GPU state was lost by a fault. Should be 0.")


def count_loss(loss: Loss) -> None:
    """Count one loss."""
    _LOSSES.labels(loss=loss.value).inc()


def count_park(memory: int, took_s: float) -> None:
    """Count one kernel that was parked."""
    _PARKS.inc()
    _MOVED.labels(direction="park").inc(memory)
    _PARK_S.observe(took_s)


def count_resume(memory: int, took_s: float) -> None:
    """Count one kernel that came back."""
    _RESUMES.inc()
    _MOVED.labels(direction="resume").inc(memory)
    _RESUME_S.observe(took_s)


def count_refusal(code: str) -> None:
    """Count one attempt to park that failed."""
    _REFUSALS.labels(code=code).inc()


def count_lost_state() -> None:
    """Count a kernel whose GPU state was lost by a fault of the driver's."""
    _LOST_STATES.inc()


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
    parkings = [kernel.parking for kernel in now.kernels if kernel.parking is not None]
    off = [parking.memory or 0 for parking in parkings if parking.status in ("parked", "waiting")]
    yield GaugeMetricFamily("gpushare_parked_bytes", "GPU memory of this server's kernels in host memory.", sum(off))
    yield GaugeMetricFamily("gpushare_kernels_parked", "Kernels whose GPU memory is in host memory.", len(off))
    yield GaugeMetricFamily("gpushare_handed_back_seconds", "Seconds of share handed back today.", now.handed_back_s)


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
