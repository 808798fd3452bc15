"""The one interface to a cluster's scheduler: what it can book, how a pod asks for it, what a pod has booked.

We never place pods: the scheduler does. `Scheduler.render` and `Scheduler.read` are inverse for every share
that a scheduler can express; any other is refused with a reason and the nearest share that it can.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.schedulers.pod_changes import PodChanges
    from jupyter_gpushare.share import Share

__all__ = [
    "WHOLE_DEVICE",
    "Adjustment",
    "BookingError",
    "Compute",
    "HandBack",
    "Isolation",
    "MemoryIsolation",
    "NotExpressible",
    "Reason",
    "Scheduler",
    "ShareNotExpressibleError",
]

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


class MemoryIsolation(StrEnum):
    """What keeps a holder inside its memory (DESIGN 8)."""

    NONE = "none"
    PREVENTIVE = "preventive"
    HARDWARE = "hardware"


class Compute(StrEnum):
    """Whether a share's part of the compute is enforced, or shared in the driver's equal time slices."""

    SHARED = "shared"
    ENFORCED = "enforced"


@dataclass(frozen=True, slots=True)
class Isolation:
    """How well a share is kept apart from its neighbours on the device."""

    memory: MemoryIsolation
    compute: Compute


#: Of a device that nobody else uses.
WHOLE_DEVICE: Final = Isolation(MemoryIsolation.HARDWARE, Compute.ENFORCED)


class HandBack(StrEnum):
    """How a running pod's share can go back to the scheduler (DESIGN 10)."""

    STOP = "stop"
    SMALL_REQUEST = "small_request"


class Reason(StrEnum):
    """Why a scheduler cannot book a share."""

    NO_BURST = "NO_BURST"
    NO_FRACTION = "NO_FRACTION"
    NO_MEMORY_AMOUNT = "NO_MEMORY_AMOUNT"
    NO_SUCH_FRACTION = "NO_SUCH_FRACTION"
    ONE_DEVICE_ONLY = "ONE_DEVICE_ONLY"
    TOO_FINE = "TOO_FINE"
    LIMIT_TOO_HIGH = "LIMIT_TOO_HIGH"
    UNKNOWN_KIND = "UNKNOWN_KIND"

    def message(self, **values: str) -> Message:
        """The sentence for people."""
        return Message(self.value, _SENTENCES[self], values)


_SENTENCES: Final[dict[Reason, str]] = {
    Reason.NO_BURST: "{scheduler} books one fixed amount: there is no limit above the request.",
    Reason.NO_FRACTION: "{scheduler} books whole GPUs only.",
    Reason.NO_MEMORY_AMOUNT: "{scheduler} cannot book an amount of memory.",
    Reason.NO_SUCH_FRACTION: "{scheduler} is set up for these parts of a GPU only: {fractions}.",
    Reason.ONE_DEVICE_ONLY: "{scheduler} cannot give parts of several GPUs to one pod.",
    Reason.TOO_FINE: "{scheduler} books the {part} in steps of {step}.",
    Reason.LIMIT_TOO_HIGH: "{scheduler} needs a limit of at most {most} of a GPU.",
    Reason.UNKNOWN_KIND: "{scheduler} is not set up for GPUs of kind {kind}; it knows: {kinds}.",
}


@dataclass(frozen=True, slots=True)
class NotExpressible:
    """Why a share cannot be booked, and the *nearest* that can: it covers the request wherever possible."""

    reason: Message
    nearest: Share


class ShareNotExpressibleError(ValueError):
    """A share was to be rendered for a scheduler that cannot book it."""

    def __init__(self, share: Share, refusal: NotExpressible) -> None:
        super().__init__(f"share {share}: {refusal.reason.text} The nearest share is {refusal.nearest}.")
        self.share = share
        self.refusal = refusal


class BookingError(ValueError):
    """A pod books a GPU in a way that is no share. Names the *field* of the pod."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field}: {str(value)[:80]!r} is not {expected}")
        self.field = field


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One step from a share that cannot be booked towards one that can."""

    reason: Message
    share: Share


class Scheduler(ABC):
    """One cluster scheduler, as one cluster is set up.

    Args:
        kinds: what each kind of GPU is called on the cluster's nodes. A share of another kind is refused:
            the pod would wait forever.
    """

    name: ClassVar[str]

    def __init__(self, *, kinds: Mapping[str, str] | None = None) -> None:
        self.kinds: Final = dict(kinds or {})
        if len(set(self.kinds.values())) != len(self.kinds):
            raise ValueError("kinds: two kinds have the same name on the nodes; give each its own")

    @abstractmethod
    def isolation(self, share: Share) -> Isolation:
        """How well *share* is kept apart from its neighbours."""

    @abstractmethod
    def hand_back(self, share: Share) -> HandBack:
        """How a pod with *share* can hand it back."""

    @abstractmethod
    def read(self, pod: Mapping[str, Any]) -> Share | None:
        """The share that *pod* has booked with this scheduler, None when it books no GPU there.

        Raises:
            BookingError: it books a GPU, but what it says is no share.
        """

    @abstractmethod
    def _rules(self) -> Sequence[Callable[[Share], Adjustment | None]]:
        """What a share must keep, each rule given what those before it left."""

    @abstractmethod
    def _render(self, share: Share, *, project: str, priority: str, container: str) -> PodChanges:
        """Render a share that is known to be expressible."""

    def can_express(self, share: Share) -> NotExpressible | None:
        """Why this scheduler cannot book *share* exactly; None when it can."""
        reason, nearest = None, share
        for rule in (self._check_kind, *self._rules()):
            step = rule(nearest)
            if step:
                reason, nearest = reason or step.reason, step.share
        return NotExpressible(reason, nearest) if reason else None

    def render(self, share: Share, *, project: str = "", priority: str = "", container: str = "notebook") -> PodChanges:
        """What a pod needs so that this scheduler books *share* for *container*.

        Args:
            share: what to book.
            project: whose quota it counts against, where the scheduler has queues; its own default when empty.
            priority: the priority class; the scheduler's default when empty.
            container: the name of the container that gets the GPU.

        Raises:
            ShareNotExpressibleError: with the reason and the nearest share.
            ValueError: *project* or *priority* is no Kubernetes name.
        """
        refusal = self.can_express(share)
        if refusal:
            raise ShareNotExpressibleError(share, refusal)
        for field, value in (("project", project), ("priority", priority)):
            if value and not _LABEL_VALUE.fullmatch(value):
                raise ValueError(f"{field}: {value[:80]!r} is no Kubernetes name; write for example team-a")
        return self._render(share, project=project, priority=priority, container=container)

    def _check_kind(self, share: Share) -> Adjustment | None:
        if not share.kind or share.kind in self.kinds:
            return None
        known = ", ".join(sorted(self.kinds)) or "none"
        reason = Reason.UNKNOWN_KIND.message(scheduler=self.name, kind=share.kind, kinds=known)
        return Adjustment(reason, replace(share, kind=""))

    def _check_no_burst(self, share: Share) -> Adjustment | None:
        if not share.bursts:
            return None
        return Adjustment(Reason.NO_BURST.message(scheduler=self.name), replace(share, limit=share.request))

    def _too_fine(self, part: str, step: str, share: Share) -> Adjustment:
        return Adjustment(Reason.TOO_FINE.message(scheduler=self.name, part=part, step=step), share)
