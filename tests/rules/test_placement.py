"""Where a claim goes (DESIGN 5, rule 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.capacity import Host
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import books, device, gpus, job, on_loan, parked, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot


def _place(snapshot: Snapshot, claim: Lease) -> list[str]:
    """The devices that *claim* gets; none if it waits."""
    story = Story(snapshot)
    story.then(Submitted(claim))
    return list(story.lease(claim.id).devices)


def test_binpack_takes_the_fullest_device_that_fits() -> None:
    """A fraction goes where the least is left that it fits into, so that whole GPUs stay free."""
    there = [running(job("a", "0.5"), "h1-1"), running(job("b", "0.75"), "h1-2")]
    assert _place(books(*there, per_host=4), session("n", "0.5")) == ["h1-1"]
    assert _place(books(*there, per_host=4), session("n", "0.25")) == ["h1-2"]


def test_ties_go_to_the_fullest_host_and_then_by_name() -> None:
    """Empty GPUs are all alike: the one on the fullest host is taken, then the first by name."""
    assert _place(books(hosts=2, per_host=2), job("n", "1")) == ["h1-0"]
    assert _place(books(running(job("a", "0.5"), "h2-1"), hosts=2, per_host=2), job("n", "1")) == ["h2-0"]


def test_a_whole_gpu_is_an_empty_one() -> None:
    """A whole-GPU claim never joins anybody, and a notebook's not even a parked notebook."""
    there = [running(job("a", "0.1"), "h1-0"), parked(session("s", "0.5"), "h1-1")]
    assert _place(books(*there, per_host=2), session("n", "1")) == []
    assert _place(books(*there, per_host=3), session("n", "1")) == ["h1-2"]


def test_a_whole_gpu_job_may_stand_on_parked_promises() -> None:
    """A whole-GPU job fits a GPU whose notebooks are all parked, and borrows from each of them."""
    there = [parked(session("s1", "0.5"), "h1-0"), parked(session("s2", "0.25"), "h1-0")]
    story = Story(books(*there))
    story.then(Submitted(job("n", "1")))
    lease = story.lease("n")
    assert lease.devices == ("h1-0",)
    assert {loan.lender: str(loan.amount) for loan in lease.loans} == {"s1": "0.5", "s2": "0.25"}


def test_several_gpus_are_all_on_one_host_or_none_is_granted() -> None:
    """Three GPUs here and one there are not four GPUs: nothing is granted by halves."""
    there = [running(session("s", "0.1"), "h1-0"), running(session("t", "0.1"), "h2-0")]
    snapshot = books(*there, hosts=2, per_host=4)
    assert _place(snapshot, job("n", "4")) == []
    assert _place(snapshot, job("n", "3")) == ["h1-1", "h1-2", "h1-3"]


def test_several_fractions_are_on_as_many_devices() -> None:
    """``2x0.5`` is half of two GPUs, and never one whole one."""
    assert _place(books(per_host=1), job("n", "2x0.5")) == []
    assert _place(books(running(job("a", "0.5"), "h1-2"), per_host=3), job("n", "2x0.5")) == ["h1-2", "h1-0"]


def test_several_gpus_take_the_fullest_host_that_fits() -> None:
    """A claim for two leaves the emptier host whole for larger ones."""
    there = [running(job("a", "1"), "h2-0"), running(job("b", "1"), "h2-1")]
    assert _place(books(*there, hosts=2, per_host=4), job("n", "2")) == ["h2-2", "h2-3"]


def test_spread_takes_the_emptiest() -> None:
    """Under ``spread`` a fraction goes to an empty GPU, on the host where most is left."""
    there = [running(job("a", "0.5"), "h1-0"), running(job("b", "0.25"), "h2-0")]
    snapshot = books(*there, hosts=2, per_host=2, placement="spread")
    assert _place(snapshot, session("n", "0.25")) == ["h2-1"]


def test_spread_groups_stay_apart() -> None:
    """Leases of one group avoid each other's devices, then each other's hosts, even where it is fuller."""
    there = [
        running(session("a", "0.25", spread_group="x"), "h1-0"),
        running(session("b", "0.75"), "h1-1"),
        running(session("c", "0.5"), "h2-0"),
    ]
    snapshot = books(*there, devices=[device("h1-0"), device("h1-1"), device("h2-0")], placement="spread")
    assert _place(snapshot, session("n", "0.25", spread_group="x")) == ["h2-0"]
    assert _place(snapshot, session("n", "0.25")) == ["h1-0"]


def test_spread_groups_see_what_is_granted_in_the_same_moment() -> None:
    """Three of a group that come together do not land on one device."""
    story = Story(books(per_host=3, placement="spread"))
    story.then(*(Submitted(session(name, "0.25", spread_group="x")) for name in "abc"))
    assert {story.lease(name).devices for name in "abc"} == {("h1-0",), ("h1-1",), ("h1-2",)}


def test_kind_and_pool_are_kept() -> None:
    """A claim for a kind or a pool goes nowhere else, however full it is there."""
    devices = [device("h1-0"), device("h1-1", kind="t4"), device("h1-2", pool="other")]
    snapshot = books(devices=devices, pools=[Pool("main"), Pool("other")])
    assert _place(snapshot, job("n", "0.5@t4")) == ["h1-1"]
    assert _place(snapshot, job("n", "0.5", pool="other")) == ["h1-2"]
    assert _place(snapshot, job("n", "0.5@t4", pool="other")) == []


def test_a_share_in_gib_costs_its_part_of_the_chosen_device() -> None:
    """16GiB are a fifth of 80 GiB and all of 16 GiB, and go where they fit."""
    small = device("h1-0", usable=Memory.parse("16GiB"))
    story = Story(books(running(job("a", "0.5"), "h1-0"), devices=[small, device("h1-1")]))
    story.then(Submitted(job("n", "16GiB")))
    assert [(grant.device, str(grant.amount)) for grant in story.lease("n").grants] == [("h1-1", "0.2")]


@pytest.mark.parametrize(
    "changes",
    [{"condition": "draining"}, {"condition": "gone"}, {"trespassed": True}, {"foreign": gpus("0.75")}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_device_that_takes_nothing_new_is_left_out(changes: dict[str, object]) -> None:
    """Drained, gone, trespassed on or too full of foreign memory: nothing begins there, though its books are empty."""
    assert _place(books(devices=[device("h1-0", **changes)]), job("n", "0.5")) == []


def test_foreign_memory_is_named() -> None:
    """A claim that only foreign memory keeps waiting says so."""
    story = Story(books(devices=[device("h1-0", foreign=gpus("0.75"))], quotas={"team-a": "1"}))
    story.then(Submitted(session("n", "0.25")), Submitted(session("m", "0.25")))
    assert story.status("n", "m") == ["granted", "queued"]
    roomy = Story(books(devices=[device("h1-0", foreign=gpus("0.1")), device("h1-1", condition="draining")]))
    roomy.then(Submitted(session("n", "0.5")))
    roomy.then(Submitted(session("m", "0.4")), Submitted(session("o", "0.1")))
    assert roomy.status("n", "m", "o") == ["granted", "granted", "queued"]


def test_a_drained_host_takes_nothing_new() -> None:
    """Draining a host drains all of its devices."""
    snapshot = books(hosts=2).with_change(Change(hosts={"h1": Host("h1", condition="draining")}))
    assert _place(snapshot, job("n", "1")) == ["h2-0"]


def test_a_parked_job_fits_only_where_its_memory_belongs() -> None:
    """A parked job does not go on elsewhere, however much is free there; it says what it waits for."""
    there = [running(session("s", "1"), "h1-0"), parked(job("j", "0.5", is_parkable=True), "h1-0")]
    story = Story(books(*there, per_host=2))
    story.passes(1)
    assert (story.status("j"), story.lease("j").reason) == (["parked"], Reason.WAITING_FOR_SAME_DEVICE)


def test_own_room_is_taken_before_a_loan() -> None:
    """A job borrows only what it cannot have for itself: where nothing is promised, nothing is lent."""
    lender = parked(session("s", "1"), "h1-0")
    story = Story(books(lender, running(job("a", "0.5"), "h1-1"), per_host=2))
    story.then(Submitted(job("n", "0.5")))
    assert (story.lease("n").devices, story.lease("n").loans) == (("h1-1",), ())


def test_a_loan_covers_only_what_is_promised() -> None:
    """A grant may be half one's own and half lent; only the lent half stays out of the project's count."""
    lender = parked(session("s", "0.5", "team-b"), "h1-0")
    story = Story(books(lender, quotas={"team-a": "0.5", "team-b": "0.5"}))
    story.then(Submitted(job("n", "0.75")))
    lease = story.lease("n")
    assert (str(lease.amount), str(lease.lent), lease.loans[0].lender) == ("0.75", "0.25", "s")
    assert str(story.snapshot.project_books["team-a"].counted) == "0.5"


def test_loans_are_taken_from_the_fewest_lenders_and_then_the_longest_parked() -> None:
    """One lender called back disturbs one borrower: as few as possible lend to it, those first that are away longest."""
    lenders = [
        parked(session("s1", "0.25"), "h1-0", since=300.0),
        parked(session("s2", "0.25"), "h1-0", since=100.0),
        parked(session("s3", "0.5"), "h1-0", since=400.0),
    ]
    for share, expected in (("0.25", ["s2"]), ("0.5", ["s3"]), ("0.6", ["s2", "s3"]), ("0.9", ["s2", "s1", "s3"])):
        story = Story(books(*lenders))
        story.then(Submitted(job("n", share)))
        assert [loan.lender for loan in story.lease("n").loans] == expected
        assert str(story.lease("n").lent) == share


def test_what_is_lent_already_is_not_lent_again() -> None:
    """Two jobs never stand on the same promise, also when they come at the same moment."""
    story = Story(books(parked(session("s", "1"), "h1-0"), on_loan(job("a", "0.25"), ("s", "h1-0", "0.25"))))
    story.then(*(Submitted(job(name, "0.5")) for name in "bc"))
    assert story.status("b", "c") == ["granted", "queued"]
    assert str(story.snapshot.device_books["h1-0"].lent) == "0.75"


def test_nobody_borrows_from_a_notebook_that_is_wanted_back() -> None:
    """A parked notebook on its way back lends nothing more, even before it has its room."""
    lender = parked(session("s", "1"), "h1-0")
    story = Story(books(lender, on_loan(job("a", "0.5"), ("s", "h1-0", "0.5"))))
    story.wants("s", Target.RUNNING)
    story.then(Submitted(job("n", "0.5")))
    assert story.status("s", "n") == ["parked", "queued"]
