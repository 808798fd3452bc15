"""NVIDIA's device plugin under the ordinary scheduler: whole GPUs, or one of the equal parts it was told to offer.

Source of the contract: the sharing configuration and node labels of NVIDIA/k8s-device-plugin 0.20.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.schedulers import manifest
from jupyter_gpushare.schedulers.pod_changes import PodChanges
from jupyter_gpushare.schedulers.product import PRODUCT_LABEL, read_kind
from jupyter_gpushare.schedulers.scheduler import (
    WHOLE_DEVICE,
    Adjustment,
    BookingError,
    Compute,
    HandBack,
    Isolation,
    MemoryIsolation,
    Reason,
    Scheduler,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from jupyter_gpushare.share import Share

__all__ = ["NvidiaScheduler", "Sharing"]

Sharing = Literal["none", "time-slicing", "mps"]

_GPU: Final = "nvidia.com/gpu"
_SHARED_GPU: Final = "nvidia.com/gpu.shared"
_STRATEGY_LABEL: Final = "nvidia.com/gpu.sharing-strategy"
_REPLICAS_LABEL: Final = "nvidia.com/gpu.replicas"
_MOST_REPLICAS: Final = 1000


class NvidiaScheduler(Scheduler):
    """The device plugin as a cluster has it. Pods choose their nodes by the labels of feature discovery.

    Args:
        sharing: how the plugin shares GPUs, if it does.
        replicas: in how many equal parts it offers a shared GPU; several where node pools differ.
        renamed: whether it offers the parts as ``nvidia.com/gpu.shared`` (its ``renameByDefault``).
        kinds: the value of the node label ``nvidia.com/gpu.product`` for each kind. On shared nodes that label
            may end in ``-SHARED``.
    """

    name: ClassVar[str] = "The NVIDIA device plugin"

    def __init__(
        self,
        *,
        sharing: Sharing = "none",
        replicas: Collection[int] = (),
        renamed: bool = True,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(kinds=kinds)
        if (sharing == "none") != (not replicas):
            raise ValueError("replicas: give the plugin's replicas where it shares, for example (2, 4), and none else")
        if any(type(parts) is not int or not 2 <= parts <= _MOST_REPLICAS for parts in replicas):  # noqa: PLR2004  # 1 is no sharing
            raise ValueError(f"replicas: {sorted(replicas)} are not numbers from 2 to {_MOST_REPLICAS}")
        self.sharing: Final = sharing
        self.renamed: Final = renamed
        self._replicas: Final = {Fraction(Fraction.PER_GPU // parts): parts for parts in sorted(replicas, reverse=True)}

    def isolation(self, share: Share) -> Isolation:
        """MPS keeps each process to its part; time slices keep nobody to anything."""
        if share.is_whole:
            return WHOLE_DEVICE
        if self.sharing == "mps":
            return Isolation(MemoryIsolation.PREVENTIVE, Compute.ENFORCED)
        return Isolation(MemoryIsolation.NONE, Compute.SHARED)

    def hand_back(self, share: Share) -> HandBack:  # noqa: ARG002  # the same for every share
        """A device plugin's device is held until the pod ends."""
        return HandBack.STOP

    def read(self, pod: Mapping[str, Any]) -> Share | None:
        """The share in a pod's resource limits and node selector. See `Scheduler.read`."""
        kind = read_kind(pod, self.kinds)
        limits = manifest.limits_of(pod, _SHARED_GPU) or manifest.limits_of(pod, _GPU)
        if not limits:
            return None
        if _SHARED_GPU in limits or manifest.node_selector_of(pod).get(_STRATEGY_LABEL) == self.sharing != "none":
            part = self._read_part(pod, limits)
            return manifest.booked_share(part, part, 1, kind)
        return manifest.booked_share(Fraction.ONE, Fraction.ONE, manifest.parse_count(_GPU, limits[_GPU]), kind)

    def _read_part(self, pod: Mapping[str, Any], limits: Mapping[str, Any]) -> Fraction:
        resource = _SHARED_GPU if _SHARED_GPU in limits else _GPU
        if manifest.parse_count(resource, limits[resource]) != 1:
            # Several parts may be of one device or of several: the plugin does not say.
            raise BookingError(resource, limits[resource], "1")
        parts = manifest.node_selector_of(pod).get(_REPLICAS_LABEL)
        if parts is None and len(self._replicas) == 1:
            return next(iter(self._replicas))
        count = manifest.parse_count(f"nodeSelector[{_REPLICAS_LABEL}]", parts)
        return Fraction(max(Fraction.PER_GPU // count, 1))

    def _rules(self) -> Sequence[Callable[[Share], Adjustment | None]]:
        return (self._check_no_burst, self._check_unit, self._check_devices, self._check_part)

    def _check_unit(self, share: Share) -> Adjustment | None:
        if isinstance(share.request, Fraction):
            return None
        return Adjustment(Reason.NO_MEMORY_AMOUNT.message(scheduler=self.name), _whole(share))

    def _check_devices(self, share: Share) -> Adjustment | None:
        if share.is_whole or share.count == 1:
            return None
        return Adjustment(Reason.ONE_DEVICE_ONLY.message(scheduler=self.name), _whole(share))

    def _check_part(self, share: Share) -> Adjustment | None:
        if share.is_whole or share.request in self._replicas:
            return None
        if not self._replicas:
            return Adjustment(Reason.NO_FRACTION.message(scheduler=self.name), _whole(share))
        reason = Reason.NO_SUCH_FRACTION.message(scheduler=self.name, fractions=", ".join(map(str, self._replicas)))
        covering = [part for part in self._replicas if part > share.request]  # type: ignore[operator]  # a fraction by now
        part = min(covering, default=Fraction.ONE)
        return Adjustment(reason, replace(share, request=part, limit=part))

    def _render(self, share: Share, *, project: str, priority: str, container: str) -> PodChanges:  # noqa: ARG002  # no queues here
        resource = _GPU if share.is_whole or not self.renamed else _SHARED_GPU
        product = {PRODUCT_LABEL: self.kinds[share.kind]} if share.kind else {}
        return PodChanges(
            container=container,
            limits={resource: share.count},
            node_selector={**product, **self._choose_nodes(share)},
            priority_class_name=priority,
        )

    def _choose_nodes(self, share: Share) -> dict[str, str]:
        if not share.is_whole:
            assert isinstance(share.request, Fraction)  # noqa: S101  # narrows the type; the rules saw to it
            return {_STRATEGY_LABEL: self.sharing, _REPLICAS_LABEL: str(self._replicas[share.request])}
        # Where parts go by the name of a whole GPU, only unshared nodes give a whole one.
        return {} if self.sharing == "none" or self.renamed else {_STRATEGY_LABEL: "none"}


def _whole(share: Share) -> Share:
    return replace(share, request=Fraction.ONE, limit=Fraction.ONE)
