"""From a process to its owner, in a table of our own and in the real system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices import process_tree
from jupyter_gpushare.devices.attribution import Owner
from jupyter_gpushare.devices.process_tree import ProcessTree, Stat, in_host_pid_namespace, read_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SERVER = Owner("server", "")
KERNEL = Owner("kernel", "a")
TERMINAL = Owner("terminal", "1")
ROOTS = {100: SERVER, 200: KERNEL, 300: TERMINAL}


class Table:
    """A system's processes: pid to parent, session and start."""

    def __init__(self, **processes: tuple[int, int, float]) -> None:
        self.rows = {int(name.removeprefix("p")): Stat(*row) for name, row in processes.items()}
        self.reads = 0

    def __call__(self, pid: int) -> Stat | None:
        self.reads += 1
        return self.rows.get(pid)


@pytest.fixture
def table() -> Table:
    """A server with a kernel, its child, and a terminal."""
    return Table(p1=(0, 1, 0.0), p100=(1, 100, 1.0), p200=(100, 200, 2.0), p300=(100, 300, 2.0), p201=(200, 200, 3.0))


def test_the_innermost_root_owns(table: Table) -> None:
    """A kernel's child belongs to the kernel although the kernel is the server's child."""
    tree = ProcessTree(table)
    assert [tree.owner_of(pid, ROOTS) for pid in (100, 200, 201, 300)] == [SERVER, KERNEL, KERNEL, TERMINAL]


def test_strangers_and_the_dead_have_no_owner(table: Table) -> None:
    """Processes above the server, other users' and ended ones are nobody's of ours."""
    table.rows[400] = Stat(1, 400, 3.0)
    tree = ProcessTree(table)
    assert [tree.owner_of(pid, ROOTS) for pid in (1, 400, 555)] == [None, None, None]


def test_another_child_of_the_server_is_an_owner_of_its_own(table: Table) -> None:
    """What an extension starts beside kernels and terminals is named by the server's direct child."""
    table.rows[500] = Stat(100, 100, 4.0)
    table.rows[501] = Stat(500, 100, 5.0)
    tree = ProcessTree(table)
    assert tree.owner_of(501, ROOTS) == tree.owner_of(500, ROOTS) == Owner("process", "500")


def test_an_owner_stays_when_the_parent_dies(table: Table) -> None:
    """A training run that outlives the cell that started it stays with its notebook, in a session of its own too."""
    table.rows[202] = Stat(201, 202, 4.0)
    tree = ProcessTree(table)
    assert tree.owner_of(202, ROOTS) == KERNEL
    del table.rows[201]
    table.rows[202] = Stat(1, 202, 4.0)
    assert tree.owner_of(202, ROOTS) == KERNEL
    table.rows[202] = Stat(100, 202, 4.0)
    assert tree.owner_of(202, ROOTS) == KERNEL


def test_an_orphan_is_found_by_its_session(table: Table) -> None:
    """`nohup train.py &` loses its parent before anybody looks; it is still in the session of its terminal."""
    table.rows[301] = Stat(1, 300, 4.0)
    table.rows[302] = Stat(100, 300, 4.0)
    tree = ProcessTree(table)
    assert tree.owner_of(301, ROOTS) == TERMINAL
    assert tree.owner_of(302, ROOTS) == TERMINAL


def test_a_reused_number_is_a_new_process(table: Table) -> None:
    """The owner is kept for the process, not for its number."""
    table.rows[202] = Stat(201, 200, 4.0)
    tree = ProcessTree(table)
    assert tree.owner_of(202, ROOTS) == KERNEL
    table.rows[202] = Stat(1, 202, 9.0)
    assert tree.owner_of(202, ROOTS) is None


def test_a_parent_younger_than_its_child_is_another_process(table: Table) -> None:
    """A number given away between two reads does not make a stranger ours."""
    table.rows[601] = Stat(600, 601, 4.0)
    table.rows[600] = Stat(200, 200, 8.0)
    assert ProcessTree(table).owner_of(601, ROOTS) is None


def test_a_kernel_is_known_as_a_kernel_once_it_is_one(table: Table) -> None:
    """A process first seen below the server, before its kernel was registered, moves to the kernel."""
    tree = ProcessTree(table)
    assert tree.owner_of(201, {100: SERVER}) == Owner("process", "200")
    assert tree.owner_of(201, ROOTS) == KERNEL


def test_a_parent_that_ends_while_we_look_does_not_make_a_stranger(table: Table) -> None:
    """One walk that breaks off in the middle is not taken for the truth: the next reading finds the owner."""
    table.rows[203] = Stat(202, 203, 5.0)
    tree = ProcessTree(table)
    assert tree.owner_of(203, ROOTS) is None
    table.rows[203] = Stat(201, 203, 5.0)
    assert tree.owner_of(203, ROOTS) == KERNEL


def test_a_busy_host_costs_one_read_a_stranger(table: Table) -> None:
    """A hundred processes of other users are walked twice, not at every reading, until the session's roots change."""
    table.rows |= {pid: Stat(pid - 1 if pid > 400 else 1, 400, 3.0) for pid in range(400, 500)}
    tree = ProcessTree(table)
    for _ in range(2):
        assert all(tree.owner_of(pid, ROOTS) is None for pid in range(400, 500))
    table.reads = 0
    assert all(tree.owner_of(pid, ROOTS) is None for pid in range(400, 500))
    assert table.reads == 100
    assert tree.owner_of(450, {**ROOTS, 449: KERNEL}) == KERNEL


def test_a_circle_ends() -> None:
    """A system that answers in circles costs a bounded walk, not the server."""
    table = Table(p7=(8, 8, 1.0), p8=(7, 8, 1.0))
    assert ProcessTree(table).owner_of(7, ROOTS) is None
    assert table.reads < 1_000


def test_what_is_remembered_is_bounded(table: Table) -> None:
    """A server that runs for months forgets the dead."""
    tree = ProcessTree(table)
    for pid in range(1_000, 11_000):
        table.rows[pid] = Stat(200, 200, 3.0)
        assert tree.owner_of(pid, ROOTS) == KERNEL
        del table.rows[pid]
    assert len(tree._known) <= process_tree._MOST_REMEMBERED + 1


@pytest.fixture
def grandchild() -> Iterator[tuple[int, int]]:
    """A real child with a child of its own, in a session of their own."""
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '120']); print(p.pid, flush=True); p.wait()"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    yield child.pid, int(child.stdout.readline())
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()


@pytest.mark.parametrize("read", [read_stat, process_tree._read_psutil])
def test_real_processes_are_followed_and_stay_when_orphaned(
    grandchild: tuple[int, int], read: Callable[[int], Stat | None]
) -> None:
    """On the real system, by /proc and by psutil, a grandchild has its owner and keeps it as an orphan."""
    child, below = grandchild
    roots = {os.getpid(): SERVER, child: KERNEL}
    fresh, tree = ProcessTree(read), ProcessTree(read)
    assert tree.owner_of(below, roots) == KERNEL
    os.kill(child, signal.SIGKILL)
    _wait_for(lambda: (stat := read(below)) is not None and stat.parent != child)
    assert tree.owner_of(below, roots) == KERNEL
    assert fresh.owner_of(below, roots) == KERNEL


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the event did not come"
        time.sleep(0.01)


def test_names_with_spaces_and_brackets_do_not_confuse() -> None:
    """A process may call itself anything, `) S 1 (` too; its parent is still read right."""
    code = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b') S 1 1 (', 0, 0, 0);"
        "print('named', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "named\n"
        stat = read_stat(child.pid)
        assert stat is not None
        assert stat.parent == os.getpid()
        assert stat.session == os.getsid(0)
        child.communicate("")


def test_the_pid_namespace_is_told_without_raising() -> None:
    """Whether driver pids are ours is answered on every system."""
    assert in_host_pid_namespace() in {True, False}
