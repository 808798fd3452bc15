"""What is gathered about processes and the host, from the real /proc and from hostile ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.devices.identity import Identity, identify, myself
from jupyter_gpushare.parking.gather import gather_host, gather_process
from jupyter_gpushare.parking.probe import background_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOMEBODY = Identity(77, 5)
DEADLINE_S = 30.0


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that waits for its input to end."""
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + DEADLINE_S
        while gather_process(identity_of(process)).state != "S":
            assert time.monotonic() < deadline, "it never waited for its input"
            time.sleep(0.01)
        yield process
        process.kill()


def identity_of(process: subprocess.Popen[bytes]) -> Identity:
    """Who *process* is."""
    found = identify(process.pid)
    assert found is not None
    return found


def fake_proc(root: Path, **files: str | bytes) -> str:
    """A /proc with process 77 alone, healthy but for *files*."""
    folder = root / "77"
    (folder / "task" / "77").mkdir(parents=True)
    (folder / "root").mkdir()
    content: dict[str, str | bytes] = {
        "status": "Name:\tpython3\nState:\tS (sleeping)\nTgid:\t77\nUid:\t1000\t1001\t1000\t1000\n",
        "maps": "7f00-7f01 rw-s 0 00:05 1 /dev/nvidia-uvm\n7f02-7f03 rw-p 0 00:00 0\n",
        "environ": "HOME=/home/me\0",
        "cgroup": "",
        "task/77/comm": "python3\n",
    }
    for name, text in {**content, **files}.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(root)


def test_a_real_process_is_read_whole(child: subprocess.Popen[bytes]) -> None:
    """A process of ours is found, sleeping, ours, with its threads' names and nothing unreadable."""
    me = identity_of(child)
    facts = gather_process(me)
    assert (facts.found, facts.state, facts.uid, facts.is_leader) == (me, "S", os.geteuid(), True)
    assert facts.unreadable == ""
    assert any(name.startswith("python") for name in facts.threads)
    assert facts.uvm_mappings == 0


def test_a_stopped_process_shows(child: subprocess.Popen[bytes]) -> None:
    """A process that was stopped is seen as stopped, since the driver would wait for it for ever."""
    me = identity_of(child)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    try:
        assert gather_process(me).state == "T"
    finally:
        os.kill(child.pid, signal.SIGCONT)


def test_a_zombie_and_a_process_that_is_gone_show(child: subprocess.Popen[bytes]) -> None:
    """A process that ended is found neither before nor after its parent took notice."""
    me = identity_of(child)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = gather_process(me)
    assert (zombie.found, zombie.state) == (None, "Z")
    child.wait()
    gone = gather_process(me)
    assert (gone.found, gone.state, gone.uid) == (None, "", None)


def test_a_reused_process_id_shows(child: subprocess.Popen[bytes]) -> None:
    """Another process with the same id is told apart by its start time."""
    me = identity_of(child)
    meant = me._replace(start=me.start - 1)
    assert gather_process(meant).found == me != meant


def test_gathering_is_quick() -> None:
    """A look costs milliseconds, so that the sidebar can have it for every kernel; the bound is generous."""
    gather_process(myself())
    took = []
    for _ in range(5):
        began = time.perf_counter()
        gather_process(myself())
        took.append(time.perf_counter() - began)
    assert min(took) < 0.05, took


def test_the_effective_user_counts(tmp_path: Path) -> None:
    """A program that changed its user is the user's that it works as."""
    facts = gather_process(SOMEBODY, proc=fake_proc(tmp_path), who=lambda _: SOMEBODY)
    assert (facts.uid, facts.uvm_mappings, facts.features) == (1001, 1, frozenset())


def test_mappings_of_managed_memory_are_counted(tmp_path: Path) -> None:
    """Only the driver's own file counts, also when it was deleted, and not one that is called alike."""
    maps = (
        "7f00-7f01 rw-s 0 00:05 1 /dev/nvidia-uvm\n"
        "7f02-7f03 rw-s 0 00:05 1 /dev/nvidia-uvm (deleted)\n"
        "7f04-7f05 rw-s 0 00:05 1 /dev/nvidia-uvm-tools\n"
        "7f06-7f07 rw-s 0 00:05 1 /home/me/dev/nvidia-uvm\n"
        "7f08-7f09 rw-s 0 00:05 1 /dev/shm/torch_77_1_0 (deleted)\n"
    )
    facts = gather_process(SOMEBODY, proc=fake_proc(tmp_path, maps=maps), who=lambda _: SOMEBODY)
    assert facts.uvm_mappings == 2
    assert facts.features == {"torch_shared"}


@pytest.mark.parametrize(
    ("environ", "folder", "is_client"),
    [
        ("", "tmp/nvidia-mps", True),
        ("", "elsewhere", False),
        ("A=1\0CUDA_MPS_PIPE_DIRECTORY=/run/mps\0", "run/mps", True),
        ("CUDA_MPS_PIPE_DIRECTORY=/run/mps\0", "tmp/nvidia-mps", False),
        ("CUDA_MPS_PIPE_DIRECTORY=mps\0", "elsewhere", True),
    ],
)
def test_a_client_of_mps_is_known_by_the_daemon_it_finds(
    tmp_path: Path, environ: str, folder: str, *, is_client: bool
) -> None:
    """A program is a client when a daemon listens where it looks; a path that cannot be followed counts as one."""
    proc = fake_proc(tmp_path, environ=environ)
    (tmp_path / "77" / "root" / folder).mkdir(parents=True)
    (tmp_path / "77" / "root" / folder / "control").touch()
    facts = gather_process(SOMEBODY, proc=proc, who=lambda _: SOMEBODY)
    assert ("mps" in facts.features) == is_client


def test_the_simulated_machine_tells_its_own_features(tmp_path: Path) -> None:
    """On the simulated machine its own books say what a program uses, and control groups bound nothing."""
    facts = gather_process(
        SOMEBODY, features=lambda _: frozenset({"nccl"}), proc=fake_proc(tmp_path), who=lambda _: SOMEBODY
    )
    assert facts.features == {"nccl"}
    assert facts.cgroup_headroom is None


@pytest.mark.parametrize("status", ["", "Name:\tx\n", "State:\tS\nTgid:\tx\nUid:\t1\n", b"\xff\xfe\0"])
def test_a_status_that_is_not_understood_is_unreadable(tmp_path: Path, status: str | bytes) -> None:
    """Where the system's answer is not understood, that is said instead of guessed."""
    facts = gather_process(SOMEBODY, proc=fake_proc(tmp_path, status=status), who=lambda _: SOMEBODY)
    assert facts.unreadable
    assert facts.found == SOMEBODY


@given(st.binary(max_size=2000), st.binary(max_size=200), st.binary(max_size=200))
def test_no_content_of_proc_breaks_it(
    tmp_path_factory: pytest.TempPathFactory, maps: bytes, environ: bytes, comm: bytes
) -> None:
    """A program chooses its mappings, environment and names: whatever they hold, there is an answer."""
    proc = fake_proc(tmp_path_factory.mktemp("proc"), maps=maps, environ=environ, **{"task/77/comm": comm})
    assert gather_process(SOMEBODY, proc=proc, who=lambda _: SOMEBODY).identity == SOMEBODY


def test_the_host_is_read() -> None:
    """The host's architecture and available memory are real, except that a simulated copy needs no such room."""
    host = gather_host(budget_left=5)
    assert host.architecture == os.uname().machine
    assert host.budget_left == 5
    assert host.available is not None
    assert host.available > 0
    assert gather_host(simulated=True).available is None


def test_the_kernels_answer_is_taken_over() -> None:
    """Threads, tasks, frameworks and features of a good answer arrive."""
    reply = {
        "status": "ok",
        "threads": [{"name": "poller", "origin": "__main__"}],
        "tasks": [{"name": "watch", "origin": "cell.py"}],
        "frameworks": ["torch"],
        "features": ["nccl"],
    }
    background = background_of(reply, cpu_s=0.5, window_s=60)
    assert [(one.kind, one.name, one.origin) for one in background.work] == [
        ("thread", "poller", "__main__"),
        ("task", "watch", "cell.py"),
    ]
    assert background.probe == "answered"
    assert (background.frameworks, background.features) == (frozenset({"torch"}), frozenset({"nccl"}))


GOOD = {"status": "ok", "threads": [], "tasks": [], "frameworks": [], "features": []}


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        "ok",
        {},
        {**GOOD, "status": "error"},
        {**GOOD, "threads": None},
        {**GOOD, "tasks": {"name": "x"}},
        {**GOOD, "threads": ["x"]},
        {name: value for name, value in GOOD.items() if name != "features"},
    ],
)
def test_an_answer_that_is_not_understood_is_none(reply: object) -> None:
    """The kernel runs the user's code: a strange answer never counts as "nothing runs in the background"."""
    assert background_of(reply, cpu_s=None, window_s=0).probe == "no_answer"


def test_an_answer_is_bounded() -> None:
    """A flood of threads with endless names stays small."""
    reply = {**GOOD, "threads": [{"name": "x" * 10_000, "origin": "\x1b[31m"}] * 10_000}
    background = background_of(reply, cpu_s=None, window_s=0)
    assert len(background.work) == 50
    assert all(len(one.name) <= 80 and one.origin.isprintable() for one in background.work)
