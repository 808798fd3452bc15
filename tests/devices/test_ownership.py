"""What is remembered of the process tables between two readings, and when it is forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.attribution import Owner
from jupyter_gpushare.devices.ownership import Ownership

if TYPE_CHECKING:
    from collections.abc import Collection

KERNEL = Owner("kernel", "k")
ROOTS = {7: KERNEL}


@dataclass
class Tables:
    """Process tables that a test sets: who owns what, who has a device open, and how often each was asked."""

    owners: dict[int, Owner] = field(default_factory=lambda: dict(ROOTS))
    open: set[int] = field(default_factory=lambda: {7})
    asked: int = 0
    now: float = 100.0

    def owner_of(self, pid: int) -> Owner | None:
        self.asked += 1
        return self.owners.get(pid)

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        self.asked += 1
        return frozenset(pids) & self.open

    def clock(self) -> float:
        return self.now


def looked_up(ownership: Ownership, listed: Collection[int], roots: dict[int, Owner] = ROOTS) -> dict[int, Owner]:
    """The owners of the listed processes that have a device open."""
    ownership.begin(frozenset(listed), roots)
    confirmed = ownership.has_open(listed)
    return {pid: owner for pid in listed if pid in confirmed and (owner := ownership.owner_of(pid)) is not None}


def test_the_tables_are_not_asked_again_for_the_same_list() -> None:
    """A reading every second must not walk the process tables every second."""
    tables = Tables()
    ownership = Ownership(tables.owner_of, tables.has_open, tables.clock)
    assert looked_up(ownership, [7]) == {7: KERNEL}
    before = tables.asked
    assert looked_up(ownership, [7]) == {7: KERNEL}
    assert tables.asked == before


def test_another_list_or_another_kernel_starts_over() -> None:
    """A process id that left the list and came back may be another process; a new kernel may own it."""
    tables = Tables()
    ownership = Ownership(tables.owner_of, tables.has_open, tables.clock)
    looked_up(ownership, [7])
    looked_up(ownership, [])
    tables.owners[7] = other = Owner("kernel", "other")
    assert looked_up(ownership, [7]) == {7: other}
    tables.owners[7] = KERNEL
    assert looked_up(ownership, [7], {7: KERNEL, 9: other}) == {7: KERNEL}


def test_what_was_learned_holds_for_ten_seconds() -> None:
    """Even with an unchanged list nothing is believed for ever: a number can be used again."""
    tables = Tables()
    ownership = Ownership(tables.owner_of, tables.has_open, tables.clock)
    looked_up(ownership, [7])
    tables.open.clear()
    tables.now += 9
    assert looked_up(ownership, [7]) == {7: KERNEL}
    tables.now += 2
    assert looked_up(ownership, [7]) == {}


def test_a_process_that_opens_a_device_is_seen_at_once() -> None:
    """That nobody had a device open is not remembered: it may be open a moment later."""
    tables = Tables(open=set())
    ownership = Ownership(tables.owner_of, tables.has_open, tables.clock)
    assert looked_up(ownership, [7]) == {}
    tables.open.add(7)
    assert looked_up(ownership, [7]) == {7: KERNEL}
