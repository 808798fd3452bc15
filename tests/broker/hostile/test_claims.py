"""A hub's claims, crafted: wrong types, too long, of others, with names that mean something elsewhere."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker import hub_wire, wire
from jupyter_gpushare.rules.invariants import violations
from tests.broker.service.bench import Bench, processes_of
from tests.broker.service.hub_town import POLICY, HubTown, session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

KEY = "hub:ana%2F"
SURROGATE = b'{"share":"0.5","project":"\\ud800","person":"ana"}'


@pytest.fixture(name="town")
def _town(bench: Bench) -> HubTown:
    """A hub's broker with one device."""
    return HubTown(bench)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"share"',
        b"{" * 10_000,
        b'{"share": 0.5, "project": "team", "person": "ana"}',
        b'{"share": "0.5", "project": "team", "person": ["ana"]}',
        b'{"share": "0.5", "project": "", "person": "ana"}',
        b'{"share": "", "project": "team", "person": "ana"}',
        b'{"share": "' + b"9" * 200 + b'", "project": "team", "person": "ana"}',
        b'{"share": "1e309", "project": "team", "person": "ana"}',
        b'{"share": "-1", "project": "team", "person": "ana"}',
        b'{"share": "0", "project": "team", "person": "ana"}',
        b'{"share": "99999999999999999999x1", "project": "team", "person": "ana"}',
        b'{"share": "<script>", "project": "team", "person": "ana"}',
        b'{"share": "0.5", "project": "team", "person": "' + b"a" * 201 + b'"}',
        b'{"share": "0.5", "project": "' + b"a" * 201 + b'", "person": "ana"}',
        b'{"share": "0.5", "project": "team", "person": "ana", "name": ""}',
        b'{"share": "0.5", "project": "team", "person": "ana", "uid": 0}',
        b'{"share": "0.5", "project": "team", "person": "ana", "reserve_s": 1e300}',
        b'{"share": "0.5", "project": "team", "person": "ana", "reserve_s": -1}',
        b'{"share": "0.5", "project": "team", "person": "ana", "reserve_s": NaN}',
        b'{"share": "0.5", "project": "team", "person": "ana", "for_s": 0}',
        b'{"share": "0.5", "project": "team", "person": "ana", "wait": "yes"}',
        b'{"share": "0.5", "project": "team", "person": "ana", "groups": "team"}',
        b'{"share": "0.5", "project": "team", "person": "ana", "groups": [' + b'"x",' * 1001 + b'"x"]}',
        b'{"share": "0.5", "project": "team", "person": "ana", "pool": "' + b"p" * 64 + b'"}',
        SURROGATE,
        b'\xff{"share": "0.5"}',
    ],
    ids=range(29),
)
def test_a_crafted_claim_is_refused_and_leaves_nothing(town: HubTown, play: Play, body: bytes) -> None:
    """Whatever is sent in a claim's place: 400 with words, no lease, and the broker goes on."""

    async def story(bench: Bench) -> None:
        answer = await town.ask("PUT", f"claims/{KEY}", body=body)
        assert answer.status == 400, answer
        assert answer.of(wire.ErrorAnswer).error.text
        assert not bench.broker.books.leases
        assert (await town.start(KEY)).status == 201

    play(story)


@pytest.mark.parametrize("key", ["k" * 201, "%00", "a%0Ab", "%ff%fe", "%E2%80%AE"])
def test_a_key_that_cannot_be_shown_is_refused(town: HubTown, play: Play, key: str) -> None:
    """A key is what people and logs see: printable, and not without end."""

    async def story(bench: Bench) -> None:
        for verb, path in (("PUT", ""), ("GET", "?person=ana"), ("DELETE", "?person=ana"), ("POST", "/alive")):
            body = {"share": "0.5", "project": "team", "person": "ana"} if verb == "PUT" else {"person": "ana"}
            answer = await town.ask(verb, f"claims/{key}{path}", body=body if verb in ("PUT", "POST") else None)
            assert answer.status == 400, answer
        assert not bench.broker.books.leases

    play(story)


def test_names_of_people_and_servers_are_data(town: HubTown, play: Play) -> None:
    """HTML, quotes, slashes and other alphabets in names come back as they are, in JSON, and nowhere as anything else."""

    async def story(bench: Bench) -> None:
        name = "<img src=x onerror=alert(1)>'\"&../李"
        town.file.write_text(POLICY + '[projects.all]\nquota = "1"\n')
        await bench.broker.reload()
        answer = await town.put("k%2F..%2Fk", person=name, name=name, project="all", wait=True)
        assert (answer.status, answer.claim.lease.name, answer.claim.lease.person) == (201, name, name)
        assert answer.claim.key == "k/../k"
        found = (await town.ask("GET", "claims")).of(hub_wire.ClaimsAnswer).claims
        assert [(each.key, each.person) for each in found] == [("k/../k", name)]

    play(story)


def test_one_person_cannot_take_all_places_in_line(bench: Bench, play: Play) -> None:
    """A hub's claims count against the person that they are for, and the next one is told why."""
    town = HubTown(bench, POLICY + "[broker]\nperson_claims = 3\n")

    async def story(bench: Bench) -> None:
        for number in range(3):
            assert (await town.put(f"k{number}", share="0.1", wait=True)).status == 201
        answer = await town.put("k4", share="0.1", wait=True)
        assert (answer.status, answer.code) == (429, "TOO_MANY_CLAIMS")
        assert (await town.put("k4", share="0.1", person="bo", wait=True)).status == 201
        assert not violations(bench.broker.books)

    play(story)


def test_a_token_of_another_lease_opens_no_claim(town: HubTown, play: Play) -> None:
    """The token in one server's environment neither sees, keeps nor ends what the hub holds for another."""

    async def story(bench: Bench) -> None:
        first = (await town.start(KEY, share="0.25")).claim
        await town.start("hub:bo%2F", person="bo", share="0.25")
        for verb, path, body in (
            ("GET", "claims/hub:bo%2F?person=bo", None),
            ("DELETE", "claims/hub:bo%2F?person=bo", None),
            ("POST", "claims/hub:bo%2F/alive", {"person": "bo"}),
            ("PUT", "claims/hub:bo%2F", {"share": "0.25", "project": "team", "person": "bo"}),
            ("GET", f"claims/{KEY}", None),
        ):
            assert (await town.ask(verb, path, first.token, body)).status == 403
        holding = town.client(first.token).hold(session("hub:bo/", share="0.25"), processes_of(os.getpid()))
        await asyncio.wait_for(holding.over(), 60)
        assert holding.refusal is not None
        await holding.close()
        assert len(bench.broker.books.leases) == 2

    play(story)
