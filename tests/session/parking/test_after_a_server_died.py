"""The next server cleans up after one that died, and says what was lost."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.parking.journal import Journal
from jupyter_gpushare.parking.sequence import Step, Target
from jupyter_gpushare.session.parking.places import gates_directory, remove_left_gates, state_directory

if TYPE_CHECKING:
    from pathlib import Path


def gone() -> Identity:
    """A process that was there a moment ago."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identify(process.pid)
    process.communicate()
    assert identity is not None
    return identity


async def test_what_was_lost_is_said(api: Any, session: Any, until: Any) -> None:
    """A kernel that was parked when its server died is told as a loss, with how much it was."""

    async def notices() -> Any:
        return (await api("session"))["notices"]

    target = Target("old-kernel", (gone(),), {"GPU-0": 6 << 30})
    Journal(session.parking.state_directory, server=gone()).begin(target, Step.PARKED)
    await session.parking._recover()
    # The server's own first look may still be under way, and be the one that finds it.
    (notice,) = await until(notices)
    assert (notice["kind"], "6.4 GB" in notice["message"]["text"]) == ("loss", True), notice
    assert Journal(session.parking.state_directory).inherit() == []


def test_flags_of_servers_that_are_gone_are_removed(tmp_path: Path) -> None:
    """A flag left behind would hold messages of nobody; those of living servers stay."""
    left, own, other = tmp_path / "gates-{}-{}".format(*gone()), gates_directory(tmp_path), tmp_path / "gates-notes"
    for path in (left, own, other):
        path.mkdir()
        (path / "K.closed").touch()
    remove_left_gates(tmp_path)
    assert [path.exists() for path in (left, own, other)] == [False, True, True]


def test_a_place_that_cannot_be_had_keeps_no_server_from_starting(tmp_path: Path) -> None:
    """Where the directory is a file, or belongs to somebody else, another one is taken."""
    file = tmp_path / "file"
    file.touch()
    assert state_directory(str(file / "below"), logging.getLogger("test")).is_dir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert state_directory(str(link), logging.getLogger("test")) not in (link, tmp_path)
