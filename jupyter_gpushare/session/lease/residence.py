"""Whether anything of this session is on a device now, from the newest reading and from what was moved since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.parking.record import Parking

__all__ = ["Residence", "residence_of"]


@dataclass(frozen=True, slots=True)
class Residence:
    """Who holds a device.

    Attributes:
        kernels: ids of those whose state is on one.
        others: names of terminals and processes that hold one.
        is_known: whether the devices could be read at all.
        parked: bytes of all kernels that are in host memory.
        moving: ids of kernels that are on their way.
        wanted: ids of kernels that are parked and wanted back.
    """

    kernels: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()
    is_known: bool = False
    parked: int = 0
    moving: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()

    @property
    def holds(self) -> bool:
        """Whether anything is, or may be, on a device."""
        return bool(self.kernels or self.others or self.moving)


def residence_of(sample: Sample | None, parkings: Iterable[Parking], living: Iterable[str]) -> Residence:
    """Put the two together: a kernel that was parked after the reading is away, one that came back after it is here.

    Where the driver does not say which process holds what, every kernel that is not parked may hold something.
    """
    records = {each.kernel_id: each for each in parkings}
    away = {key for key, each in records.items() if each.parked is not None}
    here: set[str] = set()
    others: list[str] = []
    is_known = sample is not None and sample.attributed.trusted
    if sample is not None and is_known:
        for use in sample.attributed.owners:
            if use.owner.kind == "kernel":
                here.add(use.owner.key)
            else:
                others.append(f"{use.owner.kind} {use.owner.key}".strip())
        here |= {key for key, each in records.items() if each.resumed_at is not None and each.resumed_at > sample.at}
    elif sample is not None:
        here = set(living)
    return Residence(
        kernels=frozenset(here - away),
        others=tuple(others),
        is_known=sample is not None,
        parked=sum(each.memory or 0 for each in records.values() if each.parked is not None),
        moving=frozenset(key for key, each in records.items() if each.is_moving),
        wanted=frozenset(key for key in away if records[key].target == "running"),
    )
