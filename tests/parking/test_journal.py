"""The journal: what a server was doing when it died, and to whom that is left."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.devices.identity import Identity, myself
from jupyter_gpushare.parking.journal import Journal
from jupyter_gpushare.parking.sequence import Step, Target

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DEAD = Identity(2**22, 1)
ONE = Identity(10, 100)
identities = st.builds(Identity, st.integers(1, 2**22), st.integers(0, 2**50))
memories = st.dictionaries(st.text(max_size=9), st.integers(0, 2**50), max_size=3)
targets = st.builds(
    Target,
    kernel_id=st.text(st.characters(codec="utf-8"), max_size=9),
    processes=st.lists(identities, max_size=3).map(tuple),
    memory=memories,
    parts=st.dictionaries(identities, memories, max_size=2),
)


@given(target=targets, step=st.sampled_from(Step), frozen=st.lists(identities, max_size=2).map(tuple))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, target: Target, step: Step, frozen: tuple[Identity, ...]
) -> None:
    """Every part of a target comes back as it was, and the last step wins."""
    journal = Journal(tmp_path_factory.mktemp("journal"))
    journal.begin(target, Step.BOOK)
    journal.begin(target, step, frozen)
    (entry,) = journal.entries()
    assert (entry.target, entry.step, entry.frozen, entry.server) == (target, step, frozen, myself())
    journal.forget(target.kernel_id)
    assert journal.entries() == []


def test_only_the_dead_are_inherited_and_only_once(tmp_path: Path) -> None:
    """A living server's kernels are its own; a dead one's go to whoever asks first, and on to the next if that dies."""
    heir, other = Journal(tmp_path), Journal(tmp_path, Identity(1, 0))
    heir.begin(Target("own", (ONE,), {}), Step.PARKED)
    Journal(tmp_path, DEAD).begin(Target("left", (ONE,), {"GPU0": 1}), Step.RESTORE)
    assert [entry.target.kernel_id for entry in heir.inherit()] == ["left"]
    assert other.inherit() == []
    assert {entry.target.kernel_id for entry in heir.entries()} == {"own", "left"}
    assert heir.inherit() == []


def test_rows_of_another_place_are_left_alone(tmp_path: Path) -> None:
    """Process ids of another host, container or start of the system mean nothing here: homes are shared."""
    journal = Journal(tmp_path)
    Journal(tmp_path, DEAD).begin(Target("elsewhere", (ONE,), {}), Step.PARKED)
    with closing(sqlite3.connect(tmp_path / "parking.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE entry SET place = 'another host'")
        assert journal.inherit() == []
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (1,)
        connection.execute("UPDATE entry SET changed = 0")
        Journal(tmp_path)
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (0,)


def test_a_row_that_nobody_understands_is_dropped(tmp_path: Path) -> None:
    """A row of another version, or a broken one, does not keep a server from starting."""
    journal = Journal(tmp_path)
    Journal(tmp_path, DEAD).begin(Target("broken", (ONE,), {}), Step.PARKED)
    with closing(sqlite3.connect(tmp_path / "parking.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE entry SET body = X'00'")
    assert journal.inherit() == []
    assert journal.entries() == []


def test_servers_write_at_the_same_time(tmp_path: Path) -> None:
    """Many servers share one file, and none loses a row or fails."""
    journals = [Journal(tmp_path, Identity(2**22 + number, 1)) for number in range(8)]

    def write(journal: Journal) -> None:
        for number in range(10):
            journal.begin(Target(f"kernel {number}", (ONE,), {}), Step.LOCK)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, journals))
    assert len(Journal(tmp_path).inherit()) == 80
