"""Parked sessions come back in order, as many at once as their hosts and devices take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.event import Attested, HostSeen, Inventory, Running, Submitted, Wanted
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import books, device, gpus, job, on_loan, parked, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease


def eight_parked() -> list[Lease]:
    """Two sessions on each of four devices, all parked."""
    return [parked(session(f"s{n}", "0.5"), f"h1-{n // 2}", since=float(n)) for n in range(8)]


def test_never_more_copies_at_once_than_the_host_takes() -> None:
    """The others wait, and say for what; each that is done lets the next one in."""
    story = Story(books(*eight_parked(), per_host=4, host_changes={"copies": 3}))
    story.then(*(Wanted(f"s{n}", Target.RUNNING) for n in range(8)))
    done = 0
    while done < 8:
        resuming = [lease for lease in story.snapshot.leases.values() if lease.status is Status.RESUMING]
        assert 0 < len(resuming) <= 3
        assert len({lease.devices for lease in resuming}) == len(resuming)  # one on a device at a time
        waiting = {lease.reason for lease in story.snapshot.leases.values() if lease.status is Status.PARKED}
        assert waiting <= {Reason.WAITING_FOR_COPIES, Reason.WAITING_FOR_DEVICE}
        story.obeys(resuming[0].id)
        done += 1


def test_who_waits_longest_comes_first() -> None:
    """By when it was wanted back, not by when it parked."""
    story = Story(books(*eight_parked(), per_host=4, host_changes={"copies": 1}))
    for key in ("s6", "s0", "s4"):
        story.wants(key, Target.RUNNING)
    order = []
    for _ in range(3):
        now = next(lease.id for lease in story.snapshot.leases.values() if lease.status is Status.RESUMING)
        order.append(now)
        story.obeys(now)
    assert order == ["s6", "s0", "s4"]


def test_parks_and_resumes_share_the_copies_of_a_host() -> None:
    """A park under way is a copy like any other."""
    story = Story(
        books(
            running(session("leaving"), "h1-0"),
            parked(session("coming"), "h1-1"),
            per_host=2,
            host_changes={"copies": 1},
        )
    )
    story.wants("leaving", Target.PARKED)
    story.wants("coming", Target.RUNNING)
    assert story.status("leaving", "coming") == ["parking", "parked"]
    assert story.lease("coming").reason is Reason.WAITING_FOR_COPIES
    story.obeys("leaving")
    assert story.status("coming") == ["resuming"]
    story.wants("leaving", Target.RUNNING)
    assert story.lease("leaving").reason is Reason.WAITING_FOR_COPIES


def test_a_holder_that_ignores_what_it_is_asked_keeps_nobody_else_waiting() -> None:
    """Past its deadline it counts as no copy; its own device stays its own until the device shows it free."""
    story = Story(
        books(
            running(session("deaf", "1"), "h1-0", host_memory=Memory.ZERO),
            parked(session("coming"), "h1-1"),
            per_host=2,
            host_changes={"copies": 1},
        )
    )
    story.then(Wanted("deaf", Target.PARKED, memory=Memory.ZERO))
    story.wants("coming", Target.RUNNING)
    assert story.status("coming") == ["parked"]
    story.passes(31)
    assert story.status("deaf", "coming") == ["parking", "resuming"]
    assert story.snapshot.device_books["h1-0"].held == gpus("1")


def test_saves_are_limited_by_themselves() -> None:
    """Jobs that save to disk take no copies, and never more at once than the host takes."""
    leases = [
        lease
        for n in range(4)
        for lease in (
            parked(session(f"s{n}", "1"), f"h1-{n}"),
            on_loan(job(f"j{n}", "1"), (f"s{n}", f"h1-{n}", "1")),
        )
    ]
    story = Story(books(*leases, per_host=4, host_changes={"copies": 1, "saves": 2}))
    story.then(*(Wanted(f"s{n}", Target.RUNNING) for n in range(4)))
    assert sorted(story.status(*(f"j{n}" for n in range(4)))) == ["running", "running", "yielding", "yielding"]
    first = next(key for key in ("j0", "j1", "j2", "j3") if story.status(key) == ["yielding"])
    story.obeys(first)
    assert story.status(*(f"j{n}" for n in range(4))).count("yielding") == 2


def test_foreign_memory_in_the_way_is_named() -> None:
    """Nothing is restored where it does not fit; as soon as the stranger has left, it is."""
    story = Story(books(parked(session("s", "0.8"), "h1-0")))
    story.then(Inventory("h1", (device("h1-0", foreign=gpus("0.5")),)))
    story.wants("s", Target.RUNNING)
    assert story.lease("s").reason is Reason.BLOCKED_BY_FOREIGN_MEMORY
    story.then(Inventory("h1", (device("h1-0"),)))
    assert story.status("s") == ["resuming"]


def test_jobs_make_room_where_strangers_took_it() -> None:
    """A promise is kept although capacity shrank: a job on room of its own yields to it."""
    story = Story(books(parked(session("s", "0.5"), "h1-0"), running(job("training", "0.5"), "h1-0")))
    story.then(Inventory("h1", (device("h1-0", foreign=gpus("0.3")),)))
    story.wants("s", Target.RUNNING)
    assert story.status("training") == ["yielding"]
    story.obeys("training")
    assert story.status("s") == ["resuming"]


def test_a_device_that_is_gone_is_named_and_waited_for() -> None:
    """Its memory belongs to that device alone, which may come back."""
    story = Story(books(parked(session("s"), "h1-0"), per_host=2))
    story.then(Inventory("h1", (device("h1-1"),)))
    story.wants("s", Target.RUNNING)
    assert story.lease("s").reason is Reason.DEVICE_GONE
    story.then(Inventory("h1", (device("h1-0"), device("h1-1"))))
    assert story.status("s") == ["resuming"]


def test_host_memory_is_free_once_it_runs_again_and_not_before() -> None:
    """Until the restore is done the copy is still there."""
    size = Memory.parse("8GiB")
    story = Story(books(parked(session("s"), "h1-0", host_memory=size)))
    story.wants("s", Target.RUNNING)
    assert story.snapshot.host_books["h1"].booked == size
    story.then(Running("s", 2))
    assert story.snapshot.host_books["h1"].booked == Memory.ZERO


def test_a_larger_number_of_copies_counts_at_once() -> None:
    """An admin who raises the limit need not wait for the next event."""
    story = Story(books(*eight_parked(), per_host=4, host_changes={"copies": 1}))
    story.then(*(Wanted(f"s{n}", Target.RUNNING) for n in range(8)))
    host = story.snapshot.hosts["h1"]
    story.then(HostSeen(type(host)("h1", copies=4)))
    assert sum(lease.status is Status.RESUMING for lease in story.snapshot.leases.values()) == 4


def test_who_parks_while_it_is_wanted_back_is_brought_back() -> None:
    """A cell that comes in the middle of a park: it ends the park, then it resumes, in its place by when it came."""
    story = Story(books(running(session("s"), "h1-0")))
    story.wants("s", Target.PARKED)
    story.wants("s", Target.RUNNING)
    assert story.status("s") == ["parking"]
    wanted = story.lease("s").wanted_since
    story.then(Attested("s", 1))
    assert story.status("s") == ["resuming"]
    assert wanted == story.now - 1


def test_a_borrower_stays_where_room_became_free_meanwhile() -> None:
    """A loan that nobody needs back any more is the borrower's own: the notebook comes back at once, the job goes on."""
    lender, other = parked(session("s", "0.5"), "h1-0"), running(session("other", "0.5"), "h1-0")
    story = Story(books(lender, on_loan(job("j"), ("s", "h1-0", "0.5")), other))
    story.wants("other", Target.ENDED)
    story.obeys("other")
    story.wants("s", Target.RUNNING)
    assert story.status("s", "j") == ["resuming", "running"]
    assert not story.lease("j").loans


def test_two_that_come_back_do_not_leave_the_same_room_to_their_borrowers() -> None:
    """Half a GPU is free: one of two borrowers keeps its place, the other is called."""
    lenders = [parked(session(f"s{n}", "0.25"), "h1-0") for n in range(2)]
    borrowers = [on_loan(job(f"j{n}"), (f"s{n}", "h1-0", "0.25")) for n in range(2)]
    story = Story(books(*lenders, *borrowers, running(session("rest", "0.25"), "h1-0")))
    story.then(Wanted("s0", Target.RUNNING), Wanted("s1", Target.RUNNING))
    assert sorted(story.status("j0", "j1")) == ["running", "yielding"]
    assert sorted(story.status("s0", "s1")) == ["parked", "resuming"]


def test_room_that_is_kept_for_a_claim_is_no_borrowers() -> None:
    """A claim for two GPUs waits for its second one: the first is not given to somebody's borrower meanwhile."""
    lender, victim = parked(session("s", "0.5", "b"), "h1-0"), running(job("victim", "1", "c"), "h1-1")
    there = [lender, on_loan(job("j", "0.5", "b"), ("s", "h1-0", "0.5")), victim]
    story = Story(books(*there, per_host=2, quotas={"a": "1", "b": "0.5", "c": "0"}))
    story.then(Submitted(job("claim", "2x0.5", "a")))
    assert (story.lease("claim").reason, story.status("victim")) == (Reason.WAITING_FOR_CALL_BACK, ["yielding"])
    story.wants("s", Target.RUNNING)
    assert story.status("j") == ["yielding"]
    story.obeys("victim", "j")
    assert story.status("claim", "s") == ["granted", "resuming"]


def test_nobody_who_comes_later_keeps_the_first_waiting() -> None:
    """The copy that is free next is for the job that parks for the first, and not for who asked after it."""
    story = Story(
        books(
            parked(session("first", "1"), "h1-0"),
            on_loan(job("j", "1", is_parkable=True), ("first", "h1-0", "1")),
            *(parked(session(f"s{n}", "1"), f"h1-{n}") for n in (1, 2, 3)),
            per_host=4,
            host_changes={"copies": 1},
        )
    )
    story.wants("s1", Target.RUNNING)
    story.passes(1)
    story.wants("first", Target.RUNNING)
    for later in ("s2", "s3"):
        story.passes(1)
        story.wants(later, Target.RUNNING)
    assert story.status("s1", "j", "first", "s2", "s3") == ["resuming", "running", "parked", "parked", "parked"]
    story.obeys("s1")
    assert story.status("j", "s2", "s3") == ["parking", "parked", "parked"]
    story.obeys("j")
    assert story.status("first", "s2", "s3") == ["resuming", "parked", "parked"]
    story.obeys("first")
    assert story.status("s2", "s3") == ["resuming", "parked"]
