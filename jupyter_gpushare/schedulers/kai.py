"""KAI Scheduler: parts of a GPU as pod annotations, whole GPUs as an ordinary resource.

Source of the contract: the documentation and admission rules of kai-scheduler/KAI-Scheduler, up to 0.17 and,
for requests below a limit, 0.18 in the mode NvFractions.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from jupyter_gpushare.quantity import Fraction, Memory
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
from jupyter_gpushare.schedulers.steps import round_limit_down, round_request_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.share import Share

__all__ = ["KaiScheduler", "SharingMode"]

#: KAI's own names for how it shares a GPU (its chart's ``global.gpuSharingMode``).
SharingMode = Literal["NonMemoryEnforced", "HamiCore", "NvFractions"]

_GPU: Final = "nvidia.com/gpu"
_FRACTION: Final = "gpu-fraction"
_MEMORY: Final = "gpu-memory"
_DEVICES: Final = "gpu-fraction-num-devices"
_CONTAINER: Final = "gpu-fraction-container-name"
_QUEUE: Final = "kai.scheduler/queue"
_VERSION: Final = re.compile(r"v?0\.([0-9]{1,4})(?:\.[0-9]{1,4})?", re.ASCII)
_REQUEST_KEY: Final = re.compile(r"nvidia\.com/container\.(.+)\.gpu-memory\.request")
# KAI takes five decimals for a limit, which must stay below 1.
_LIMIT_STEP: Final = Fraction.parse("0.00001")
_HIGHEST_LIMIT: Final = Fraction.parse("0.99999")


class KaiScheduler(Scheduler):
    """KAI as a cluster has it.

    Args:
        version: KAI's version. A limit above the request needs 0.18.
        sharing_mode: how KAI was installed to share GPUs. Only ``NvFractions`` knows limits and keeps them.
        priority: the priority class of pods that name none. KAI takes a bare pod for preemptible training, so
            this is never left out: ``build`` is interactive work that is not evicted.
        kinds: the value of the node label ``nvidia.com/gpu.product`` for each kind.
    """

    name: ClassVar[str] = "KAI"

    def __init__(
        self,
        *,
        version: str = "0.17",
        sharing_mode: SharingMode = "NonMemoryEnforced",
        priority: str = "build",
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(kinds=kinds)
        match = _VERSION.fullmatch(version)
        if match is None:
            raise ValueError(f"version: {version[:40]!r} is no version of KAI; write for example 0.17")
        if sharing_mode == "NvFractions" and int(match[1]) < 18:  # noqa: PLR2004  # the first version that has it
            raise ValueError(f"sharing_mode: NvFractions needs KAI 0.18, and version is {version}")
        self.sharing_mode: Final = sharing_mode
        self.priority: Final = priority

    def isolation(self, share: Share) -> Isolation:
        """Memory is kept in only by HAMi-core or the driver; compute is always in equal time slices."""
        if share.is_whole:
            return WHOLE_DEVICE
        enforced = self.sharing_mode != "NonMemoryEnforced"
        return Isolation(MemoryIsolation.PREVENTIVE if enforced else MemoryIsolation.NONE, Compute.SHARED)

    def hand_back(self, share: Share) -> HandBack:
        """What lies above a request is only borrowed; a request is held until the pod ends."""
        return HandBack.SMALL_REQUEST if share.bursts else HandBack.STOP

    def read(self, pod: Mapping[str, Any]) -> Share | None:
        """The share in a pod's annotations, or its whole GPUs. See `Scheduler.read`."""
        annotations = manifest.annotations_of(pod)
        kind = read_kind(pod, self.kinds)
        amounts = _read_amounts(annotations)
        if amounts:
            count = manifest.parse_count(_DEVICES, annotations.get(_DEVICES, "1"))
            return manifest.booked_share(*amounts, count, kind)
        limits = manifest.limits_of(pod, _GPU)
        if not limits:
            return None
        return manifest.booked_share(Fraction.ONE, Fraction.ONE, manifest.parse_count(_GPU, limits[_GPU]), kind)

    def _rules(self) -> Sequence[Callable[[Share], Adjustment | None]]:
        if self.sharing_mode == "NvFractions":
            return (self._check_request, self._check_highest_limit, self._check_limit)
        return (self._check_no_burst, self._check_request)

    def _check_request(self, share: Share) -> Adjustment | None:
        rounded = round_request_up(share)
        return None if rounded == share else self._too_fine("request", "0.01 GPU or 1 MiB", rounded)

    def _check_highest_limit(self, share: Share) -> Adjustment | None:
        if not (share.bursts and share.limit == Fraction.ONE):
            return None
        reason = Reason.LIMIT_TOO_HIGH.message(scheduler=self.name, most=str(_HIGHEST_LIMIT))
        return Adjustment(reason, replace(share, limit=_HIGHEST_LIMIT))

    def _check_limit(self, share: Share) -> Adjustment | None:
        rounded = round_limit_down(share, _LIMIT_STEP)
        return None if rounded == share else self._too_fine("limit", "0.00001 GPU or 1 MiB", rounded)

    def _render(self, share: Share, *, project: str, priority: str, container: str) -> PodChanges:
        return PodChanges(
            container=container,
            # A whole GPU as a fraction of 1 is refused by KAI's admission.
            limits={_GPU: share.count} if share.is_whole else {},
            annotations={} if share.is_whole else self._annotate(share, container),
            labels={_QUEUE: project} if project else {},
            node_selector={PRODUCT_LABEL: self.kinds[share.kind]} if share.kind else {},
            scheduler_name="kai-scheduler",
            priority_class_name=priority or self.priority,
        )

    def _annotate(self, share: Share, container: str) -> dict[str, str]:
        annotations = {_CONTAINER: container}
        if share.count > 1:
            annotations[_DEVICES] = str(share.count)
        if isinstance(share.request, Fraction):
            annotations[_FRACTION] = str(share.request)
        else:
            annotations[_MEMORY] = str(share.request.mib)
        if share.bursts:
            annotations[_limit_key(share, container)] = _limit_text(share.limit)
        return annotations


def _limit_key(share: Share, container: str) -> str:
    if isinstance(share.limit, Fraction):
        return f"kai.scheduler/container.{container}.gpu-memory.portion.limit"
    return f"nvidia.com/container.{container}.gpu-memory.limit"


def _limit_text(limit: Fraction | Memory) -> str:
    return str(limit) if isinstance(limit, Fraction) else f"{limit.mib}Mi"


def _read_amounts(annotations: Mapping[str, str]) -> tuple[Fraction | Memory, Fraction | Memory] | None:
    if _FRACTION in annotations and _MEMORY in annotations:
        raise BookingError(f"{_FRACTION} and {_MEMORY}", "both", "one of the two")
    if _FRACTION in annotations:
        request: Fraction | Memory = manifest.parse_fraction(_FRACTION, annotations[_FRACTION])
        # The binder adds a limit in bytes of its own, so only the portion is ours to read.
        return request, _read_limit(annotations, request, ".gpu-memory.portion.limit", "gpu-fraction.limit")
    if _MEMORY in annotations:
        request = Memory(manifest.parse_count(_MEMORY, annotations[_MEMORY]) << 20)
    else:
        keys = [key for key in annotations if _REQUEST_KEY.fullmatch(key)]
        if not keys:
            return None
        request = manifest.parse_quantity(keys[0], annotations[keys[0]])
    return request, _read_limit(annotations, request, ".gpu-memory.limit", "gpu-memory.limit")


def _read_limit(
    annotations: Mapping[str, str], request: Fraction | Memory, suffix: str, shorthand: str
) -> Fraction | Memory:
    for key, value in annotations.items():
        if key == shorthand or key.endswith(suffix):
            parse = manifest.parse_fraction if isinstance(request, Fraction) else manifest.parse_quantity
            return parse(key, value)
    return request
