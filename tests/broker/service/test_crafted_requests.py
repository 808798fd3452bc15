"""Requests that were found by calling everything with anything: refused with the field that is wrong, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.wire import ErrorAnswer
from tests.broker.service.bench import until
from tests.broker.service.hub_town import HubTown

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.broker.service.bench import Bench

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]


@pytest.fixture(name="town")
def _town(bench: Bench) -> HubTown:
    """A hub's broker."""
    return HubTown(bench)


#: What a claim says, and the field that the refusal names.
WRONG_BODIES: list[tuple[object, str]] = [
    ({"project": "team"}, "share"),
    ({"share": "0.5", "project": 5}, "project"),
    ({"share": "0.5", "project": "team", "for_s": 0}, "for_s"),
    ({"share": "0.5", "project": "team", "groups": ["a", ""]}, "groups[1]"),
    ({"share": "0.5", "project": "team", "gpus": 2}, "gpus"),
    ({"share": "half", "project": "team"}, "share"),
    (b"[]", ""),
    (b"{", ""),
]


def test_a_body_that_is_wrong_names_its_field(town: HubTown, play: Play) -> None:
    """Not only in the sentence: a form can mark it. What is no object at all has no field."""

    async def story(bench: Bench) -> None:
        for body, field in WRONG_BODIES:
            answer = await town.ask("PUT", "claims/k", "ana", body)
            assert (answer.status, answer.of(ErrorAnswer).field) == (400, field), body

    play(story)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=" + "0" * 5000, "after"),
        ("after=" + "0" * 20 + "9" * 30, "after"),
        ("limit=%0510", "limit"),
        ("since=" + "1" * 50 + "x", "since"),
        ("until=%05", "until"),
    ],
)
def test_a_number_that_is_none_is_refused_whole(town: HubTown, play: Play, query: str, field: str) -> None:
    """All of what was sent is read: its first digits are no number of their own, and a very long one is no mistake of ours."""

    async def story(bench: Bench) -> None:
        answer = await town.ask("GET", f"audit?{query}", "admin")
        assert (answer.status, answer.of(ErrorAnswer).field) == (400, field)

    play(story)


@pytest.mark.parametrize(("field", "words"), [("person", {"person": "a\0"}), ("groups", {"groups": ["team", "b\0"]})])
def test_a_name_that_no_database_holds_stops_nobody_else(
    town: HubTown, play: Play, field: str, words: dict[str, Any]
) -> None:
    """It is refused before anything is made of it; what is told of the next person is kept."""

    async def story(bench: Bench) -> None:
        bad = await town.put("k", **({"groups": ["team"]} | words))
        assert (bad.status, bad.of(ErrorAnswer).field) == (400, field)
        assert (await town.put("k", person="gil", groups=["team"])).status == 201
        await until(lambda: bench.books.past.memberships.get("gil"))

    play(story)


def test_a_refused_change_of_a_claim_leaves_the_claim(town: HubTown, play: Play) -> None:
    """Whoever waits, or looks at a grant, and asks for more than is possible keeps what was had, in line or not."""

    async def story(bench: Bench) -> None:
        before = (await town.put("k", wait=True)).claim
        too_much = await town.put("k", wait=True, share="3x1")
        assert (too_much.status, too_much.code) == (409, "EXCEEDS_PROJECT_QUOTA")
        after = (await town.ask("GET", "claims/k?person=ana")).claim
        assert (after.lease.id, after.lease.share) == (before.lease.id, "0.5")
        other = await town.put("k", wait=True, share="0.25")
        assert (other.status, other.claim.lease.share) == (201, "0.25")

    play(story)


def test_a_claim_that_may_wait_takes_the_place_of_another(town: HubTown, play: Play) -> None:
    """A share that has no room now, and may have some later, is no refusal: it waits in the place of the one before."""

    async def story(bench: Bench) -> None:
        await town.put("full", person="bo", share="1")
        assert (await town.put("k", wait=True, share="0.5")).status == 202
        changed = await town.put("k", wait=True, share="0.25")
        assert (changed.status, changed.claim.lease.share) == (202, "0.25")

    play(story)


def test_who_is_refused_to_take_a_member_back_has_taken_nothing(town: HubTown, play: Play) -> None:
    """Of a person whom both an owner and a group brought, the owner's part is taken back; once it is, there is none."""
    town.groups["gil"] = frozenset({"team"})

    async def story(bench: Bench) -> None:
        await town.ask("GET", "", "gil")
        await town.ask("PUT", "projects/team/members/gil", "cy")
        taken = await town.ask("DELETE", "projects/team/members/gil", "cy")
        assert taken.status == 200
        [gil] = [each for each in taken.of(hub_wire.MembersAnswer).members if each.person == "gil"]
        assert gil.via == "@team"
        lines = len(bench.books.audit)
        again = await town.ask("DELETE", "projects/team/members/gil", "cy")
        assert (again.status, again.code) == (409, "CONFIGURED_BY_FILE")
        assert len(bench.books.audit) == lines

    play(story)
