"""The broker's OpenAPI document against a broker that runs: whatever is sent, what it says is what is answered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker import handlers
from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.openapi import document
from tests.broker.service.bench import SESSION, Bench
from tests.broker.service.fuzzing import Fuzzed, operations
from tests.broker.service.test_access import POLICY, ROLES, TOKENS, _town, ask  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

# `make test-matrix` installs the fuzzer.
pytestmark = pytest.mark.matrix

KEY = "hub:owner/lab"
APPLIED = [POLICY, POLICY.replace('"1"', '"0.5"'), "", "[projects.team]\nquota = 1"]


@pytest.mark.parametrize(("path", "verb"), operations(document()))
def test_whatever_is_sent_what_the_document_says_is_answered(path: str, verb: str, town: Bench, play: Play) -> None:
    """Each operation, as each kind of caller, with data that fit and that do not."""
    # Nothing happens by itself, and no file sets what admins may set here: what changes, a request has changed.
    town.options["clock"] = VirtualClock()
    town.settings = replace(town.settings, configuration=None)

    async def story(bench: Bench) -> None:
        fuzzed = await fuzzed_town(bench)
        await fuzzed.fuzz(path, verb)
        assert {who for who, _ in fuzzed.answers} == set(ROLES)

    play(story)


async def fuzzed_town(bench: Bench) -> Fuzzed:
    """A town with a lease, a claim of the hub and an ask in it, all of whose people have been there."""
    assert await ask(bench, "POST", "/apply", TOKENS["admin"], {"text": POLICY}) == 200
    raw = await bench.raw(Authorization=f"Bearer {TOKENS['owner']}")
    welcome = await raw.greet(msgspec.structs.replace(SESSION, project="team", share="0.25"))
    claim = {"share": "0.25", "project": "team", "person": "owner"}
    assert await ask(bench, "PUT", "/claims/hub:owner%2Flab", "hub", claim) == 201
    assert (
        await ask(bench, "POST", "/asks", TOKENS["member"], {"project": "team", "what": "quota", "amount": "2"}) == 201
    )
    for person in ("guest", "mate"):
        assert await ask(bench, "PUT", f"/projects/team/members/{person}", "lead") == 200
    tokens = {who: {"nobody": "", "lease": welcome.token}.get(who) or TOKENS.get(who, who) for who in ROLES}
    tokens["nobody"] = ""
    for token in tokens.values():
        await ask(bench, "GET", "/", token)
    address = next(each for each in bench.broker.addresses if each.startswith("http"))
    return Fuzzed(bench.broker, bench.books, f"{address}{handlers.API}", document(), tokens, known(welcome.lease.id))


def known(lease: str) -> dict[str, list[Any]]:
    """What there is in the town."""
    return {
        "lease_id": [lease],
        "lease": [lease],
        "key": [KEY, "lab"],
        "prefix": ["hub:"],
        "project": ["team"],
        "person": ["owner", "guest", "mate", "", "nul\0"],
        "groups": [None, None, ["team"], ["team", "nul\0"]],
        "share": ["0.25", "0.1..0.5", "1GiB", "4"],
        "amount": ["2", "3", "0.5"],
        "what": ["quota", "limit"],
        "limit": ["0.5", "1", ""],
        "quota": [None, "1"],
        "number": [1],
        "host": ["simulated", ""],
        "device": [""],
        "text": APPLIED,
        "pool": ["default", ""],
        "group": ["team", "leads"],
        "status": ["granted", "queued"],
    }
