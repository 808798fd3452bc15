"""Parked jobs that wait for their devices: looked at only when there is room, or when their project's share grows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

__all__ = ["Group", "Ids", "Resting"]

#: Claims of one project that are alike in all that decides whether they fit: if the first does not, none does.
#: Its last part is what they have, which for all but parked jobs is nothing.
Group = tuple[Any, ...]
#: When they were submitted, and their ids, in order.
Ids = list[tuple[float, str]]


@dataclass(slots=True)
class Resting:
    """Of one project: groups that were looked at, wait for their devices, and know it."""

    groups: dict[Group, Ids] = field(default_factory=dict)
    _on: dict[str, set[Group]] = field(default_factory=dict)
    _costs: Counter[int] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def least(self) -> int:
        """What the cheapest of them would have, in millionths of a GPU."""
        return min(self._costs)

    def add(self, group: Group, ids: Ids) -> None:
        """Let these rest."""
        if group not in self.groups:
            device, cost = _device(group), _cost(group)
            self.groups[group] = ids
            self._on.setdefault(device, set()).add(group)
            self._costs[cost] += 1

    def discard(self, group: Group) -> None:
        """Something about these is new."""
        if self.groups.pop(group, None) is None:
            return
        device, cost = _device(group), _cost(group)
        self._on[device].discard(group)
        if not self._on[device]:
            del self._on[device]
        self._costs[cost] -= 1
        if not self._costs[cost]:
            del self._costs[cost]

    def on(self, devices: AbstractSet[str]) -> Iterator[Group]:
        """Those whose first device is one of *devices*."""
        for uuid in self._on.keys() & devices:
            yield from self._on[uuid]


def _device(group: Group) -> str:
    device: str = group[-1][0].device
    return device


def _cost(group: Group) -> int:
    return sum(grant.amount.millionths for grant in group[-1])
