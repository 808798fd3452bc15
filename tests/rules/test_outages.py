"""A broker that was away, or could keep nothing for a while: what was asked of holders meanwhile."""

from __future__ import annotations

from jupyter_gpushare.rules.event import Attested, OutageOver, TimePassed, Vanished
from jupyter_gpushare.rules.lease import Target
from tests.rules.builders import books, job, on_loan, parked, running, session
from tests.rules.story import Story

_GRACE_S = 30


def called_back() -> Story:
    """One of two jobs is called back for a session; the host saves one at a time."""
    leases = [
        each
        for n in range(2)
        for each in (
            parked(session(f"s{n}", "1"), f"h1-{n}"),
            on_loan(job(f"j{n}", "1"), (f"s{n}", f"h1-{n}", "1")),
        )
    ]
    story = Story(books(*leases, per_host=2, host_changes={"saves": 1}))
    story.wants("s0", Target.RUNNING)
    story.wants("s1", Target.RUNNING)
    assert story.status("j0", "j1") == ["yielding", "running"]
    return story


def test_who_could_not_be_told_has_its_whole_grace() -> None:
    """After an outage longer than its grace it is no holder that ignores its call, and its save still counts."""
    story = called_back()
    story.then(OutageOver(), after=3600)
    assert story.status("j0", "j1") == ["yielding", "running"]
    assert story.lease("j0").deadline == story.now + _GRACE_S
    story.passes(_GRACE_S - 1)
    assert story.status("j1") == ["running"]
    story.passes(1)
    assert story.status("j0", "j1") == ["yielding", "yielding"]


def test_an_outage_gives_back_the_time_that_it_took() -> None:
    """Whoever had heard already has what was left of its grace, not all of it again."""
    story = called_back()
    story.passes(20)
    before = story.lease("j0").deadline
    assert before is not None
    story.then(OutageOver(100.0), after=100)
    assert story.lease("j0").deadline == before + 100


def test_a_ledger_that_fails_again_and_again_keeps_nobody_waiting_for_ever() -> None:
    """Many outages of a second each give a job that ignores its call no more than those seconds."""
    story = called_back()
    for _ in range(3):
        story.then(OutageOver(1.0), after=_GRACE_S / 2)
    assert story.status("j0", "j1") == ["yielding", "yielding"]


def test_who_is_asked_in_an_outage_has_its_grace_from_its_end() -> None:
    """What it has for that is never more than its grace, though the outage began before it was asked."""
    story = called_back()
    story.passes(1)
    story.then(OutageOver(3600.0))
    assert story.lease("j0").deadline == story.now + _GRACE_S


def test_who_went_missing_on_its_way_back_gives_its_device_token_up_when_it_is_gone() -> None:
    """A notebook behind it on the same device comes back once the device shows that nothing of the first is there."""
    story = Story(books(parked(session("a", "0.5"), "h1-0"), parked(session("b", "0.5"), "h1-0")))
    story.wants("a", Target.RUNNING)
    story.then(Vanished("a"))
    story.wants("b", Target.RUNNING)
    assert story.status("a", "b") == ["missing", "parked"]
    story.then(Attested("a", story.lease("a").epoch))
    assert story.status("b") == ["resuming"]


def test_time_alone_renews_nothing() -> None:
    """Who was told, and ignores it, keeps nobody else waiting beyond its grace."""
    story = called_back()
    story.then(TimePassed(), after=_GRACE_S)
    assert story.status("j1") == ["yielding"]


def test_an_outage_says_nothing_about_who_is_asked_for_nothing() -> None:
    """What runs and what is parked stays as it was, since when it was."""
    story = Story(books(running(job("j"), "h1-0"), parked(session("s"), "h1-0")))
    before = dict(story.snapshot.leases)
    assert not story.then(OutageOver())
    assert story.snapshot.leases == before
