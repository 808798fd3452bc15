"""From a claim to its end: what each word of a holder, and each look at a device, does to a lease."""

from __future__ import annotations

import pytest

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import (
    Attested,
    CouldNot,
    Event,
    Idle,
    OverUse,
    ParkingSwitched,
    Reclaimed,
    Running,
    Submitted,
    TimePassed,
    Vanished,
    Wanted,
)
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, job, on_loan, parked, running, session
from tests.rules.story import Story


def test_an_idle_notebook_feeds_a_job_and_comes_back() -> None:
    """The whole way of DESIGN 4: parked, lent, called back, resumed with a new epoch, ended; nothing is left."""
    story = Story(books(quotas={"team-a": "1", "team-b": "0"}))
    story.then(Submitted(session("notebook", "0.6")))
    story.obeys("notebook")
    story.then(Submitted(job("training", "0.8", "team-b")))
    assert story.status("notebook", "training") == ["running", "queued"]

    story.wants("notebook", Target.PARKED)
    assert story.status("notebook", "training") == ["parking", "queued"]
    story.obeys("notebook")
    assert story.status("notebook", "training") == ["parked", "granted"]
    assert [(loan.lender, str(loan.amount)) for loan in story.lease("training").loans] == [("notebook", "0.4")]

    story.obeys("training")
    story.wants("notebook", Target.RUNNING)
    assert story.status("notebook", "training") == ["parked", "yielding"]
    assert story.lease("notebook").reason is Reason.WAITING_FOR_CALL_BACK
    story.obeys("training")
    assert story.status("notebook", "training") == ["resuming", "queued"]
    assert story.lease("notebook").epoch == 2
    story.obeys("notebook")
    assert story.status("notebook") == ["running"]
    assert story.lease("notebook").host_memory == Memory.ZERO

    story.wants("notebook", Target.ENDED)
    assert story.status("notebook") == ["yielding"]
    story.obeys("notebook")
    assert "notebook" not in story.snapshot.leases
    assert story.verbs("notebook") == [Verb.ENDED]


def test_capacity_is_freed_by_the_device_alone() -> None:
    """A deadline that is over, and any number of words, free nothing: the holder is asked again."""
    story = Story(books(running(session("notebook", "1"), "h1-0")))
    story.then(Submitted(session("next", "1")))
    assert "next" not in story.snapshot.leases  # over quota: refused
    story.wants("notebook", Target.ENDED)
    first = story.lease("notebook").deadline
    story.passes(40)
    again = story.lease("notebook").deadline
    assert first is not None
    assert again is not None
    assert again > first
    assert story.status("notebook") == ["yielding"]
    assert story.verbs() == [Verb.CALLED_BACK]
    assert story.look_again == again


@pytest.mark.parametrize(
    "event",
    [
        Running("notebook", 1),
        Attested("notebook", 1),
        CouldNot("notebook", 1, Reason.NOT_PARKABLE),
        Running("notebook", 7),
        Attested("notebook", 7),
    ],
    ids=lambda event: f"{type(event).__name__}-{event.epoch}",
)
@pytest.mark.parametrize("status", [Status.PARKING, Status.RESUMING, Status.YIELDING, Status.RUNNING])
def test_words_with_another_epoch_change_nothing_but_the_audit(event: Event, status: Status) -> None:
    """A holder of before, or of nowhere, neither frees capacity nor takes it."""
    story = Story(books(running(session("notebook"), "h1-0", epoch=2, status=status, target=_target(status))))
    before = story.lease("notebook")
    story.then(event, after=0)
    assert story.lease("notebook") == before
    assert story.verbs() == [Verb.FENCED]


def _target(status: Status) -> Target:
    return Target.PARKED if status is Status.PARKING else Target.RUNNING


def test_what_is_said_twice_is_done_once() -> None:
    """A repeated claim, wish or report changes nothing, not even the audit."""
    story = Story(books())
    claim = Submitted(session("notebook", key="server"))
    for event in (claim, Running("notebook", 1), Wanted("notebook", Target.PARKED), Attested("notebook", 1)):
        story.then(event)
        after = story.snapshot
        story.then(event, after=0)
        assert story.snapshot == after
        assert not story.change


def test_a_holders_key_stands_for_one_lease() -> None:
    """The same person's same key is the same lease, whatever id a retry comes with."""
    story = Story(books())
    story.then(Submitted(session("first", key="server")))
    story.then(Submitted(session("second", key="server")))
    assert list(story.snapshot.leases) == ["first"]
    story.then(Submitted(session("other", key="server", person="bo")))
    assert set(story.snapshot.leases) == {"first", "other"}


def test_a_park_that_fails_is_undone_and_explained() -> None:
    """The notebook goes on with its share, its host memory is free again, and the reason is kept."""
    story = Story(books(running(session("notebook"), "h1-0")))
    story.wants("notebook", Target.PARKED)
    assert story.lease("notebook").host_memory == Memory.parse("40GiB")
    story.then(CouldNot("notebook", 1, Reason.NOT_PARKABLE))
    lease = story.lease("notebook")
    assert (lease.status, lease.target, lease.reason) == (Status.RUNNING, Target.RUNNING, Reason.NOT_PARKABLE)
    assert lease.host_memory == Memory.ZERO


def test_the_word_that_a_park_failed_undoes_that_park_alone() -> None:
    """Heard twice, or too late, it must not undo the next park: its holder makes that, and its memory is away."""
    story = Story(books(running(session("notebook"), "h1-0")))
    story.wants("notebook", Target.PARKED)
    failed = CouldNot("notebook", story.lease("notebook").epoch, Reason.NOT_PARKABLE)
    story.then(failed)
    story.wants("notebook", Target.PARKED)
    assert story.status("notebook") == ["parking"]
    story.then(failed)
    assert (story.status("notebook"), story.verbs()) == (["parking"], [Verb.FENCED])
    story.obeys("notebook")
    assert story.status("notebook") == ["parked"]


def test_a_resume_that_fails_keeps_the_device_until_it_is_seen_free() -> None:
    """The holder's word that it could not restore frees nothing; then it tries again, later and with a new epoch."""
    story = Story(books(parked(session("notebook"), "h1-0", host_memory=Memory.parse("8GiB"))))
    story.wants("notebook", Target.RUNNING)
    story.then(CouldNot("notebook", 2, Reason.NOT_PARKABLE))
    assert story.status("notebook") == ["parking"]
    assert story.snapshot.device_books["h1-0"].held
    story.then(CouldNot("notebook", 2, Reason.NOT_PARKABLE))
    assert story.verbs() == [Verb.FENCED]
    story.obeys("notebook")
    assert story.status("notebook") == ["parked"]
    assert story.lease("notebook").host_memory == Memory.parse("8GiB")
    story.passes(15)
    assert story.status("notebook") == ["resuming"]
    assert story.lease("notebook").epoch > 3


def test_a_job_that_cannot_park_saves_itself() -> None:
    """Called back it must go, by its other way."""
    lender = parked(session("notebook"), "h1-0")
    borrower = on_loan(job("training", is_parkable=True), ("notebook", "h1-0", "0.5"), turn_began=NOW)
    story = Story(books(lender, borrower, running(session("rest"), "h1-0")))
    story.wants("notebook", Target.RUNNING)
    assert story.status("training") == ["parking"]
    story.then(CouldNot("training", 1, Reason.NOT_PARKABLE))
    assert story.status("training") == ["yielding"]
    story.obeys("training")
    assert story.status("notebook", "training") == ["resuming", "queued"]


@pytest.mark.parametrize("status", [Status.QUEUED, Status.PARKED])
def test_what_is_on_no_device_ends_at_once(status: Status) -> None:
    """There is nothing to wait for."""
    lease = session("notebook", "2") if status is Status.QUEUED else parked(session("notebook"), "h1-0")
    story = Story(books(lease, per_host=2, quotas={"team-a": "4"}, resume="guaranteed"))
    story.wants("notebook", Target.ENDED)
    assert not story.snapshot.leases or status is Status.QUEUED


def test_a_turn_lost_waits_longer_each_time() -> None:
    """Back-off doubles up to 32 times the first pause, and the last allowed loss is the end."""
    pauses = []
    story = Story(books(running(job("training", most_turns_lost=7), "h1-0", turn_began=NOW)))
    for _ in range(7):
        began = story.lease("training").turn_began
        story.then(Reclaimed("training", by="admin"))
        story.obeys("training")
        pauses.append(round(story.lease("training").not_before - began))
        story.passes(pauses[-1])
        story.obeys("training")
    assert pauses == [10, 20, 40, 80, 160, 320, 320]
    assert story.status("training") == ["running"]
    story.then(Reclaimed("training", by="admin"))
    story.obeys("training")
    assert story.lease("training").status is Status.FAILED
    assert story.lease("training").reason is Reason.TOO_MANY_RECLAIMS


def test_a_turn_longer_than_its_pause_costs_none() -> None:
    """Whoever could work for a while goes on at once, however often it was called: no lent GPU waits for it."""
    story = Story(books(running(job("training", turns_lost=20), "h1-0", turn_began=NOW - 320)))
    story.then(Reclaimed("training", by="admin"))
    story.obeys("training")
    assert (story.status("training"), story.lease("training").turns_lost) == (["granted"], 21)


def test_the_one_switch_brings_everybody_back() -> None:
    """With parking stopped nobody parks, whoever is parked or about to be is wanted back, and loans are called."""
    story = Story(
        books(
            parked(session("old", "0.5"), "h1-0", since=5.0),
            parked(session("new", "0.5"), "h1-1", since=9.0),
            running(session("parking", "0.5"), "h1-1", status=Status.PARKING, target=Target.PARKED),
            on_loan(job("training", is_parkable=True), ("old", "h1-0", "0.5")),
            running(session("rest", "0.5"), "h1-0"),
            per_host=2,
        )
    )
    story.then(ParkingSwitched(is_stopped=True, by="root"))
    assert story.status("old", "new", "training") == ["parked", "resuming", "yielding"]
    story.obeys("parking", "training", "new")
    assert story.status("old", "parking") == ["resuming", "resuming"]
    story.then(Wanted("new", Target.PARKED))
    assert story.lease("new").reason is Reason.PARKING_STOPPED
    assert story.status("new") == ["running"]


@pytest.mark.parametrize("pool", ["off", "observe"])
def test_a_pool_that_does_not_park_says_so(pool: str) -> None:
    """``off`` refuses; ``observe`` parks who asks, as nobody asks automatically there."""
    story = Story(books(running(session("notebook"), "h1-0"), parking=pool))
    story.wants("notebook", Target.PARKED)
    reason = story.lease("notebook").reason
    assert (reason is Reason.PARKING_IS_OFF) == (pool == "off")
    assert story.status("notebook") == [{"off": "running", "observe": "parking"}[pool]]


def test_an_admin_takes_back_what_a_lease_has() -> None:
    """A session is parked, a job yields and waits again; the audit names the admin."""
    story = Story(books(running(session("notebook"), "h1-0"), running(job("training"), "h1-0")))
    story.then(Reclaimed("notebook", by="root"), Reclaimed("training", by="root"))
    assert story.status("notebook", "training") == ["parking", "yielding"]
    assert {line.by for line in story.change.audit} >= {"root"}


def test_who_keeps_a_burst_is_parked_for_it_and_not_ended() -> None:
    """Using more than request and bursts allow leads to parking, for a job to yielding."""
    story = Story(books(running(session("notebook"), "h1-0"), running(job("training"), "h1-0")))
    story.then(OverUse("notebook"), OverUse("training"))
    assert story.status("notebook", "training") == ["parking", "yielding"]


def test_idle_is_never_later_than_now() -> None:
    """A holder whose clock is ahead is idle since now; one that computes is not idle."""
    story = Story(books(running(session("notebook"), "h1-0")))
    story.then(Idle("notebook", story.now + 1e6))
    assert story.lease("notebook").idle_since == story.now
    story.then(Idle("notebook", None))
    assert story.lease("notebook").idle_since is None


def test_unknown_leases_change_nothing() -> None:
    """Whatever is said of a lease that is over, or never was."""
    story = Story(books())
    before = story.snapshot
    story.then(
        Wanted("gone", Target.ENDED),
        Running("gone", 1),
        Attested("gone", 1),
        CouldNot("gone", 1, Reason.NOT_PARKABLE),
        Vanished("gone"),
        Idle("gone", 1.0),
        OverUse("gone"),
        Reclaimed("gone", by="root"),
        TimePassed(),
    )
    assert story.snapshot == before
    assert not story.change
