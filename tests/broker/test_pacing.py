"""What the broker learns about how fast hosts and jobs are, from moves as they are committed."""

from __future__ import annotations

import pytest

from jupyter_gpushare.broker.pacing import Pacing
from jupyter_gpushare.broker.reconciler import Published
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.lease import Lease, Status
from jupyter_gpushare.rules.pace import Pace
from tests.rules.builders import books, job, running, session

GB = 10**9
BOOKS = books(hosts=2)


class History:
    """Leases that go from one status to the next, told to a `Pacing` as the reconciler tells it."""

    def __init__(self) -> None:
        self.pacing = Pacing()
        self.books = BOOKS
        self.now = 0.0

    def starts_with(self, lease: Lease) -> None:
        """*lease* is in the books."""
        self.books = self.books.with_change(Change(leases={lease.id: lease}))

    def enters(self, key: str, status: Status, after_s: float = 0.0, memory: int | None = None) -> None:
        """The lease enters *status*, so much later."""
        self.now += after_s
        lease = self.books.leases[key]
        booked = lease.host_memory if memory is None else Memory(memory)
        change = Change(leases={key: lease.enter(status, self.now, host_memory=booked)})
        after = self.books.with_change(change)
        self.pacing.published(Published(self.books, after, change))
        self.books = after

    def begins_anew(self, key: str, after_s: float) -> None:
        """The lease's time for what its status asks begins anew, so much later."""
        self.now += after_s
        change = Change(leases={key: self.books.leases[key].evolve(since=self.now)})
        after = self.books.with_change(change)
        self.pacing.published(Published(self.books, after, change))
        self.books = after

    def takes_s(self, lease: Lease) -> float:
        """What is expected now."""
        return self.pacing.paces.takes_s(self.books, lease)


def test_each_way_of_each_host_has_its_own_speed() -> None:
    """A park of 10 GB in 2.25 s says nothing about resumes, and about another host only while that has shown nothing."""
    history = History()
    for name, uuid in (("s", "h1-0"), ("t", "h2-0")):
        history.starts_with(running(session(name), uuid))
    history.enters("s", Status.PARKING, memory=10 * GB)
    history.enters("s", Status.PARKED, after_s=2.25)
    paces = history.pacing.paces
    assert paces.hosts["h1"].out_bytes_per_s == pytest.approx(1 / (0.7 / 4e9 + 0.3 / 5e9))
    assert paces.hosts["h1"].in_bytes_per_s == Pace().in_bytes_per_s
    assert paces.usual == paces.hosts["h1"]
    history.enters("t", Status.PARKING, memory=10 * GB)
    history.enters("t", Status.PARKED, after_s=5.25)
    history.enters("s", Status.RESUMING)
    history.enters("s", Status.RUNNING, after_s=1.25)
    paces = history.pacing.paces
    assert paces.hosts["h2"].out_bytes_per_s < paces.hosts["h1"].out_bytes_per_s
    assert paces.hosts["h1"].in_bytes_per_s > Pace().in_bytes_per_s


def test_a_speed_comes_to_what_is_seen_again_and_again() -> None:
    """After some moves it is the host's own, and no longer the one that others measured."""
    history = History()
    history.starts_with(running(session("s"), "h1-0"))
    for _ in range(20):
        history.enters("s", Status.PARKING, memory=10 * GB)
        history.enters("s", Status.PARKED, after_s=20.25)
        history.enters("s", Status.RESUMING)
        history.enters("s", Status.RUNNING, after_s=10.25)
    assert history.pacing.paces.hosts["h1"].out_bytes_per_s == pytest.approx(0.5e9, rel=0.01)
    assert history.pacing.paces.hosts["h1"].in_bytes_per_s == pytest.approx(1e9, rel=0.01)


def test_a_job_is_known_by_its_own_saves_and_another_by_those_of_its_project() -> None:
    """The newest counts for three tenths; a job of another project is given all its grace."""
    history = History()
    history.starts_with(running(job("j"), "h1-0"))
    for seconds in (4.0, 8.0):
        history.enters("j", Status.YIELDING)
        history.enters("j", Status.QUEUED, after_s=seconds)
        history.enters("j", Status.GRANTED)
        history.enters("j", Status.RUNNING)
    yielding = running(job("j"), "h1-0").evolve(status=Status.YIELDING)
    assert history.takes_s(yielding) == pytest.approx(0.7 * 4 + 0.3 * 8)
    assert history.takes_s(yielding.evolve(id="new")) == pytest.approx(0.7 * 4 + 0.3 * 8)
    assert history.takes_s(yielding.evolve(id="new", grace_s=3.0)) == 3.0
    assert history.takes_s(yielding.evolve(id="new", project="team-b", grace_s=17.0)) == 17.0


def test_whoever_had_not_begun_had_nothing_to_save() -> None:
    """A job that yields before its program runs is gone at once: that teaches nothing about saves."""
    history = History()
    history.starts_with(running(job("j"), "h1-0").evolve(status=Status.GRANTED))
    history.enters("j", Status.YIELDING)
    history.enters("j", Status.QUEUED, after_s=0.1)
    assert not history.pacing.paces.projects


def test_what_a_job_takes_beyond_its_copy_is_its_way_to_the_safe_point() -> None:
    """The copy is as fast as those of sessions there; another project's jobs are not taken to be as slow."""
    history = History()
    history.starts_with(running(job("j", is_parkable=True), "h1-0"))
    history.enters("j", Status.PARKING, memory=4 * GB)
    history.enters("j", Status.PARKED, after_s=0.25 + 1.0 + 3.0)
    parking = running(job("j"), "h1-0").evolve(status=Status.PARKING, host_memory=Memory(8 * GB))
    assert history.takes_s(parking) == pytest.approx(3.0 + 0.25 + 2.0)
    assert history.takes_s(parking.evolve(id="new")) == pytest.approx(3.0 + 0.25 + 2.0)
    assert history.takes_s(parking.evolve(id="new", project="team-b")) == pytest.approx(0.25 + 2.0)
    assert history.takes_s(session("s").evolve(status=Status.PARKING, host_memory=Memory(8 * GB))) == 0.25 + 2.0


def test_what_began_anew_after_an_outage_teaches_nothing() -> None:
    """The time from an outage, or from a holder's return, to the end of a save is not what the save takes."""
    history = History()
    history.starts_with(running(job("j"), "h1-0"))
    history.enters("j", Status.YIELDING)
    history.begins_anew("j", after_s=25.0)
    history.enters("j", Status.QUEUED, after_s=1.0)
    assert not history.pacing.paces.jobs
    for status in (Status.GRANTED, Status.RUNNING, Status.YIELDING, Status.MISSING, Status.YIELDING):
        history.enters("j", status, after_s=5.0)
    history.enters("j", Status.QUEUED, after_s=1.0)
    assert not history.pacing.paces.jobs
    for status in (Status.GRANTED, Status.RUNNING, Status.YIELDING, Status.QUEUED):
        history.enters("j", status, after_s=5.0)
    assert history.takes_s(running(job("j"), "h1-0").evolve(status=Status.YIELDING)) == 5.0


def test_nothing_is_kept_of_jobs_that_are_over() -> None:
    """A broker runs for months: what it knew of a job goes with the job, and only its project remembers."""
    history = History()
    history.starts_with(running(job("j", is_parkable=True), "h1-0"))
    history.enters("j", Status.PARKING, memory=4 * GB)
    history.enters("j", Status.PARKED, after_s=3.0)
    history.enters("j", Status.ENDED, after_s=1.0)
    assert not history.pacing.paces.jobs
    assert set(history.pacing.paces.projects) == {"team-a"}


def test_the_next_broker_begins_with_what_hosts_have_shown() -> None:
    """Estimates are as good right after a restart as before; of other hosts nothing is claimed."""
    history = History()
    history.starts_with(running(session("s"), "h1-0"))
    history.enters("s", Status.PARKING, memory=10 * GB)
    history.enters("s", Status.PARKED, after_s=10.25)
    news = history.pacing.take_news()
    assert set(news) == {"h1"}
    assert not history.pacing.take_news()
    again = Pacing()
    again.know(news)
    assert again.paces.hosts == {"h1": history.pacing.paces.hosts["h1"]}
    assert again.paces.usual == Pace()
