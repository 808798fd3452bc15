"""The books are kept in step with what changes, and say when they are wrong."""

from __future__ import annotations

import pytest

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.invariants import violations
from jupyter_gpushare.rules.lease import Lease, Status
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import Snapshot
from tests.rules.builders import NOW, books, gpus, job, on_loan, parked, running, session

LENDER = parked(session("lender"), "h1-0")


def test_sound_books_have_nothing_to_say() -> None:
    """The ordinary life of a device."""
    assert violations(books(LENDER, on_loan(job("j"), ("lender", "h1-0", "0.5")), running(session("s"), "h1-0"))) == []


@pytest.mark.parametrize(
    ("leases", "said"),
    [
        ([running(session("a", "0.6"), "h1-0"), running(job("b", "0.6"), "h1-0")], "I1, requests fit the device"),
        ([running(session("a", "0.6"), "h1-0"), parked(session("b", "0.6"), "h1-0")], "I2, promises fit the device"),
        ([on_loan(job("j"), ("nobody", "h1-0", "0.5"))], "loans name a lender with a promise"),
        ([LENDER, on_loan(job("j", "0.8"), ("lender", "h1-0", "0.8"))], "nobody lends more than its promise"),
        (
            [LENDER, on_loan(job("j"), ("lender", "h1-0", "0.5")).evolve(status=Status.PARKED)],
            "who borrows has it on a device",
        ),
        ([running(session("a"), "h1-0", epoch=0)], "who has a grant has an epoch"),
        ([running(job("a"))], "what may be on a device has a grant"),
        ([job("a", loans=LENDER.loans, grants=LENDER.grants)], "what waits has nothing"),
        ([running(session("a"), "h1-0", status=Status.MISSING)], "who is missing was something before"),
        ([running(session("a", "2x0.5"), "h1-0", "h2-0")], "a lease is on one host"),
        ([running(session("a"), "nowhere")], "a lease is on devices that there are"),
        (
            [running(session(key, "0.2"), "h1-0", status=Status.RESUMING) for key in ("a", "b")],
            "one restores on a device at a time",
        ),
        (
            [running(session("a", "0.2..1", is_parkable=False), "h1-0").evolve(bursts=LENDER.grants)],
            "I7, who bursts can be parked",
        ),
        (
            [LENDER, running(session("a", "0.2..1"), "h1-0").evolve(bursts=LENDER.grants)],
            "I7, bursts fit what nobody is promised",
        ),
    ],
)
def test_what_is_wrong_is_named(leases: list[Lease], said: str) -> None:
    """Each mistake by its own words."""
    found = violations(books(*leases, hosts=2, quotas={"team-a": "4"}))
    assert any(each.startswith(said) for each in found), found


def test_a_quota_that_is_exceeded_is_named() -> None:
    """I3."""
    assert violations(books(running(session("a"), "h1-0"), quotas={"team-a": "0.3"})) == [
        "I3, sessions fit the quota: team-a, by 200000"
    ]


def test_leases_that_are_on_their_way_are_found_without_a_search() -> None:
    """What the rules look at in every step is a set of its own; settled leases and waiting claims are not in it."""
    snapshot = books(
        running(session("settled"), "h1-0"),
        running(job("called", "0.1"), "h1-0", reason=Reason.DRAINED),
        running(session("parking", "0.1"), "h1-0", status=Status.PARKING),
        job("waits"),
        LENDER,
    )
    assert snapshot.unsettled == {"called", "parking"}
    assert snapshot.waiting == {"waits"}


def test_a_change_shares_what_it_does_not_touch() -> None:
    """Books of ten thousand leases are not made anew for one."""
    snapshot = books(running(session("a"), "h1-0"), running(session("b"), "h2-0"), hosts=2, quotas={"team-a": "2"})
    after = snapshot.with_change(Change(leases={"a": snapshot.leases["a"].evolve(reason=Reason.NOT_PARKABLE)}))
    assert after.device_books["h2-0"] is snapshot.device_books["h2-0"]
    assert after.waiting is snapshot.waiting
    assert after.unsettled is snapshot.unsettled
    assert after.holders is snapshot.holders


def test_a_hint_moves_no_weight() -> None:
    """That a holder idles, or how much it uses, alters nothing of what devices and hosts have; its project shows it."""
    snapshot = books(running(session("a"), "h1-0"), quotas={"team-a": "2"})
    hint = snapshot.leases["a"].evolve(idle_since=NOW, uses=Memory.parse("1GiB"))
    after = snapshot.with_change(Change(leases={"a": hint}))
    assert after.leases["a"] == hint
    assert after.device_books is snapshot.device_books
    assert after.host_books is snapshot.host_books
    assert after.project_books == snapshot.project_books
    assert after.project_books["team-a"] is not snapshot.project_books["team-a"]


def test_a_hint_does_not_hide_what_comes_with_it() -> None:
    """One change may tell both."""
    snapshot = books(running(session("a"), "h1-0"), quotas={"team-a": "2"})
    parked_now = snapshot.leases["a"].evolve(status=Status.PARKED, host_memory=Memory.parse("1GiB"), idle_since=NOW)
    after = snapshot.with_change(Change(leases={"a": parked_now}))
    assert (after.device_books["h1-0"].held, after.device_books["h1-0"].parked) == (gpus("0"), gpus("0.5"))
    assert after.host_books["h1"].booked == Memory.parse("1GiB")


def test_a_project_knows_what_is_lent_to_it_and_who_waits() -> None:
    """Without a look at its leases."""
    snapshot = books(LENDER, on_loan(job("j", project="team-b"), ("lender", "h1-0", "0.5")), job("w", project="team-b"))
    there = snapshot.project_books["team-b"]
    assert (there.lent, there.waiting) == (gpus("0.5"), 1)
    left = snapshot.leases["j"].evolve(status=Status.PARKED)
    after = snapshot.with_change(Change(leases={"j": left, "w": snapshot.leases["w"].evolve(status=Status.ENDED)}))
    assert (after.project_books["team-b"].lent, after.project_books["team-b"].waiting) == (gpus("0"), 1)


def test_holders_are_found_by_their_own_name() -> None:
    """And are not found any more once their lease is over."""
    snapshot = books(running(session("a", key="server"), "h1-0"))
    assert snapshot.holders == {("ada", "server"): "a"}
    ended = snapshot.with_change(Change(leases={"a": snapshot.leases["a"].evolve(status=Status.ENDED)}))
    assert ended.holders == {}
    assert ended == Snapshot.of(
        projects=snapshot.projects.values(),
        pools=snapshot.pools.values(),
        hosts=snapshot.hosts.values(),
        devices=snapshot.devices.values(),
    )
    assert snapshot.device_books["h1-0"].held == gpus("0.5")
