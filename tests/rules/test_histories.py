"""Random histories with crashes: no lease is lost or doubled, no device overfilled, no decision makes anything worse."""

from __future__ import annotations

import pytest

from jupyter_gpushare.rules.change import Change, Verb
from tests.rules.histories import History, play

# `make soak` plays ten thousand; here each seed is one that all runs repeat.
BLOCKS, IN_A_BLOCK = 4, 8


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_is_lost_or_overfilled_whatever_happens(block: int) -> None:
    """I1-I4, I6 and I7 after every step, attested by devices that know what is really on them; and all can end."""
    for seed in range(block * IN_A_BLOCK, (block + 1) * IN_A_BLOCK):
        assert not play(seed).violations, f"history {seed}"


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(483, id="an old word that a device is free comes late"),
        pytest.param(8920, id="a burst takes the host memory into which another was to park"),
        pytest.param(9424, id="one is to restore where another one has come back alone"),
    ],
)
def test_what_happens_seldom_does_no_harm(seed: int) -> None:
    """Histories that a soak found: in each the one thing happens, at the moment at which it can do harm."""
    assert not play(seed).violations


def test_histories_are_about_something() -> None:
    """Loans, calls, parks, resumes, reclaims, bursts, fencing and adoption all happen in them."""
    seen: set[Verb] = set()
    loans = 0

    def look(_world: object, _before: object, _after: object, change: Change, _events: object) -> None:
        nonlocal loans
        seen.update(line.verb for line in change.audit)
        loans += sum(bool(lease.loans) for lease in change.leases.values())

    for seed in range(100, 125):
        history = History(seed)
        history.world.checks = [look]
        for _ in range(200):
            history.happen()
    assert set(Verb) - seen <= {Verb.FAILED, Verb.LOSS, Verb.MOVED, Verb.REQUEUED, Verb.TRESPASSED}
    assert loans > 20
