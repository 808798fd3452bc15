"""HAMi: parts of a GPU as resource limits, in per cent or MiB, kept in by its library inside the container.

Source of the contract: the resource names and webhook rules of Project-HAMi/HAMi 2.10, with its default names
and memory factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.schedulers import manifest
from jupyter_gpushare.schedulers.pod_changes import PodChanges
from jupyter_gpushare.schedulers.scheduler import (
    WHOLE_DEVICE,
    Adjustment,
    BookingError,
    Compute,
    HandBack,
    Isolation,
    MemoryIsolation,
    Scheduler,
)
from jupyter_gpushare.schedulers.steps import HUNDREDTH, round_request_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.share import Share

__all__ = ["HamiScheduler"]

_GPU: Final = "nvidia.com/gpu"
_MIB: Final = "nvidia.com/gpumem"
_PERCENT: Final = "nvidia.com/gpumem-percentage"
_CORES: Final = "nvidia.com/gpucores"
_USE_TYPE: Final = "nvidia.com/use-gputype"
_AVOID_TYPE: Final = "nvidia.com/nouse-gputype"
_ALL: Final = 100


class HamiScheduler(Scheduler):
    """HAMi as a cluster has it.

    Args:
        enforce_compute: whether a fraction's part of the compute is throttled too. Otherwise neighbours take turns.
        kinds: a part of the device's product name for each kind, such as ``A100``. HAMi looks for it anywhere in
            the name, so a kind whose text is part of another's (``A10``) is told to avoid the other.
    """

    name: ClassVar[str] = "HAMi"

    def __init__(self, *, enforce_compute: bool = False, kinds: Mapping[str, str] | None = None) -> None:
        super().__init__(kinds=kinds)
        self.enforce_compute: Final = enforce_compute

    def isolation(self, share: Share) -> Isolation:
        """HAMi-core keeps memory in; compute only where asked for, and only of fractions."""
        if share.is_whole:
            return WHOLE_DEVICE
        throttled = self.enforce_compute and isinstance(share.request, Fraction)
        return Isolation(MemoryIsolation.PREVENTIVE, Compute.ENFORCED if throttled else Compute.SHARED)

    def hand_back(self, share: Share) -> HandBack:  # noqa: ARG002  # the same for every share
        """HAMi's books are closed until the pod ends."""
        return HandBack.STOP

    def read(self, pod: Mapping[str, Any]) -> Share | None:
        """The share in a pod's resource limits. See `Scheduler.read`."""
        limits = manifest.limits_of(pod, _GPU)
        if not limits:
            return None
        count = manifest.parse_count(_GPU, limits[_GPU])
        amount = _read_amount(limits)
        return manifest.booked_share(amount, amount, count, self._read_kind(pod))

    def _rules(self) -> Sequence[Callable[[Share], Adjustment | None]]:
        return (self._check_no_burst, self._check_request)

    def _check_request(self, share: Share) -> Adjustment | None:
        rounded = round_request_up(share)
        return None if rounded == share else self._too_fine("request", "1 per cent or 1 MiB", rounded)

    def _render(self, share: Share, *, project: str, priority: str, container: str) -> PodChanges:  # noqa: ARG002  # HAMi's quotas are of namespaces
        return PodChanges(
            container=container,
            limits={_GPU: share.count, **self._limits(share)},
            annotations=self._choose_type(share.kind),
            # HAMi's webhook leaves a pod alone that names another scheduler, and JupyterHub's chart names one.
            scheduler_name="hami-scheduler",
            priority_class_name=priority,
        )

    def _limits(self, share: Share) -> dict[str, int]:
        if share.is_whole:
            return {}  # the count alone is an exclusive device
        if isinstance(share.request, Memory):
            return {_MIB: share.request.mib}
        percent = share.request.millionths // HUNDREDTH.millionths
        return {_PERCENT: percent, _CORES: percent} if self.enforce_compute else {_PERCENT: percent}

    def _choose_type(self, kind: str) -> dict[str, str]:
        if not kind:
            return {}
        wanted = self.kinds[kind]
        longer = sorted(text for text in self.kinds.values() if text != wanted and wanted.upper() in text.upper())
        return {_USE_TYPE: wanted, **({_AVOID_TYPE: ",".join(longer)} if longer else {})}

    def _read_kind(self, pod: Mapping[str, Any]) -> str:
        wanted = manifest.annotations_of(pod).get(_USE_TYPE, "")
        names = {text: kind for kind, text in self.kinds.items()}
        return names.get(wanted, wanted.lower())


def _read_amount(limits: Mapping[str, Any]) -> Fraction | Memory:
    if _MIB in limits and _PERCENT in limits:
        raise BookingError(f"{_MIB} and {_PERCENT}", "both", "one of the two")
    if _MIB in limits:
        return Memory(manifest.parse_count(_MIB, limits[_MIB]) << 20)
    percent = manifest.parse_count(_PERCENT, limits.get(_PERCENT, _ALL))
    if percent > _ALL:
        raise BookingError(_PERCENT, percent, "at most 100")
    return HUNDREDTH * percent
