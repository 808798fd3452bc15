"""Holders that vanish and come back, to these books or to others (DESIGN 6)."""

from __future__ import annotations

import pytest

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import Attested, Inventory, Returned, Submitted, Vanished, Wanted
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, device, gpus, job, on_loan, parked, running, session
from tests.rules.story import Story


def test_what_a_vanished_holder_held_stays_its_own_until_the_device_shows_it_free() -> None:
    """Behind a partition it may still compute: nobody else gets its place, for however long."""
    story = Story(books(running(job("away", "1"), "h1-0"), quotas={"team-a": "1"}))
    story.then(Vanished("away"))
    story.then(Submitted(job("next", "1")))
    story.passes(1e6)
    assert story.status("away", "next") == ["missing", "queued"]
    story.then(Attested("away", 1))
    assert story.lease("next").status is Status.GRANTED
    assert "away" not in story.snapshot.leases


def test_who_returns_is_where_it_was() -> None:
    """With the right epoch nothing has happened but a line in the audit."""
    for status in (Status.RUNNING, Status.GRANTED):
        story = Story(books(running(session("s"), "h1-0", status=status)))
        before = story.lease("s")
        story.then(Vanished("s"))
        story.then(Returned(before, 1, is_resident=False))
        assert story.status("s") == [status.value]
        assert Verb.RETURNED in story.verbs()


def test_what_it_was_asked_it_has_its_time_for_again() -> None:
    """A park that was interrupted by a partition goes on, with a new deadline."""
    story = Story(books(running(session("s"), "h1-0")))
    story.wants("s", Target.PARKED)
    before = story.lease("s")
    story.then(Vanished("s"))
    assert story.lease("s").deadline is None
    story.then(Returned(before, 1, is_resident=True), after=500)
    assert story.status("s") == ["parking"]
    assert story.lease("s").deadline == story.look_again


def test_a_parked_notebook_is_never_lost_for_its_silence() -> None:
    """Nothing of it is on a device, so that an empty device proves nothing: it keeps its promise until it is dead."""
    story = Story(books(parked(session("s"), "h1-0")))
    story.then(Vanished("s"))
    story.then(Attested("s", 1))
    story.passes(1e6)
    assert story.status("s") == ["missing"]
    assert story.snapshot.device_books["h1-0"].promised == gpus("0.5")
    story.then(Vanished("s", is_dead=True))
    assert not story.snapshot.leases
    assert story.change.leases["s"].reason is Reason.HOLDER_GONE


def test_a_notebook_that_vanished_while_it_parked_is_parked_and_not_lost() -> None:
    """Killed wires in the middle of a park cost nobody its lease: once the device shows it free it keeps its promise."""
    story = Story(books(running(session("s"), "h1-0")))
    story.wants("s", Target.PARKED)
    before = story.lease("s")
    story.then(Vanished("s"))
    story.then(Attested("s", 1))
    assert story.status("s") == ["missing"]
    assert story.snapshot.device_books["h1-0"].held == gpus("0")
    assert story.snapshot.device_books["h1-0"].promised == gpus("0.5")
    story.then(Returned(before, 1, is_resident=False))
    assert story.status("s") == ["parked"]
    story.wants("s", Target.RUNNING)
    assert story.status("s") == ["resuming"]


def test_a_claim_whose_holder_is_gone_leaves_the_line() -> None:
    """It holds nothing, so that nothing is to be waited for."""
    story = Story(books(running(job("other", "1"), "h1-0")))
    story.then(Submitted(job("claim", "1")))
    story.then(Vanished("claim"))
    assert "claim" not in story.snapshot.leases


def test_one_that_resumed_without_a_broker_is_believed_and_its_loan_called_back() -> None:
    """The device shows it; whoever borrowed from it yields, and its epoch is a new one."""
    lender = parked(session("s"), "h1-0", host_memory=Memory.parse("4GiB"))
    story = Story(books(lender, on_loan(job("j", "0.5"), ("s", "h1-0", "0.5"))))
    story.then(Returned(lender, 1, is_resident=True))
    assert story.status("s", "j") == ["running", "yielding"]
    assert story.lease("s").epoch == 2
    assert story.lease("s").host_memory == Memory.ZERO
    story.then(Attested("s", 1))
    assert story.verbs() == [Verb.FENCED]


def test_a_borrower_that_left_without_a_broker_need_not_save_and_stop() -> None:
    """The lender came back alone and first: whom the books call by now is parked already, and stays so."""
    lender = parked(session("s"), "h1-0")
    borrower = on_loan(job("j", "0.5"), ("s", "h1-0", "0.5"), turn_began=NOW)
    story = Story(books(lender, borrower))
    story.then(Returned(lender, 1, is_resident=True))
    assert story.status("j") == ["yielding"]
    memory = Memory.parse("4GiB")
    story.then(Returned(parked(borrower, "h1-0", host_memory=memory), 1, is_resident=False))
    assert story.status("j") == ["parking"]
    story.then(Attested("j", 1))
    assert (story.status("s", "j"), story.lease("j").host_memory) == (["running", "parked"], memory)


def test_what_its_borrower_still_holds_is_nobodys_to_take() -> None:
    """A loan whose lender is back makes no room: until the borrower has left, both are on the device."""
    lender = parked(session("s", "0.5"), "h1-0")
    story = Story(books(lender, on_loan(job("j", "0.25"), ("s", "h1-0", "0.25"), turn_began=NOW)))
    story.then(Returned(lender, 1, is_resident=True))
    story.then(Submitted(job("small", "0.25")), Submitted(job("next", "0.25")))
    assert story.status("small", "next") == ["granted", "queued"]
    story.obeys("j")
    assert story.status("next") == ["granted"]


def test_a_second_holder_with_an_older_epoch_gets_nothing() -> None:
    """It says that it is on the device, with an epoch that is over: the audit says so, and that is all."""
    lease = running(session("s"), "h1-0", epoch=5)
    story = Story(books(lease))
    story.then(Returned(lease, 4, is_resident=True))
    assert story.verbs() == [Verb.FENCED]
    assert story.lease("s") == lease


def test_books_of_yesterday_take_over_what_holders_know_better() -> None:
    """A lease that they have not heard of, or with an epoch ahead of theirs, is adopted as it is on the device."""
    old, new = parked(session("old"), "h1-0", epoch=3), running(session("new"), "h1-0", epoch=7)
    story = Story(books(old))
    story.then(Returned(running(old, "h1-0", epoch=6), 6, is_resident=True), Returned(new, 7, is_resident=True))
    assert story.status("old", "new") == ["running", "running"]
    assert (story.lease("old").epoch, story.lease("new").epoch) == (7, 8)
    assert story.verbs("new") == [Verb.ADOPTED]


def test_an_adopted_lease_that_does_not_fit_is_marked() -> None:
    """What is there is there: the books say so, mark it, and let nothing new begin."""
    story = Story(books(running(session("here", "0.8"), "h1-0")))
    story.then(Returned(running(session("back", "0.6"), "h1-0"), 1, is_resident=True))
    assert story.status("back") == ["running"]
    assert Verb.OVER_COMMITTED in story.verbs()


@pytest.mark.parametrize(
    ("share", "quota", "status"), [("0.4", "2", "parked"), ("0.6", "2", "queued"), ("0.4", "0.5", "queued")]
)
def test_a_parked_one_is_adopted_where_its_promise_can_be_given_again(share: str, quota: str, status: str) -> None:
    """Within quota and device; otherwise it waits like anybody: a promise is not a holder's to make."""
    story = Story(books(running(session("here", "0.5"), "h1-0"), quotas={"team-a": quota}))
    story.then(Returned(parked(session("back", share), "h1-0"), 1, is_resident=False))
    found = story.snapshot.leases.get("back")
    assert status == "queued" if found is None else found.status.value == status


def test_grants_on_devices_that_there_are_not_are_not_believed() -> None:
    """It waits for a device that there is."""
    story = Story(books(running(job("other", "1"), "h1-0")))
    story.then(Returned(running(job("back"), "nowhere"), 3, is_resident=True))
    assert story.status("back") == ["queued"]
    assert story.lease("back").epoch == 3


def test_who_had_parked_already_is_asked_to_say_so_again() -> None:
    """Books of before it parked hold its share until the device attests that it is free."""
    lease = running(session("s"), "h1-0")
    story = Story(books(lease))
    record = parked(lease, "h1-0", host_memory=Memory.parse("3GiB"))
    story.then(Returned(record, 1, is_resident=False))
    assert story.status("s") == ["parking"]
    story.obeys("s")
    assert story.status("s") == ["parked"]
    assert story.lease("s").host_memory == Memory.parse("3GiB")


def test_a_dead_holder_frees_everything_at_once() -> None:
    """Evidence that its processes are gone is evidence for the device too."""
    for lease in (
        running(session("s"), "h1-0"),
        parked(session("s"), "h1-0"),
        running(session("s"), "h1-0", status=Status.RESUMING),
    ):
        story = Story(books(lease))
        story.then(Vanished("s", is_dead=True))
        assert not story.snapshot.leases
        assert not story.snapshot.device_books


def test_a_missing_one_that_is_to_end_ends_when_it_is_seen_gone() -> None:
    """An admin's wish outlives the partition."""
    story = Story(books(running(session("s"), "h1-0")))
    story.then(Vanished("s"))
    story.then(Wanted("s", Target.ENDED, by="root"))
    assert story.status("s") == ["missing"]
    story.then(Attested("s", 1))
    assert not story.snapshot.leases


def test_a_notebook_that_came_back_alone_after_its_gpu_did_is_not_sent_away() -> None:
    """It waited for a GPU that was gone; the GPU came back while no broker was there, and it resumed by itself."""
    story = Story(books(parked(session("s", "0.5"), "h1-0")))
    gone, back = Inventory("h1", ()), Inventory("h1", (device("h1-0"),))
    story.then(gone)
    story.wants("s", Target.RUNNING)
    assert story.lease("s").reason is Reason.DEVICE_GONE
    lease = story.lease("s")
    story.then(back, Returned(lease.evolve(status=Status.RUNNING), lease.epoch, is_resident=True))
    assert (story.status("s"), story.lease("s").reason) == (["running"], None)
    story.passes(100)
    assert story.status("s") == ["running"]


def test_nobody_borrows_from_a_session_that_waits_again() -> None:
    """It gave its promise up: what was lent from it is the borrower's own."""
    lender = running(session("s", "0.5"), "h1-0", status=Status.YIELDING)
    story = Story(books(lender, on_loan(job("j", "0.25"), ("s", "h1-0", "0.25"))))
    story.then(Attested("s", lender.epoch))
    assert not story.lease("j").loans


def test_nobody_borrows_where_a_session_that_knew_better_is_no_longer() -> None:
    """Books of yesterday have it parked on one device, it has moved since: its borrowers there have their own now."""
    lender = parked(session("s", "0.5"), "h1-0")
    story = Story(books(lender, on_loan(job("j", "0.25"), ("s", "h1-0", "0.25")), per_host=2))
    moved = running(session("s", "0.5"), "h1-1", epoch=4)
    story.then(Returned(moved, 4, is_resident=True))
    assert story.status("s", "j") == ["running", "running"]
    assert story.lease("s").devices == ("h1-1",)
    assert not story.lease("j").loans
