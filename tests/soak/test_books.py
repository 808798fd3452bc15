"""What the soak forgives in the books of a broker that was killed, and what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.ledger import Recorded
from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.reason import Reason
from scripts.soak.broker_books import compare, excess_on, left_unheard, rests_though_there_is_room
from scripts.soak.record import Block
from tests.rules.builders import books, device, gpus, job, parked, running, session

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot


def looked_at(*leases: Lease) -> tuple[Block, Snapshot, set[str]]:
    """The books of a device of which strangers hold half, compared while no light holder is there."""
    there = books(
        *(each.evolve(key=each.id) for each in leases),
        devices=[device("h1-0", foreign=gpus("0.5"))],
        quotas={"team-a": "2"},
    )
    block = Block("books", 1)
    return block, there, compare(block, "a moment", there, [], list)


def test_who_came_back_alone_is_looked_at_again() -> None:
    """What a parked notebook's own share explains is counted, and its device named for a later look."""
    block, there, alone = looked_at(parked(session("real", "0.5"), "h1-0"), running(session("x", "0.5"), "h1-0"))
    assert not block.violations
    assert alone == {"h1-0"}
    assert excess_on(there, alone)


def test_a_parked_notebook_hides_no_double_promise() -> None:
    """More than it has itself cannot be its doing: that is a violation, whatever is foreign there."""
    block, _, _ = looked_at(
        parked(session("real", "0.1"), "h1-0"), running(session("x", "0.5"), "h1-0"), running(job("y", "0.4"), "h1-0")
    )
    assert [each for each in block.violations if "I1" in each]


@pytest.mark.parametrize(("beside", "rests"), [("0.75", False), ("0.5", True)])
def test_a_job_waits_for_its_device_only_while_that_is_full(beside: str, *, rests: bool) -> None:
    """With room for it on its device it has nothing to wait for, and nobody is to make way."""
    waits = parked(job("w", "0.5"), "h1-0", is_parkable=True, reason=Reason.WAITING_FOR_SAME_DEVICE)
    there = books(waits, running(session("x", beside), "h1-0"))
    assert bool(rests_though_there_is_room(there, "w")) is rests
    assert not rests_though_there_is_room(there, "x")


@pytest.mark.parametrize(
    ("past", "is_forgiven"),
    [
        ((Verb.STARTED, Verb.CALLED_BACK, Verb.VANISHED), True),
        ((Verb.STARTED, Verb.RECLAIMED, Verb.VANISHED), True),
        ((Verb.STARTED, Verb.VANISHED), False),
        ((Verb.STARTED, Verb.ASKED_TO_PARK, Verb.VANISHED), False),
    ],
)
def test_only_who_left_as_it_was_told_may_be_gone(past: tuple[Verb, ...], *, is_forgiven: bool) -> None:
    """A holder that was not asked to leave, or was to be parked, has lost its lease if that ends in its silence."""
    lease = running(job("y"), "h1-0")
    entries = [entry(lease, verb, 1.0) for verb in past]
    entries.append(entry(lease.evolve(reason=Reason.HOLDER_GONE), Verb.ENDED, 2.0))
    lines = [Recorded(number, each) for number, each in enumerate(entries)]
    assert left_unheard(lines) == ({"y"} if is_forgiven else set())
