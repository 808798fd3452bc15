"""When devices are read, and when not."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.attribution import Owner
from jupyter_gpushare.session.meter import Cadence, Meter, Sample
from tests.session.fake_source import GIB, FakeSource, HangingSource, RaisingSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

KERNEL = 4242


class Harness:
    """A meter over a fake source with one kernel; waits on samples instead of sleeping."""

    def __init__(self, source: FakeSource, cadence: Cadence, children: frozenset[int] = frozenset()) -> None:
        self.source = source
        self.samples: list[Sample] = []
        self.came = threading.Condition()
        self.roots = {os.getpid(): Owner("server", ""), KERNEL: Owner("kernel", "k")}
        self.meter = Meter(
            source,
            owner_of=lambda pid: Owner("kernel", "k") if pid in children else self.roots.get(pid),
            roots=lambda: self.roots,
            descendants=lambda pids: frozenset(pids) | children,
            host_pids=not children,
            deliver=self._take,
            cadence=cadence,
            log=logging.getLogger("test"),
        )
        self.meter.start()

    def _take(self, sample: Sample) -> None:
        with self.came:
            self.samples.append(sample)
            self.came.notify_all()

    def wait_for(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.samples) >= count, timeout=30)


@pytest.fixture(name="start")
def _start() -> Iterator[Callable[..., Harness]]:
    started: list[Harness] = []

    def start(
        source: FakeSource, watched: float = 0.01, held: float = 0.02, evidence: float = 0.01, **more: Any
    ) -> Harness:
        started.append(Harness(source, Cadence(watched, held, evidence), **more))
        return started[-1]

    yield start
    for harness in started:
        harness.meter.stop()


class CountingEvidence(FakeSource):
    """Counts how often the file tables were looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = threading.Semaphore(0)

    def has_open(self, pids: object) -> frozenset[int]:
        self.looked.release()
        return super().has_open(pids)  # type: ignore[arg-type]


def test_no_driver_call_while_unwatched_and_nothing_held(start: Callable[..., Harness]) -> None:
    """Ten looks at the file tables cost not a single reading of the driver."""
    source = CountingEvidence()
    start(source)
    for _ in range(10):
        assert source.looked.acquire(timeout=30)
    assert source.reads == 0


def test_evidence_of_use_starts_the_reading(start: Callable[..., Harness]) -> None:
    """A process that opened a device is noticed though nobody looks."""
    source = FakeSource()
    harness = start(source)
    source.hold(KERNEL, GIB)
    harness.meter.suspect()
    harness.wait_for(1)
    assert harness.samples[0].attributed.memory.value == GIB


def test_held_memory_is_read_on_while_unwatched(start: Callable[..., Harness]) -> None:
    """While memory is held the history goes on without a watcher, and stops when nothing is held any more."""
    source = FakeSource()
    source.hold(KERNEL, GIB)
    harness = start(source)
    harness.wait_for(3)
    source.hold(KERNEL, 0)
    with harness.came:
        assert harness.came.wait_for(lambda: harness.samples[-1].attributed.memory.value == 0, timeout=30)
    reads = source.reads
    harness.meter.suspect()
    assert source.reads <= reads + 1


def test_the_first_watcher_is_served_at_once(start: Callable[..., Harness]) -> None:
    """Opening the panel reads without waiting for the next tick of anything."""
    harness = start(FakeSource(), watched=3600, held=3600, evidence=3600)
    harness.meter.watch()
    harness.wait_for(1)


def test_reading_is_never_faster_than_the_interval(start: Callable[..., Harness]) -> None:
    """However many ask, the driver is read once per interval: drivers hold a global lock."""
    source = FakeSource()
    harness = start(source, watched=3600)
    harness.meter.watch()
    harness.wait_for(1)
    for _ in range(50):
        harness.meter.watch()
        harness.meter.suspect()
    waiting = harness.meter.ask()
    assert not waiting.done()
    assert source.reads == 1


def test_a_source_that_raises_does_not_end_the_meter(start: Callable[..., Harness]) -> None:
    """After a fault the next reading comes as usual, and whoever asked hears of the fault."""
    source = RaisingSource()
    harness = start(source)
    source.broken.set()
    with pytest.raises(RuntimeError, match="could not be read"):
        harness.meter.ask().result(timeout=30)
    source.broken.clear()
    assert harness.meter.ask().result(timeout=30).driver.state == "ready"


def test_stopping_lets_go_of_the_driver(start: Callable[..., Harness]) -> None:
    """The server's end closes the source and leaves nobody waiting."""
    source = FakeSource()
    harness = start(source, watched=3600)
    harness.meter.ask().result(timeout=30)
    waiting = harness.meter.ask()
    harness.meter.stop()
    assert source.closed
    assert waiting.cancelled()


class ForeignPids(FakeSource):
    """A driver in a container without host pids: it lists numbers of another namespace, while our child has it open."""

    CHILD = 777

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        return frozenset(pids) & {self.CHILD}


def test_a_child_that_holds_a_device_unseen_makes_the_numbers_unknown(start: Callable[..., Harness]) -> None:
    """GPU use of a kernel's child that the driver lists under a foreign number is unknown, never zero."""
    source = ForeignPids()
    source.hold(5, GIB)
    harness = start(source, children=frozenset({ForeignPids.CHILD}))
    memory = harness.meter.ask().result(timeout=30).attributed.memory
    assert (memory.value, memory.attribution) == (None, "unavailable")


def test_a_failed_reading_is_not_answered_with_an_old_one(start: Callable[..., Harness]) -> None:
    """Who asks for a sample gets one that began after the question, or an error."""
    source = RaisingSource()
    harness = start(source)
    harness.meter.ask().result(timeout=30)
    source.broken.set()
    with pytest.raises(RuntimeError, match="could not be read"):
        harness.meter.ask().result(timeout=30)


def test_those_who_gave_up_waiting_do_not_pile_up(start: Callable[..., Harness]) -> None:
    """While a driver hangs, cancelled questions are forgotten."""
    source = HangingSource()
    harness = start(source)
    harness.meter.watch()
    assert source.hanging.wait(30)
    for _ in range(20):
        harness.meter.ask().cancel()
    harness.meter.ask()
    assert len(harness.meter._asked) == 1
    source.let_go.set()


def test_somebody_who_parks_does_not_wait_for_the_next_turn(start: Callable[..., Harness]) -> None:
    """A park needs fresh numbers now, not one interval later; those who merely look keep to the interval."""
    harness = start(FakeSource(), watched=3600, held=3600)
    harness.meter.ask().result(30)
    patient = harness.meter.ask()
    assert harness.meter.ask(at_once=True).result(30).at >= harness.samples[0].at
    assert patient.done(), "the reading serves everybody who waits"
    later = harness.meter.ask()
    with pytest.raises(TimeoutError):
        later.result(0.2)
