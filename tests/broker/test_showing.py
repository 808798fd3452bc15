"""Thousands of leases are shown without anybody else having to wait, and no watcher costs what the first one did."""

from __future__ import annotations

import asyncio

import msgspec

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.broker.models import View
from jupyter_gpushare.broker.showing import message_about, of_person, show
from tests.rules.builders import NOW, books, project, session

ADMIN, ADA, BO = Caller("root", is_admin=True), Caller("ada"), Caller("bo")
MANY = [session(f"s-{number:04}", person="bo" if number % 2 else "ada") for number in range(1000)]


async def shown(caller: Caller) -> tuple[list[wire.LeaseModel], int]:
    """What *caller* is shown, and how many turns another task had meanwhile."""
    turns = 0

    async def somebody_else() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(somebody_else())
    answer = wire.LeasesAnswer(await show(caller, View(books(), NOW), MANY))
    task.cancel()
    return msgspec.json.decode(msgspec.json.encode(answer), type=wire.LeasesAnswer).leases, turns


def test_others_have_their_turn_while_many_are_shown() -> None:
    """An admin's list of everything must not hold up who waits for a GPU."""
    leases, turns = asyncio.run(shown(ADMIN))
    assert [lease.id for lease in leases] == [lease.id for lease in MANY]
    assert turns >= 5


def test_everybody_is_shown_what_it_may_see() -> None:
    """In the order that was asked for, and as a lease alone would be."""
    leases, _ = asyncio.run(shown(ADA))
    view = View(books(), NOW)
    assert leases == [view.lease(lease) for lease in MANY if lease.person == "ada"]


def test_who_may_not_know_whose_a_lease_is_is_not_told_by_asking_for_a_person() -> None:
    """A hub's users see each other's shares without a name; to ask for a name must not give it to one of them."""
    view = View(books(projects=[project("team-a", "4", members=frozenset({"ada", "bo"}))]), NOW)
    of_a_hub = Caller("ada", groups=frozenset())
    assert of_person(of_a_hub, view, MANY, "bo") == []
    assert of_person(of_a_hub, view, MANY, "ada") == [lease for lease in MANY if lease.person == "ada"]
    assert of_person(ADMIN, view, MANY, "bo") == [lease for lease in MANY if lease.person == "bo"]


def test_a_change_is_told_in_the_same_words_made_once() -> None:
    """Ten dashboards cost one; who may not know a notebook's name is not told it for that."""
    view = View(books(), NOW)
    first = message_about(MANY[0], ADMIN, view)
    assert message_about(MANY[0], ADA, view) is first
    assert msgspec.json.decode(first, type=wire.LeaseMessage).lease == view.lease(MANY[0])
    other = msgspec.json.decode(message_about(MANY[0], BO, view), type=wire.LeaseMessage)
    assert other.lease == view.lease(MANY[0], named=False)
