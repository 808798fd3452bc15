"""Host memory: what is promised to parked kernels fits one budget, whichever server promises."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.parking.host_memory import Booking, HostMemory
from jupyter_gpushare.rules.message import Message
from tests.parking.stage import GB, ROOT, host_memory, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[HostMemory, HostMemory]]:
    """Two servers' views of one budget of 10 GB."""
    servers = host_memory(tmp_path, 10 * GB), host_memory(tmp_path, 10 * GB)
    yield servers
    for server in servers:
        server.close()


def test_servers_share_one_budget(pair: tuple[HostMemory, HostMemory]) -> None:
    """What one server booked, another cannot; what it gives back, another can."""
    ours, theirs = pair
    assert ours.book("a", 6 * GB) == Booking("a", 6 * GB)
    refusal = theirs.book("b", 5 * GB)
    assert isinstance(refusal, Message)
    assert refusal.code == "NO_HOST_MEMORY"
    assert "4.0 GB" in refusal.text
    assert isinstance(theirs.book("b", 4 * GB), Booking)
    assert ours.booked() == theirs.booked() == 10 * GB
    ours.give_back("a")
    assert theirs.booked() == 4 * GB
    ours.give_back("never booked")


def test_booking_again_replaces(pair: tuple[HostMemory, HostMemory]) -> None:
    """A kernel that parks again is not counted twice."""
    ours, _ = pair
    ours.book("a", 6 * GB)
    assert isinstance(ours.book("a", 9 * GB), Booking)
    assert ours.booked() == 9 * GB


@given(seed=st.integers(), sizes=st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_the_budget_holds_for_any_history(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sizes: list[int]
) -> None:
    """I6: whatever several servers book and give back, the sum never exceeds the budget and is never misjudged."""
    directory, choice = tmp_path_factory.mktemp("ledger"), random.Random(seed)  # noqa: S311  # no secret
    servers = [host_memory(directory, 10) for _ in range(3)]
    books: dict[tuple[int, str], int] = {}
    for size in sizes:
        which, kernel = choice.randrange(3), choice.choice("ab")
        if choice.random() < 0.3:
            servers[which].give_back(kernel)
            books.pop((which, kernel), None)
            continue
        fits = size + sum(booked for key, booked in books.items() if key != (which, kernel)) <= 10
        assert isinstance(servers[which].book(kernel, size), Booking) is fits
        if fits:
            books[which, kernel] = size
        assert servers[0].booked() == sum(books.values()) <= 10
    for server in servers:
        server.close()


def test_bookings_race_without_overbooking(tmp_path: Path) -> None:
    """Adding up and booking are one step: of twenty that want half the budget at once, exactly two get it."""
    servers = [host_memory(tmp_path, 10) for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        outcomes = list(pool.map(lambda server: server.book("kernel", 5), servers))
    assert sum(isinstance(outcome, Booking) for outcome in outcomes) == 2
    for server in servers:
        server.close()


def test_a_dead_servers_bookings_do_not_count(tmp_path: Path) -> None:
    """A server that was killed gives its bookings back by dying, and its file is removed."""
    program = (
        "from pathlib import Path; from tests.parking.stage import host_memory\n"
        f"memory = host_memory(Path({str(tmp_path)!r}), 10); memory.book('a', 9); print(flush=True); input()"
    )
    ours = host_memory(tmp_path, 10)
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        assert ours.booked() == 9
        server.kill()
    wait_until(lambda: ours.booked() == 0)
    assert isinstance(ours.book("b", 10), Booking)
    assert len(list(tmp_path.glob("*.json"))) == 1
    ours.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": {"size": -5}}', b'{"a": {"size": "x"}}', b"\xff\xfe"])
def test_somebody_elses_nonsense_is_not_counted(tmp_path: Path, content: bytes) -> None:
    """A file that another user wrote can neither break bookings nor make room that is not there."""
    import fcntl

    with (tmp_path / "host-memory-x.json").open("wb") as file:
        file.write(content)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        ours = host_memory(tmp_path, 10)
        assert isinstance(ours.book("a", 10), Booking)
        assert isinstance(ours.book("b", 1), Message)
        ours.close()


def test_a_pipe_among_the_bookings_does_not_hang(tmp_path: Path) -> None:
    """Opening a named pipe in the ordinary way would wait for ever."""
    os.mkfifo(tmp_path / "host-memory-x.json")
    ours = host_memory(tmp_path, 10)
    assert ours.booked() == 0


def test_memory_that_is_still_to_come_counts_against_the_host(tmp_path: Path) -> None:
    """Two parks that begin at once must not both count on the same free memory; what has landed is not counted twice."""
    left = [10 * GB]
    ours = HostMemory(tmp_path, 100 * GB, margin=GB, available=lambda: left[0], headroom=lambda _: None)
    assert isinstance(ours.book("a", 6 * GB), Booking)
    refusal = ours.book("b", 4 * GB)
    assert isinstance(refusal, Message)
    assert "5.0 GB of host memory are needed" in refusal.text
    left[0] = 4 * GB
    ours.landed("a")
    assert isinstance(ours.book("b", 3 * GB), Booking)
    ours.close()


def test_the_kernels_own_limit_counts(tmp_path: Path) -> None:
    """The copy lands in the kernel, so a container's limit refuses what the host could hold."""
    asked: list[int] = []

    def headroom(pid: int) -> int | None:
        asked.append(pid)
        return 3 * GB

    ours = HostMemory(tmp_path, 100 * GB, margin=GB, available=lambda: None, headroom=headroom)
    refusal = ours.book("a", 3 * GB, [myself()])
    assert isinstance(refusal, Message)
    assert "memory limit leaves 3.0 GB" in refusal.text
    assert asked == [os.getpid()]
    assert isinstance(ours.book("a", 2 * GB, [myself()]), Booking)
    ours.close()
