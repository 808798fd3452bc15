"""Whose a process is that is named by the numbers of another pid namespace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.devices.pid_namespace import Inside, find, namespace_of, own_pid_namespace
from tests.devices.containers import Container, FakeProc, require_namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOST, OURS, OTHERS = 4026531836, 4026532178, 4026532411
#: Says who it is in its own eyes, and waits for the end of its input.
WHO = """
import json, sys
from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.devices.pid_namespace import own_pid_namespace
print(json.dumps([own_pid_namespace(), *myself()]), flush=True)
sys.stdin.read()
"""
#: Looks for them as another user.
SEEK_AS = """
import json, os, sys
from jupyter_gpushare.devices.pid_namespace import Inside, find
os.setgroups([]); os.setgid(4711); os.setuid(4711)
found = find([Inside(*each) for each in json.loads(sys.argv[1])])
print(json.dumps([len(found.outside), [list(each) for each in found.hidden]]))
"""


@pytest.fixture(name="proc")
def _proc(tmp_path: Path) -> FakeProc:
    """A host with its init, and a container with a server and a kernel."""
    proc = FakeProc(tmp_path / "proc")
    proc.start(1, began=3, namespace=HOST)
    proc.start(7, began=500, namespace=HOST)
    proc.start(8101, 1, began=500, namespace=OURS)
    proc.start(8140, 7, began=620, namespace=OURS)
    return proc


@pytest.fixture(name="container")
def _container() -> Iterator[Callable[[], tuple[Container, Inside]]]:
    """Real ones, and how the program in each sees itself."""
    require_namespaces()
    started: list[Container] = []

    def start() -> tuple[Container, Inside]:
        started.append(Container(WHO))
        return started[-1], Inside(*started[-1].says())

    yield start
    for each in started:
        each.close()


def test_a_process_is_found_by_all_three(proc: FakeProc) -> None:
    """Inode, innermost number and start name the process outside, whatever its number is there."""
    server, kernel = Inside(OURS, 1, 500), Inside(OURS, 7, 620)
    found = find([server, kernel], str(proc.root))
    assert found.outside == {server: Identity(8101, 500), kernel: Identity(8140, 620)}
    assert not found.hidden


@pytest.mark.parametrize(
    "told",
    [
        Inside(OTHERS, 7, 620),
        Inside(OURS, 7, 619),
        Inside(OURS, 8, 620),
        Inside(OURS, 8140, 620),
        Inside(OURS, 7, 500),
        Inside(HOST, 8140, 620),
    ],
)
def test_nobody_is_found_by_two_of_them(proc: FakeProc, told: Inside) -> None:
    """Another namespace, start or number, the number outside, and the host's own process 7 are somebody else."""
    assert not find([told], str(proc.root)).outside


def test_two_containers_with_the_same_numbers_are_two(proc: FakeProc) -> None:
    """Everybody's server is process 1, and those of one moment began together: the inode tells them apart."""
    proc.start(8102, 1, began=500, namespace=OTHERS)
    mine, theirs = Inside(OURS, 1, 500), Inside(OTHERS, 1, 500)
    assert find([mine, theirs], str(proc.root)).outside == {mine: Identity(8101, 500), theirs: Identity(8102, 500)}


def test_a_container_in_a_container_is_known_by_its_innermost_number(proc: FakeProc) -> None:
    """The number in between is no name: it belongs to another namespace than the inode."""
    proc.start(8200, 30, 2, began=700, namespace=OTHERS)
    innermost = Inside(OTHERS, 2, 700)
    assert find([innermost], str(proc.root)).outside == {innermost: Identity(8200, 700)}
    assert not find([Inside(OURS, 30, 700), Inside(OTHERS, 30, 700)], str(proc.root)).outside


def test_what_has_ended_is_nobody(proc: FakeProc) -> None:
    """A zombie holds no GPU; a number without files has ended while it was looked at."""
    proc.start(8300, 9, began=800, namespace=OURS, state="Z")
    (proc.root / "8301").mkdir()
    found = find([Inside(OURS, 9, 800)], str(proc.root))
    assert not found.outside
    assert not found.hidden


def test_a_number_that_becomes_another_process_meanwhile_is_neither(proc: FakeProc) -> None:
    """Half of what was read is of the process that ended, half of the next one: together they are nobody."""
    directory = proc.root / "8140"
    status = (directory / "status").read_bytes()
    (directory / "status").unlink()
    os.mkfifo(directory / "status")

    def be_another() -> None:
        with (directory / "status").open("wb") as pipe:  # opens when it is read, so after the first look at the start
            (directory / "stat").write_text((directory / "stat").read_text().replace(" 620 ", " 990 "))
            pipe.write(status)

    meanwhile = Thread(target=be_another, daemon=True)
    meanwhile.start()
    found = find([Inside(OURS, 7, 620), Inside(OURS, 7, 990)], str(proc.root))
    meanwhile.join(60)
    assert not meanwhile.is_alive()
    assert not found.outside


def test_who_may_not_be_looked_into_is_not_found_but_said(proc: FakeProc) -> None:
    """Number and start may by chance be another container's: without the inode nobody is taken for anybody."""
    proc.start(8400, 40, began=900, namespace=None)
    closed, absent = Inside(OURS, 40, 900), Inside(OURS, 41, 900)
    found = find([closed, absent], str(proc.root))
    assert not found.outside
    assert found.hidden == {closed}


def test_a_system_without_proc_has_nobody(tmp_path: Path) -> None:
    """Elsewhere nothing is found, and nothing fails."""
    nowhere = str(tmp_path / "nowhere")
    assert not find([Inside(OURS, 1, 1)], nowhere).outside
    assert own_pid_namespace(nowhere) is None


def test_ones_own_namespace_is_told_only_where_proc_is_its_own(tmp_path: Path) -> None:
    """Under a /proc of another namespace our number is somebody else's: then no inode is told."""
    proc = FakeProc(tmp_path / "proc")
    proc.start(os.getpid(), began=5, namespace=OURS)
    own = proc.root / "self"
    own.symlink_to(str(os.getpid()))
    assert own_pid_namespace(str(proc.root)) == OURS
    own.unlink()
    own.symlink_to(str(os.getpid() + 1))
    assert own_pid_namespace(str(proc.root)) is None


def test_we_find_ourselves() -> None:
    """On a real system without any container the same rule gives the same process."""
    space, me = own_pid_namespace(), identify(os.getpid())
    assert space is not None
    assert me is not None
    assert namespace_of(me.pid) == space
    inside = Inside(space, me.pid, me.start)
    assert find([inside]).outside == {inside: me}


def test_real_containers_are_told_apart(container: Callable[[], tuple[Container, Inside]]) -> None:
    """Two real namespaces: in each a process 1, found under its own number outside, and neither for the other."""
    (one, in_one), (other, in_other) = container(), container()
    assert in_one.pid == in_other.pid == 1
    assert in_one.namespace not in (in_other.namespace, own_pid_namespace())
    crossed = Inside(in_one.namespace, 1, in_other.start)
    found = find([in_one, in_other, crossed])
    assert found.outside == {in_one: identify(one.pids()[0]), in_other: identify(other.pids()[0])}
    assert not found.hidden


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_real_container_is_not_found_but_said(container: Callable[[], tuple[Container, Inside]]) -> None:
    """Whoever may not trace a process cannot read its namespace: it stays nobody's, and that is known."""
    _, told = container()
    done = subprocess.run(
        [sys.executable, "-c", SEEK_AS, json.dumps([told])], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == [0, [list(told)]]
