"""Reporting after cells: seldom, never in a cell's way, and only for as long as it is wanted."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.notebook.address import Address
from jupyter_gpushare.notebook.reporter import Reporter
from tests.notebook.fake_frameworks import GB, FakeTorch
from tests.notebook.fake_server import KERNEL_ID, TOKEN, FakeServer
from tests.notebook.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

REPORT = "POST", f"/kernels/{KERNEL_ID}/report"


class ExplodingTorch(FakeTorch):
    def memory_reserved(self, _device: int) -> int:
        raise RuntimeError("CUDA error: device-side assert triggered")


@pytest.fixture(name="reporter")
def _reporter(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reporter]:
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(5 * GB, 2 * GB))
    server.answers[REPORT] = 200, {"wanted": True}
    reporter = Reporter(Address.from_environment(), interval_s=0.05)
    yield reporter
    reporter.stop()
    until(lambda: not threads(), "the reporter's thread ends")


def threads() -> list[str]:
    """The reporters' threads that live."""
    return [thread.name for thread in threading.enumerate() if thread.name == "gpushare-report"]


def test_a_cell_is_followed_by_a_report_of_held_bytes(server: FakeServer, reporter: Reporter) -> None:
    """The server learns what the frameworks hold, with the kernel's own token."""
    reporter.cell_ended()
    until(lambda: server.seen, "a report")
    assert (server.seen[0].body, server.seen[0].token) == ({"memory": 7 * GB}, TOKEN)


def test_many_cells_make_few_reports_and_the_last_is_not_lost(server: FakeServer, reporter: Reporter) -> None:
    """A hundred quick cells cost one report now and one afterwards, which tells the final amount."""
    for _ in range(100):
        reporter.cell_ended()
    sys.modules["torch"].used = 1 * GB  # type: ignore[attr-defined]
    reporter.cell_ended()
    until(lambda: server.seen and server.seen[-1].body == {"memory": 3 * GB}, "the last report")
    until(lambda: not threads(), "no thread stays")
    assert len(server.seen) <= 3


def test_a_hanging_server_does_not_hold_a_cell_up(server: FakeServer, reporter: Reporter) -> None:
    """The cell's end returns at once, whatever the server does, and later cells pile up no threads."""
    server.hangs = True
    for _ in range(20):
        reporter.cell_ended()
    until(lambda: server.seen, "the request")
    assert len(threads()) == 1


def test_it_stops_when_no_longer_wanted(server: FakeServer, reporter: Reporter) -> None:
    """Where the driver tells processes apart, one report is all there is."""
    server.answers[REPORT] = 200, {"wanted": False}
    reporter.cell_ended()
    until(lambda: server.seen and not threads(), "one report")
    reporter.cell_ended()
    assert not threads()
    assert len(server.seen) == 1


def test_a_refused_token_ends_it_and_is_remembered(server: FakeServer, reporter: Reporter) -> None:
    """An expired token is not tried for ever, and `%gpushare status` can say so."""
    server.refuses = True
    reporter.cell_ended()
    until(lambda: reporter.problem and not threads(), "the refusal")
    assert "Restart the kernel" in reporter.problem
    reporter.cell_ended()
    assert not threads()


def test_trouble_passes_and_is_forgotten(server: FakeServer, reporter: Reporter) -> None:
    """A server that stumbled once is reported to again, and the problem is no longer shown."""
    server.answers[REPORT] = 500, {"message": "Oops."}
    reporter.cell_ended()
    until(lambda: "Oops." in reporter.problem and not threads(), "the problem")
    server.answers[REPORT] = 200, {"wanted": True}
    reporter.cell_ended()
    until(lambda: not reporter.problem, "the problem is forgotten")


def test_a_framework_that_raises_is_remembered_not_thrown(
    server: FakeServer, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poisoned CUDA context surfaces in the status, not in the user's next cell."""
    monkeypatch.setitem(sys.modules, "torch", ExplodingTorch(0, 0))
    reporter.cell_ended()
    until(lambda: reporter.problem, "the problem")
    assert "device-side assert" in reporter.problem
    assert server.seen == []


def test_without_a_framework_there_is_no_thread_and_no_request(
    server: FakeServer, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook without a GPU costs nothing."""
    monkeypatch.delitem(sys.modules, "torch")
    reporter.cell_ended()
    assert not threads()
    assert server.seen == []
