"""The OpenAPI document of a hub's service against one that runs: what it says is what is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.hub.service.described import described
from tests.broker.service.fuzzing import Fuzzed, operations

from .bench import HUB_TOKEN, POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]

# `make test-matrix` installs the fuzzer.
pytestmark = pytest.mark.matrix

KEY = "hub:ana/"


@pytest.mark.parametrize(("path", "verb"), operations(described()))
def test_whatever_is_sent_what_the_document_says_is_answered(
    path: str, verb: str, bench: ServiceBench, play: Play
) -> None:
    """Each operation, as each kind of caller, with data that fit and that do not."""
    # Nothing happens by itself: what changes, a request has changed.
    bench.options["clock"] = VirtualClock()

    async def story(bench: ServiceBench) -> None:
        fuzzed = await fuzzed_service(bench)
        await fuzzed.fuzz(path, verb)
        assert {who for who, _ in fuzzed.answers} == set(fuzzed.callers)

    play(story)


async def fuzzed_service(bench: ServiceBench) -> Fuzzed:
    """A service with a session, a claim of the hub and an ask, all of whose people have been there."""
    lease = await bench.running("ana", "team-a", KEY, "0.25")
    tokens = tokens_of(bench) | {"a lease": bench._holdings[0].token}
    claim = {"share": "0.25", "project": "team-a", "person": "ana"}
    assert (await bench.ask("PUT", "claims/hub:ana%2Flab", HUB_TOKEN, claim)).status == 201
    ask = {"project": "team-a", "what": "quota", "amount": "3"}
    assert (await bench.ask("POST", "asks", tokens["a team mate"], ask)).status == 201
    for person in ("guest", "gil"):
        added = await bench.ask("PUT", f"projects/team-a/members/{person}", tokens["an owner of the project"])
        assert added.status == 200
    for token in tokens.values():
        await bench.ask("GET", "", token)
    document = (await bench.ask("GET", "openapi.json", tokens["a reader"])).json()
    witnesses = bench.service.culling.witnesses
    return Fuzzed(
        bench.service.broker,
        bench.books,
        f"{bench.url}api/v1",
        document,
        tokens,
        known(lease.id),
        lambda: (dict(witnesses._heard), witnesses._expected),
    )


def tokens_of(bench: ServiceBench) -> dict[str, str]:
    """A token of each kind of caller, by what they are to the session and its project."""
    bench.hub.user("gil", groups=["team-a"])
    bench.hub.user("dora", groups=["gpu-admins"])
    people = {
        "the person itself": "ana",
        "a team mate": "ben",
        "a team mate by group": "gil",
        "an owner of the project": "cy",
        "a stranger": "bo",
        "an admin by group": "dora",
        "an admin": "root-admin",
    }
    return {
        "nobody": "",
        "somebody unknown": "no-token-of-the-hubs",
        "without a scope": bench.hub.token_of("ana", "users:activity!user=ana"),
        "a reader": bench.hub.token_of("ana", "custom:gpushare:read"),
        **{who: bench.hub.token_of(name, f"tokens!user={name}") for who, name in people.items()},
        "a service": bench.hub.token_of("other", "custom:gpushare:read", kind="service"),
        "a culler": bench.hub.token_of("culler", "custom:gpushare:admin", kind="service"),
        "the hub": HUB_TOKEN,
    }


def known(lease: str) -> dict[str, list[Any]]:
    """What there is in the service."""
    return {
        "lease_id": [lease],
        "lease": [lease],
        "key": [KEY, "hub:ana/lab"],
        "prefix": ["hub:"],
        "project": ["team-a"],
        "person": ["ana", "guest", "gil", "", "nul\0"],
        "groups": [None, None, ["team-a"], ["team-a", "nul\0"]],
        "share": ["0.25", "0.1..0.5", "1GiB", "4"],
        "amount": ["3", "4", "0.5"],
        "what": ["quota", "limit"],
        "limit": ["0.5", "1", ""],
        "quota": [None],
        "number": [1],
        "host": ["simulated", ""],
        "device": [""],
        "text": [POLICY, ""],
        "dry_run": [True, True, False],
        "pool": ["default", ""],
        "group": ["team-a"],
        "status": ["running", "queued"],
        "server": [KEY, "hub:ana/lab", ""],
        "stops": [
            [{"person": "ana", "server": "", "why": "IDLE"}],
            [{"person": "zoe", "server": "a", "why": "TOO_OLD"}],
        ],
        "stop_after": [3600, 60.5],
    }
