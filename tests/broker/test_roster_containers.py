"""Holders that name their processes by the numbers of another pid namespace, and what is believed of it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.broker.evidence import Evidence
from jupyter_gpushare.broker.roster import Roster
from jupyter_gpushare.devices.identity import Identity, identify, myself
from jupyter_gpushare.devices.pid_namespace import Found, Inside, own_pid_namespace
from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from tests.devices.containers import FakeProc
from tests.rules.builders import books

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OURS = 4026532178
SERVER, KERNEL = Identity(1, 500), Identity(7, 620)
IN_SERVER, IN_KERNEL = Inside(OURS, *SERVER), Inside(OURS, *KERNEL)
NOTHING: frozenset[Inside] = frozenset()


def searched(roster: Roster, hidden: frozenset[Inside] = NOTHING, **outside: Identity) -> frozenset[str]:
    """One search, which came to a process outside for the *server* or the *kernel*."""
    names = {"server": IN_SERVER, "kernel": IN_KERNEL}
    return roster.found(Found(roster.unfound(), {names[name]: who for name, who in outside.items()}, hidden))


@pytest.fixture(name="parent")
def _parent() -> Identity:
    """A process that lives, is ours, and is not this one."""
    found = identify(os.getppid())
    assert found is not None
    return found


def test_what_is_found_counts_by_its_number_here(tmp_path: Path, parent: Identity) -> None:
    """Until then nothing is known; afterwards the numbers of this side count, also for the next broker."""
    roster = Roster(tmp_path / "roster.json")
    roster.put("a", [SERVER, KERNEL], os.getuid(), OURS)
    assert roster.unfound() == {IN_SERVER, IN_KERNEL}
    assert not roster.has("a")
    assert not searched(roster, server=parent, kernel=myself())
    assert roster.roots() == {parent: "a", myself(): "a"}
    assert not roster.unfound()
    roster.write(roster.roots())
    assert Roster(tmp_path / "roster.json").roots() == roster.roots()


@pytest.mark.parametrize("namespace", [None, own_pid_namespace()])
def test_numbers_of_our_own_namespace_need_no_search(namespace: int | None) -> None:
    """An older holder, which tells no inode, and one in our own namespace are believed as ever."""
    roster = Roster()
    roster.put("a", [myself(), Identity(os.getpid(), 1)], os.getuid(), namespace)
    assert roster.roots() == {myself(): "a"}
    assert not roster.unfound()


def test_numbers_of_another_namespace_are_never_taken_for_ours() -> None:
    """Who tells another namespace means nobody here by them, though somebody here has that number and start."""
    roster = Roster()
    roster.put("a", [myself()], 0, OURS)
    assert not roster.roots()
    searched(roster)
    assert not roster.roots()


def test_a_found_process_of_another_user_is_not_theirs() -> None:
    """Whoever has learnt another user's inode, number and start has nothing of it."""
    roster = Roster()
    roster.put("a", [SERVER], os.getuid() + 1, OURS)
    searched(roster, server=myself())
    assert not roster.roots()


def test_a_found_process_of_another_lease_stays_that_ones(parent: Identity) -> None:
    """The first who named it has it, whichever numbers it was named by."""
    roster = Roster()
    roster.put("host", [myself()])
    roster.put("box", [SERVER], None, OURS)
    searched(roster, server=myself())
    roster.put("later", [KERNEL], None, OURS)
    searched(roster, kernel=parent)
    roster.put("host too", [parent])
    assert roster.roots() == {myself(): "host", parent: "later"}


def test_a_search_is_given_up_and_what_counted_counts_until_then(parent: Identity) -> None:
    """A kernel that ended before it was looked for costs three searches; meanwhile nobody's memory gets foreign."""
    roster = Roster()
    roster.put("a", [SERVER], os.getuid(), OURS)
    searched(roster, server=parent)
    roster.put("a", [KERNEL], os.getuid(), OURS)
    for _ in range(3):
        assert roster.roots() == {parent: "a"}
        assert roster.unfound() == {IN_KERNEL}
        searched(roster)
    assert not roster.roots()
    assert not roster.unfound()


def test_what_is_named_during_a_search_is_for_the_next_one(parent: Identity) -> None:
    """The answer to an older question says nothing about newer ones, and uses none of their searches up."""
    roster = Roster()
    roster.put("a", [SERVER], os.getuid(), OURS)
    older = roster.unfound()
    roster.put("b", [KERNEL], os.getuid(), OURS)
    for _ in range(5):
        roster.found(Found(older, {IN_SERVER: parent}, NOTHING))
    assert roster.roots() == {parent: "a"}
    assert roster.unfound() == {IN_KERNEL}
    searched(roster, kernel=myself())
    assert roster.roots() == {parent: "a", myself(): "b"}


def test_who_moves_out_of_its_container_or_ends_is_looked_for_no_more() -> None:
    """A later word, in numbers of ours or of nobody, and the end of the lease replace what was named before."""
    roster = Roster()
    for last_word in ([myself()], []):
        roster.put("a", [SERVER], os.getuid(), OURS)
        roster.put("a", last_word, os.getuid())
        assert not roster.unfound()
        assert set(roster.roots()) == set(last_word)
    roster.put("a", [], os.getuid(), OURS)
    assert not roster.unfound()
    roster.put("a", [SERVER], os.getuid(), OURS)
    roster.forget("a")
    searched(roster, server=myself())
    assert not roster.roots()
    assert not roster.unfound()


def test_what_may_not_be_looked_into_is_said_once_for_each_lease() -> None:
    """A holder that comes back a hundred times does not fill the log."""
    roster = Roster()
    told: list[str] = []
    for lease in ("a", "a", "b"):
        roster.put(lease, [SERVER], os.getuid(), OURS)
        while roster.unfound():
            told += searched(roster, frozenset({IN_SERVER}))
    assert told == ["a", "b"]
    assert not roster.roots()


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine.create(tmp_path / "machine")
    yield machine
    machine.close()


def test_the_admin_reads_why_a_containers_memory_is_foreign(
    tmp_path: Path, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker says whose processes it may not look into, and what to do."""
    proc = FakeProc(tmp_path / "proc")
    proc.start(8101, 1, began=500, namespace=None)
    roster = Roster()

    async def story() -> None:
        evidence = Evidence(
            SimulatedSource(machine.path), roster, books, print, configuration=Configuration(), proc=str(proc.root)
        )
        roster.put("lab-of-ann", [SERVER], os.getuid(), OURS)
        while roster.unfound():
            await evidence.find()
        await evidence.stop()

    asyncio.run(story())
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert "lab-of-ann" in warnings[0]
    assert "CAP_SYS_PTRACE" in warnings[0]
    assert not roster.roots()
