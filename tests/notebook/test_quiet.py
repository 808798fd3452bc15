"""No thread of ours asks a framework anything while the kernel is parked: CUDA would crash the kernel."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.notebook import background
from jupyter_gpushare.notebook.address import Address
from jupyter_gpushare.notebook.cache import free_cached, held_bytes
from jupyter_gpushare.notebook.reporter import Reporter
from jupyter_gpushare.notebook.server import Server
from jupyter_gpushare.notebook.stream import Stream
from tests.notebook.fake_frameworks import GB, FakeTorch
from tests.notebook.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.notebook.fake_server import FakeServer


class ParkedTorch(FakeTorch):
    """Any question while parked is the end of the process."""

    def __init__(self, gate: Path) -> None:
        super().__init__(5 * GB, 2 * GB)
        self.gate, self.crashed = gate, False

    def memory_reserved(self, device: int) -> int:
        self.crashed |= self.gate.exists()
        return super().memory_reserved(device)


class SlowTorch(FakeTorch):
    """Its first answer takes as long as the test wants."""

    def __init__(self) -> None:
        super().__init__(5 * GB, 2 * GB)
        self.asked, self.go_on = threading.Event(), threading.Event()

    def memory_reserved(self, device: int) -> int:
        self.asked.set()
        assert self.go_on.wait(30)
        return super().memory_reserved(device)


@pytest.fixture(name="gate")
def _gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The flag file of this kernel's gate; not there yet."""
    monkeypatch.setenv("GPUSHARE_GATE_FILE", str(tmp_path / "gate"))
    return tmp_path / "gate"


def test_behind_a_closed_gate_nothing_is_asked(gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the gate's file there, what is held is unknown; without it, or with its directory gone, it is told."""
    torch = ParkedTorch(gate)
    monkeypatch.setitem(sys.modules, "torch", torch)
    gate.touch()
    assert held_bytes() is None
    assert not torch.crashed
    gate.unlink()
    assert held_bytes() == 7 * GB
    gate.parent.rmdir()
    assert held_bytes() == 7 * GB


def test_a_report_that_comes_late_asks_nothing(server: FakeServer, gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell's report may be due after the kernel was parked: it is left out, and the next cell's comes."""
    torch = ParkedTorch(gate)
    monkeypatch.setitem(sys.modules, "torch", torch)
    reporter = Reporter(Address.from_environment(), interval_s=0.01)
    gate.touch()
    reporter.cell_ended()
    until(lambda: not reporter._running, "the reporter's turn")
    assert not torch.crashed
    assert server.seen == []
    gate.unlink()
    reporter.cell_ended()
    until(lambda: server.seen, "the report after the resume")
    reporter.stop()


def test_the_request_before_the_park_waits_for_a_report_under_way(gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the server's request to free the cache is answered, no report of ours is inside CUDA any more."""
    torch = SlowTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    reading = threading.Thread(target=held_bytes)
    reading.start()
    assert torch.asked.wait(30)
    gate.touch()
    answered = threading.Event()

    def free() -> None:
        free_cached(collect=False)
        answered.set()

    freeing = threading.Thread(target=free)
    freeing.start()
    assert not answered.wait(0.2)
    torch.go_on.set()
    assert answered.wait(30)
    reading.join(30)
    freeing.join(30)
    assert torch.emptied == 1


def test_our_threads_are_no_work_of_the_user_s(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A widget that is displayed and a report under way do not keep the notebook from being parked."""
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(5 * GB, 2 * GB))
    address = Address.from_environment()
    stream = Stream(Server(address), on_view=lambda _: None, on_problem=lambda _: None)
    reporter = Reporter(address, interval_s=0.01)
    before, before_tasks = background.threads(), background.tasks()
    stream.start()
    until(lambda: server.watchers, "the stream")
    server.hangs = True
    reporter.cell_ended()
    until(lambda: any(seen.path.endswith("/report") for seen in server.seen), "the report under way")
    ours = {thread.name for thread in threading.enumerate()} & {
        "gpushare-stream",
        "gpushare-report",
        "gpushare-request",
    }
    assert len(ours) == 3
    assert [
        thread for thread in background.threads() if thread not in before and "tests." not in thread["origin"]
    ] == []
    new = [task for task in background.tasks() if task not in before_tasks]
    assert [task for task in new if "fake_server" not in task["origin"]] == []
    reporter.stop()
    stream.stop()
    assert stream.join(30)
