"""CPU time of process trees: the arithmetic, and real processes that work, sleep, fork and end."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.session.idle.cpu_time import CpuWindow, Ticks, read_tree, spent_ticks
from jupyter_gpushare.session.idle.evidence import IN_USE, UNREADABLE, Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P, Q, R = Identity(1, 10), Identity(2, 20), Identity(3, 30)
Q_AGAIN = Identity(2, 99)


@pytest.mark.parametrize(
    ("before", "after", "spent"),
    [
        ({P: Ticks(5, 0)}, {P: Ticks(8, 0)}, 3),
        ({P: Ticks(5, 0)}, {P: Ticks(5, 0), Q: Ticks(4, 1)}, 5),
        ({P: Ticks(5, 0), Q: Ticks(90, 0)}, {P: Ticks(5, 97)}, 7),
        ({P: Ticks(5, 0), Q: Ticks(90, 0)}, {P: Ticks(6, 0)}, 1),
        ({P: Ticks(5, 0), Q: Ticks(0, 0), R: Ticks(50, 0)}, {P: Ticks(5, 60)}, 10),
        ({P: Ticks(5, 0), Q: Ticks(90, 0)}, {P: Ticks(5, 95), Q_AGAIN: Ticks(2, 0)}, 7),
        ({P: Ticks(5, 0)}, {P: Ticks(5, 30)}, 30),
    ],
    ids=["own", "born", "waited for", "nobody waited", "a family ended", "a pid reused", "born and ended between"],
)
def test_ended_children_count_once(before: Any, after: Any, spent: int) -> None:
    """What a child used before it ended is neither lost nor counted again in its parent's sum."""
    assert spent_ticks(before, after) == spent


class Process:
    """A process of a made-up table, which works, forks, and waits for its children or does not."""

    def __init__(self, identity: Identity) -> None:
        self.identity, self.own, self.children = identity, 0, 0


@given(st.lists(st.tuples(st.sampled_from(["work", "fork", "end", "read"]), st.integers(0, 40), st.integers(0, 5))))
def test_a_tree_that_is_waited_for_loses_nothing(history: list[tuple[str, int, int]]) -> None:
    """Over any history in which parents wait for their children, the readings add up to what was really used."""
    root = Process(Identity(1, 1))
    living, used, counted = [root], 0, 0
    before = {root.identity: Ticks(0, 0)}
    for number, (what, ticks, which) in enumerate([*history, ("read", 0, 0)]):
        process = living[which % len(living)]
        if what == "work":
            process.own += ticks
            used += ticks
        elif what == "fork":
            living.append(Process(Identity(number + 2, number + 2)))
        elif what == "end" and process is not root:
            living.remove(process)
            root.children += process.own + process.children
        elif what == "read":
            after = {each.identity: Ticks(each.own, each.children) for each in living}
            counted += spent_ticks(before, after)
            before = after
    assert counted == used


def note(window: CpuWindow, at: float, ticks: int) -> Signal:
    """Give *window* a tree of one process that has used so many ticks of 10 ms."""
    window.note(at, {P: Ticks(ticks, 0)})
    return window.signal


def test_a_burst_is_use_until_it_left_the_window() -> None:
    """60 ticks in a minute are a kernel's own; one more is work, and quiet begins when the minute no longer holds it."""
    window = CpuWindow()
    assert note(window, 0, 0) == Signal(0)
    assert note(window, 30, 60) == Signal(0)
    assert note(window, 40, 61) == IN_USE
    assert note(window, 80, 61) == IN_USE
    assert note(window, 95, 61) == Signal(95)


def test_slow_steady_work_is_use() -> None:
    """A loop that takes 2 % of a core never counts as quiet for as long as a window."""
    window = CpuWindow()
    signals = [note(window, at, at * 2) for at in range(0, 600, 5)]
    assert all(signal == IN_USE for signal in signals[8:])


def test_the_cells_own_work_does_not_count() -> None:
    """After a restart the window knows nothing of before, and cannot be judged until it was read again."""
    window = CpuWindow()
    note(window, 0, 0)
    note(window, 5, 500)
    window.restart()
    assert window.signal == UNREADABLE
    assert note(window, 6, 600) == Signal(6)


def test_a_tree_that_is_gone_is_not_quiet() -> None:
    """Where no process can be read nothing is claimed."""
    window = CpuWindow()
    note(window, 0, 0)
    window.note(5, {})
    assert window.signal == UNREADABLE
    assert read_tree([]) == read_tree([2**22 + 5]) == {}


@pytest.fixture(name="run")
def _run() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start a Python that runs some code and ends when its input does."""
    started: list[subprocess.Popen[bytes]] = []

    def run(code: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield run
    for process in started:
        process.communicate()


def step(process: subprocess.Popen[bytes]) -> None:
    """Let the process go on to its next line of output."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    assert process.stdout.readline()


BURN = "import time\ndef burn(s):\n  end = time.process_time() + s\n  while time.process_time() < end: pass\n"


def test_a_real_process_that_sleeps_is_quiet(run: Any) -> None:
    """A process with a sleeping thread and a sleeping child uses no ticks to speak of."""
    process = run(
        "import subprocess, sys, threading, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print('ready', flush=True); input(); child.communicate()"
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # until the child has done with starting
        before = read_tree([process.pid])
        time.sleep(0.5)
        after = read_tree([process.pid])
        if len(after) == 2 and spent_ticks(before, after) <= 1:
            return
    raise AssertionError("never quiet")


def test_a_real_thread_and_a_real_child_are_seen(run: Any) -> None:
    """Work of a thread, and of a child process that has ended before the next reading, counts."""
    process = run(
        BURN + "import os, threading\n"
        "print('ready', flush=True); input()\n"
        "thread = threading.Thread(target=burn, args=(0.3,)); thread.start(); thread.join()\n"
        "print('threaded', flush=True); input()\n"
        "pid = os.fork()\n"
        "if not pid: burn(0.3); os._exit(0)\n"
        "os.waitpid(pid, 0); print('forked', flush=True); input()"
    )
    first = read_tree([process.pid])
    step(process)
    second = read_tree([process.pid])
    step(process)
    third = read_tree([process.pid])
    assert spent_ticks(first, second) >= 25
    assert 25 <= spent_ticks(second, third) < 60
