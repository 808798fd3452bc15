"""Claims that are held before anybody is connected."""

from __future__ import annotations

import pytest

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.event import Attested, Held, LetGo, Returned, Running, Submitted, Wanted
from jupyter_gpushare.rules.lease import Hold, Kind, Lease, Status, Target
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.rules.step import step
from jupyter_gpushare.share import Share

NOW = 1000.0
FOR_A_MINUTE = Hold(NOW + 60)
BOOKS = Snapshot.of(
    projects=[Project("team", Fraction.parse("2"))],
    pools=[Pool("default")],
    hosts=[Host("h")],
    devices=[GpuDevice("GPU-1", "h", "a100", "default", Memory(1 << 36))],
)


def a_claim(key: str = "one", share: str = "1", hold: Hold | None = FOR_A_MINUTE) -> Lease:
    """A session that a hub asks for."""
    return Lease(
        id=key,
        key=key,
        kind=Kind.INTERACTIVE,
        project="team",
        person="ana",
        name="server",
        share=Share.parse(share),
        submitted=NOW,
        since=NOW,
        hold=hold,
    )


def after(*events: object, books: Snapshot = BOOKS, now: float = NOW) -> Snapshot:
    """The books after *events*."""
    return step(books, events, now).snapshot  # type: ignore[arg-type]  # all of them are events


def test_a_hold_is_kept_with_its_claim() -> None:
    """Granted or waiting, the books say until when it is held."""
    books = after(Submitted(a_claim()), Submitted(a_claim("two")))
    assert [(each.status, each.hold) for each in books.leases.values()] == [
        (Status.GRANTED, Hold(NOW + 60)),
        (Status.QUEUED, Hold(NOW + 60)),
    ]


def test_a_hold_is_moved_and_ends_with_the_holders_first_word() -> None:
    """From its hello on the lease is its holder's, and no hold comes back by a late heartbeat."""
    books = after(Submitted(a_claim()), Held("one", Hold(NOW + 90, is_starting=True)))
    assert books.leases["one"].hold == Hold(NOW + 90, is_starting=True)
    joined = after(
        Held("one", None), Returned(books.leases["one"].evolve(hold=None), 1, is_resident=False), books=books
    )
    assert joined.leases["one"].hold is None
    late = after(Held("one", Hold(NOW + 500)), LetGo("one"), LetGo("one", by="hub"), books=joined, now=NOW + 600)
    assert late.leases["one"].hold is None
    assert after(Running("one", 1), books=late).leases["one"].status is Status.RUNNING


@pytest.mark.parametrize("passed_s", [0.0, 59.9])
def test_a_hold_that_is_not_over_yet_is_not_let_go(passed_s: float) -> None:
    """A heartbeat that was heard just before counts."""
    assert "one" in after(LetGo("one"), books=after(Submitted(a_claim())), now=NOW + passed_s).leases


def test_what_nobody_came_for_is_served_to_the_next_at_once() -> None:
    """Nothing of it was ever on a device, so that nobody has to look there first; the audit says why."""
    books = after(Submitted(a_claim()), Submitted(a_claim("two")))
    done = step(books, [LetGo("one")], NOW + 60)
    assert "one" not in done.snapshot.leases
    assert done.snapshot.leases["two"].status is Status.GRANTED
    assert [(entry.reason, entry.by) for entry in done.change.audit if entry.lease == "one"] == [
        (Reason.NOT_TAKEN_UP, "rules")
    ]


def test_the_key_of_what_was_let_go_is_free_in_the_same_step() -> None:
    """Another share takes its place without a moment in between, and without two leases for one key."""
    books = after(Submitted(a_claim()))
    other = a_claim().evolve(id="other", share=Share.parse("0.25"))
    then = after(LetGo("one", by="hub"), Submitted(other), books=books)
    assert list(then.leases) == ["other"]
    assert then.holders == {("ana", "one"): "other"}


def test_ending_what_is_held_needs_nobodys_word() -> None:
    """A claim without a holder is over at once; one with a holder ends when the device shows it."""
    books = after(Submitted(a_claim()))
    assert not after(Wanted("one", Target.ENDED, by="ana"), books=books).leases
    joined = after(Held("one", None), Running("one", 1), books=books)
    ending = after(Wanted("one", Target.ENDED, by="ana"), books=joined)
    assert ending.leases["one"].status is Status.YIELDING
    assert not after(Attested("one", 1), books=ending).leases
