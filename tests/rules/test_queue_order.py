"""In which order waiting claims are served (DESIGN 5, rule 3, last paragraph)."""

from __future__ import annotations

import random

from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.claims import serve_claims
from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.queue_order import Queue
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.waiting_line import line
from tests.rules.builders import NOW, books, job, parked, running, session
from tests.rules.story import Story


def test_inside_fair_share_comes_first() -> None:
    """An old claim above its project's fair share waits behind a new one inside its own."""
    old, new = job("old", "1", "b"), job("new", "1", "a")
    assert line(books(old, new, quotas={"a": "1", "b": "0"})) == ["new", "old"]


def test_then_the_project_furthest_below_its_fair_share() -> None:
    """Of claims inside their fair share that of the neediest project goes first, and projects take turns."""
    there = [running(job("a0", "1", "a"), "h1-0")]
    claims = [job(name, "1", name[0]) for name in ("a1", "b1", "b2", "a2", "b3")]
    assert line(books(*there, *claims, per_host=6, quotas={"a": "3", "b": "3"})) == ["b1", "a1", "b2", "a2", "b3"]


def test_then_sessions_then_oldest_then_name() -> None:
    """Within a project notebooks go before jobs, then whoever asked first, then the name."""
    claims = [job("j1", "1"), job("j2", "1"), session("s1", "1"), session("s2", "1", submitted=5.0)]
    twin = job("j0", "1", submitted=claims[0].submitted)
    assert line(books(*claims, twin, quotas={"team-a": "9"}, per_host=9)) == ["s2", "s1", "j0", "j1", "j2"]


def test_reclaimed_jobs_keep_their_place() -> None:
    """Being reclaimed makes a claim no younger."""
    again = job("again", "1", reason=Reason.RECLAIMED, epoch=4, since=NOW)
    assert line(books(again, job("new", "1"), quotas={"team-a": "2"})) == ["again", "new"]


def test_claims_are_served_in_that_order() -> None:
    """What the line promises is what happens, as room comes up GPU by GPU."""
    dice = random.Random(7)  # noqa: S311  # a small world, not a secret
    there = [running(session(f"s{n}", "1", "a"), f"h1-{n}") for n in range(6)]
    claims = [job(f"{team}{n}", "1", team) for n in range(3) for team in dice.sample("bcd", 3)]
    story = Story(books(*there, *claims, per_host=6, quotas={"a": "0", "b": "3", "c": "2", "d": "1"}))
    story.passes(1)
    for n in range(6):
        first = line(story.snapshot)[0]
        story.wants(f"s{n}", Target.ENDED)
        story.obeys(f"s{n}")
        assert story.status(first) == ["granted"]


def test_who_does_not_fit_does_not_keep_others_waiting() -> None:
    """A claim that no GPU has room for is passed over by a smaller one, and says why it waits."""
    there = [running(session(f"s{n}", "0.5", "b"), f"h1-{n}") for n in range(3)]
    story = Story(books(*there, job("big", "1"), job("small", "0.5"), per_host=3, quotas={"team-a": "1", "b": "2"}))
    story.passes(1)
    assert (story.status("big", "small"), story.lease("big").reason) == (
        ["queued", "granted"],
        Reason.BLOCKED_BY_FRAGMENTATION,
    )


def test_a_place_in_line_is_one_of_all_that_wait() -> None:
    """Everybody who waits is in line once, a parked job too; nobody who runs or is on its way is."""
    there = [running(job("r", "0.5"), "h1-0"), parked(job("p", "0.5", is_parkable=True), "h1-0")]
    snapshot = books(*there, session("s", "1"), job("j", "1"))
    assert sorted(line(snapshot)) == ["j", "p", "s"] == sorted(snapshot.waiting)


def test_the_sorted_queue_follows_whatever_changes() -> None:
    """A queue that has followed many changes is the same as one that is sorted anew."""
    dice = random.Random(3)  # noqa: S311  # a small world, not a secret
    snapshot, followed = books(quotas={"a": "1", "b": "1"}), Queue()
    for number in range(200):
        leases = list(snapshot.leases.values())
        if not leases or dice.random() < 0.5:
            new = dice.choice([job, session])(f"l{number}", dice.choice(["0.5", "1"]), dice.choice("ab"))
        else:
            new = dice.choice(leases).evolve(
                reason=dice.choice([None, Reason.WAITING_FOR_DEVICE, Reason.WAITING_FOR_CALL_BACK]),
                status=dice.choice([Status.QUEUED, Status.QUEUED, Status.ENDED]),
                pool=dice.choice(["", "main"]),
            )
        snapshot = snapshot.with_change(Change(leases={new.id: new}))
        followed.follow(snapshot)
        anew = Queue()
        anew.follow(snapshot)
        assert followed == anew


def test_a_thousand_claims_at_once_are_all_served_or_told_why() -> None:
    """A thousand claims in one moment: as many as fit begin, each other has its reason, and nothing is left to decide."""
    story = Story(books(hosts=20, per_host=8, quotas={"a": "100", "b": "60"}))
    story.then(*(Submitted(job(f"j{n}", "0.5", "ab"[n % 2])) for n in range(1000)))
    reasons = {lease.reason for lease in story.snapshot.leases.values() if lease.is_waiting}
    assert sum(lease.status is Status.GRANTED for lease in story.snapshot.leases.values()) == 320
    assert reasons == {Reason.WAITING_FOR_QUOTA}
    assert not serve_claims(story.snapshot, story.now)
