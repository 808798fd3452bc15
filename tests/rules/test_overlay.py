"""Many changes one after the other: the same books as from copies, without copying what is very large each time."""

from __future__ import annotations

import random

import pytest

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.event import Attested, Event, Idle, Inventory, Parkable, Submitted, Using, Wanted
from jupyter_gpushare.rules.lease import Lease, Target
from jupyter_gpushare.rules.overlay import Overlay, changed, flat
from jupyter_gpushare.rules.step import _take_all_in, _take_in
from tests.rules.builders import NOW, session
from tests.rules.histories import History


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_mapping_that_copies_would_have_made(seed: int) -> None:
    """Whatever is put, replaced and taken out: every question has the answer of a plain mapping."""
    dice = random.Random(seed)  # noqa: S311  # a seed repeats it
    plain = {f"k{number}": number for number in range(20)}
    over = Overlay(plain)
    for number in range(200):
        new = {f"k{dice.randrange(30)}": dice.choice([None, number]) for _ in range(dice.randrange(3))}
        plain, over = dict(changed(plain, new)), over.changed(new)
        key = f"k{dice.randrange(30)}"
        assert (over.get(key), key in over) == (plain.get(key), key in plain)
        assert (len(over), dict(over)) == (len(plain), plain)
    assert flat(over) == plain
    with pytest.raises(KeyError):
        over["nobody"]


def test_nothing_changed_is_nothing_copied() -> None:
    """Who compares by identity sees that nothing is new."""
    plain = {"a": 1}
    assert flat(Overlay(plain)) is plain
    assert changed(plain, {}) is plain


def test_what_was_before_stays_as_it_was() -> None:
    """Books are immutable, those between two events too."""
    first = Overlay({"a": 1, "b": 2})
    second = first.changed({"a": None, "c": 3})
    assert (dict(first), dict(second)) == ({"a": 1, "b": 2}, {"b": 2, "c": 3})


@pytest.mark.parametrize("seed", range(12))
def test_events_of_one_step_are_taken_in_as_if_each_came_alone(seed: int) -> None:
    """At any moment of a history: the same books, the same change and the same audit, and plain mappings again."""
    history = History(seed)
    history.world.checks = []
    dice = random.Random(seed)  # noqa: S311  # a seed repeats it
    for number in range(60):
        history.happen()
        books, events = history.world.snapshot, _events(history, dice, number)
        together = _take_all_in(books, events, history.world.now)
        after, change = books, Change()
        for event in events:
            after, change = _take_in(after, change, event, history.world.now)
        assert together == (after, change)
        assert isinstance(together[0].leases, dict)
        assert isinstance(together[0].holders, dict)


def _events(history: History, dice: random.Random, number: int) -> list[Event]:
    """Some that repeat the past, some about leases that there are, and somebody new."""
    world = history.world
    there: list[Lease] = [world.snapshot.leases[key] for key in sorted(world.snapshot.leases)]
    made: list[Event] = [Submitted(session(f"new-{number}-{n}", key=f"new-{number}-{n}")) for n in range(3)]
    for lease in there:
        made += [
            Idle(lease.id, dice.choice([None, NOW - 50])),
            Using(lease.id, Memory(dice.randrange(4) << 30)),
            Parkable(lease.id, is_parkable=dice.random() < 0.5),
            Attested(lease.id, lease.epoch),
            Wanted(lease.id, dice.choice(list(Target))),
        ]
    made += [dice.choice(world.past) for _ in range(5) if world.past]
    host = dice.choice(sorted(world.first.hosts))
    made.append(Inventory(host, tuple(each for each in world.first.devices.values() if each.host == host)[:1]))
    return [dice.choice(made) for _ in range(12)]
