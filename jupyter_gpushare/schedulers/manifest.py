"""Reading pod manifests that anybody may have written: every value is checked, and errors name the field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.quantity import Fraction, Memory, QuantityError
from jupyter_gpushare.schedulers.pod_changes import containers_of
from jupyter_gpushare.schedulers.scheduler import BookingError
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "annotations_of",
    "booked_share",
    "limits_of",
    "node_selector_of",
    "parse_count",
    "parse_fraction",
    "parse_quantity",
]

_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_QUANTITY: Final = re.compile(r"([0-9]{1,18})(Ki|Mi|Gi|Ti|k|M|G|T|)", re.ASCII)
_UNIT_BYTES: Final = {
    "": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
}  # fmt: skip


def annotations_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The pod's annotations, empty when it has none."""
    return (pod.get("metadata") or {}).get("annotations") or {}


def node_selector_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The pod's node selector, empty when it has none."""
    return (pod.get("spec") or {}).get("nodeSelector") or {}


def limits_of(pod: Mapping[str, Any], resource: str) -> Mapping[str, Any]:
    """The limits of the one container that has *resource* among them, empty when there is none.

    Raises:
        BookingError: several containers have it, so that no one share describes the pod.
    """
    found = [limits for limits in map(_limits, containers_of(pod)) if resource in limits]
    if len(found) > 1:
        raise BookingError(f"resources.limits[{resource}]", f"{len(found)} containers", "one container")
    return found[0] if found else {}


def booked_share(request: Fraction | Memory, limit: Fraction | Memory, count: int, kind: str) -> Share:
    """The share of these parts.

    Raises:
        BookingError: they do not fit together.
    """
    try:
        return Share(request, limit, count, kind)
    except ShareError as error:
        raise BookingError(error.part, error.problem, f"a share such as {error.example}") from None


def parse_count(field: str, value: object) -> int:
    """Read a whole number above zero."""
    if not _COUNT.fullmatch(str(value)):
        raise BookingError(field, value, "a whole number above zero")
    return int(str(value))


def parse_fraction(field: str, value: object) -> Fraction:
    """Read a decimal between zero and one, both excluded."""
    try:
        fraction = Fraction.parse(str(value))
    except QuantityError:
        raise BookingError(field, value, "a decimal such as 0.5") from None
    if not Fraction.ZERO < fraction < Fraction.ONE:
        raise BookingError(field, value, "between 0 and 1")
    return fraction


def parse_quantity(field: str, value: object) -> Memory:
    """Read a Kubernetes quantity of memory, such as ``4Gi``."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None or not int(match[1]):
        raise BookingError(field, value, "an amount of memory such as 4Gi")
    return Memory(int(match[1]) * _UNIT_BYTES[match[2]])


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("limits") or {}
