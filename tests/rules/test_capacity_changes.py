"""Devices, hosts and policies change under leases: what is there stays, and nothing new makes it worse."""

from __future__ import annotations

from dataclasses import replace

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import Drained, HostSeen, Inventory, PolicySet, Submitted
from jupyter_gpushare.rules.invariants import violations
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import books, device, gpus, job, parked, project, running, session
from tests.rules.story import Story


def test_a_drained_device_keeps_what_is_there_and_takes_nothing_new() -> None:
    """Sessions and jobs stay, parked ones come back; a claim waits until the drain is undone."""
    story = Story(books(running(job("stays", "0.2"), "h1-0"), parked(session("parked", "0.2"), "h1-0")))
    story.then(Drained(device="h1-0", by="root"))
    story.then(Submitted(job("next", "0.1")))
    assert story.status("stays", "next") == ["running", "queued"]
    story.wants("parked", Target.RUNNING)
    assert story.status("parked") == ["resuming"]
    story.then(Inventory("h1", (device("h1-0"),)))  # the driver says that it is fine: it is drained all the same
    assert story.status("next") == ["queued"]
    story.then(Drained(device="h1-0", by="root", undo=True))
    assert story.status("next") == ["granted"]


def test_evacuating_a_host_moves_its_jobs_and_leaves_its_sessions() -> None:
    """Jobs go on elsewhere at once, and have lost no turn by it."""
    story = Story(books(running(job("moves"), "h1-0"), running(session("stays"), "h1-0"), hosts=2))
    story.then(Drained(host="h1", by="root", evacuate=True))
    assert story.status("moves", "stays") == ["yielding", "running"]
    story.obeys("moves")
    assert story.lease("moves").status is Status.GRANTED
    assert story.lease("moves").devices == ("h2-0",)
    assert story.lease("moves").turns_lost == 0
    story.then(HostSeen(replace(story.snapshot.hosts["h1"], condition="ready")))
    assert story.snapshot.hosts["h1"].condition == "draining"


def test_a_device_that_is_gone_sends_its_jobs_elsewhere() -> None:
    """Running ones yield, parked ones start anew: their memory belongs to a device that is no more."""
    story = Story(
        books(running(job("runs"), "h1-0"), parked(job("parked", host_memory=Memory.parse("1GiB")), "h1-0"), per_host=2)
    )
    story.then(Inventory("h1", (device("h1-1"),)))
    assert story.status("runs", "parked") == ["yielding", "granted"]
    assert story.lease("parked").devices == ("h1-1",)
    assert story.snapshot.host_books.get("h1") is None
    story.obeys("runs")
    assert story.lease("runs").devices == ("h1-1",)
    assert "h1-0" not in story.snapshot.devices


def test_foreign_memory_that_grows_is_marked_and_nothing_new_begins() -> None:
    """Who is there stays; the device is over-committed until somebody leaves."""
    story = Story(books(running(session("a"), "h1-0"), running(job("b", "0.4"), "h1-0")))
    story.then(Inventory("h1", (device("h1-0", foreign=gpus("0.3")),)))
    assert story.status("a", "b") == ["running", "running"]
    assert Verb.OVER_COMMITTED in story.verbs()
    assert violations(story.snapshot) == ["I1, requests fit the device: h1-0, by 200000"]
    story.then(Submitted(job("c", "0.1")))
    assert story.status("c") == ["queued"]
    story.wants("b", Target.ENDED)
    story.obeys("b")
    assert story.status("c") == ["granted"]
    assert violations(story.snapshot) == []


def test_a_trespassed_device_takes_no_lease_and_its_borrower_is_not_touched() -> None:
    """It is reported, once (DESIGN 8)."""
    story = Story(books(running(job("borrower"), "h1-0")))
    trespassed = Inventory("h1", (device("h1-0", trespassed=True),))
    story.then(trespassed)
    assert story.verbs() == [Verb.TRESPASSED]
    story.then(trespassed)
    assert story.verbs() == []
    story.then(Submitted(job("next", "0.1")))
    assert story.status("borrower", "next") == ["running", "queued"]


def test_a_quota_below_use_is_marked_and_admits_nobody() -> None:
    """Nobody loses anything by it."""
    story = Story(books(running(session("a"), "h1-0"), quotas={"team-a": "1"}))
    pools = tuple(story.snapshot.pools.values())
    story.then(PolicySet((project("team-a", "0.3"),), pools))
    assert story.status("a") == ["running"]
    assert Verb.OVER_COMMITTED in story.verbs()
    story.then(Submitted(session("b", "0.1")))
    assert story.change.leases["b"].reason is Reason.EXCEEDS_PROJECT_QUOTA


def test_a_project_that_is_deleted_keeps_what_runs() -> None:
    """Its claims are refused, its leases end when their owners end them, parked ones come back."""
    story = Story(books(running(job("runs", "0.4"), "h1-0"), parked(session("parked", "0.4"), "h1-0")))
    story.then(PolicySet((), tuple(story.snapshot.pools.values())))
    assert story.status("runs", "parked") == ["running", "parked"]
    story.wants("parked", Target.RUNNING)
    assert story.status("parked") == ["resuming"]
    story.then(Submitted(job("next", "0.1")))
    assert story.change.leases["next"].reason is Reason.NO_SUCH_PROJECT


def test_a_budget_below_what_is_parked_is_marked_and_parks_nobody() -> None:
    """What is parked stays safe."""
    parked_one = parked(session("parked"), "h1-0", host_memory=Memory.parse("10GiB"))
    story = Story(books(parked_one, running(session("runs", "0.1"), "h1-0")))
    story.then(HostSeen(replace(story.snapshot.hosts["h1"], parking_budget=Memory.parse("5GiB"))))
    assert Verb.OVER_COMMITTED in story.verbs()
    story.wants("runs", Target.PARKED)
    assert story.lease("runs").reason is Reason.NO_HOST_MEMORY
    story.wants("parked", Target.RUNNING)
    assert story.status("parked") == ["resuming"]


def test_the_same_again_is_no_change() -> None:
    """A look at the devices that finds what is known leaves no trace."""
    story = Story(books(running(session("a"), "h1-0")))
    story.then(
        Inventory("h1", (device("h1-0"),)),
        HostSeen(story.snapshot.hosts["h1"]),
        PolicySet(tuple(story.snapshot.projects.values()), tuple(story.snapshot.pools.values())),
        Drained(device="nowhere", by="root"),
        Drained(device="h1-0", by="root", undo=True),
    )
    assert not story.change
