"""The two cullers, over the same small hub: our own rounds, and the idle culler's hook as its documentation calls it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.cull_policy import CullPolicy, Limits
from jupyter_gpushare.hub.culling.arbiter import gpu_cull_arbiter, make_arbiter
from jupyter_gpushare.hub.culling.hub_servers import HubServers, HubTroubleError
from jupyter_gpushare.hub.culling.rounds import Rounds
from jupyter_gpushare.hub.culling.verdict import Why
from tests.broker.service.bench import until

from .known import HOUR, Known
from .small_hub import TOKEN, SmallHub

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.hub.culling.rounds import Round

SHOULD_STOP = {"bo/", "dee/", "ed/", "gus@x/", "gus@x/second", "hal/"}


def town() -> tuple[SmallHub, Known]:
    """Servers of every kind; those of `SHOULD_STOP` are to be stopped."""
    now = time.time()
    hub, known = SmallHub(page=3), Known(now)

    def server(person: str, name: str = "", *, active_h: float, age_h: float = 50, **more: Any) -> None:
        hub.add(person, name, active=now - active_h * HOUR, started=now - age_h * HOUR, **more)

    server("ana", active_h=0.5)  # active
    server("bo", active_h=2)  # idle, no GPU
    server("cy", active_h=20)  # idle for the hub, yet its cell computes
    known.add("cy", "", "running", None)
    server("dee", active_h=0.01)  # a tab is open, and nobody has used it
    known.add("dee", "", "running", 2)
    server("ed", active_h=30)  # parked for longer than what is parked may be
    known.add("ed", "", "parked", 30)
    server("fay", active_h=5)  # parked, and may be for long
    known.add("fay", "", "parked", 5)
    server("gus@x", active_h=2)  # both of somebody's servers, of which one has a share
    server("gus@x", "second", active_h=2)
    known.add("gus@x", "second", "running", 2)
    server("hal", active_h=0.1, age_h=101)  # as old as servers may be
    server("ida", active_h=9, pending="stop")  # stops already
    server("jo", active_h=9, ready=False)
    server("kim", active_h=9)  # was not warned
    known.add("kim", "", "running", 9, warned_since=None)
    server("lou", active_h=9)  # kept
    known.add("lou", "", "running", 9, kept_until=now + HOUR)
    return hub, known


async def rounds_over(hub: SmallHub, known: Known, **options: Any) -> Round:
    """What one round of ours did."""
    with hub.serving():
        return await Rounds(HubServers(hub.url, TOKEN), known, **options).once()


async def hook_over(hub: SmallHub, hook: Callable[..., Any], limit_s: float = HOUR) -> None:
    """Ask *hook* about every server as the idle culler does, and stop what it says."""
    now = datetime.now(UTC)
    for person, servers in sorted(hub.users.items()):
        for name, server in servers.items():
            if server["pending"] or not server["ready"]:
                continue
            inactive = now - datetime.fromisoformat(server["last_activity"])
            answer = hook(inactive=inactive, inactive_limit=limit_s, server=server)
            if await answer if inspect.isawaitable(answer) else answer:
                hub.stopped.append(f"{person}/{name}")


async def test_our_rounds_stop_those_whose_time_has_come() -> None:
    """Page by page, through addresses that a proxy rewrote, exactly those, and each is announced before."""
    hub, known = town()
    hub.calls_itself = "hub.example.org"
    seen = await rounds_over(hub, known)
    assert set(hub.stopped) == SHOULD_STOP
    assert {f"{stop.person}/{stop.server}" for stop in known.announced} == SHOULD_STOP
    assert {stop.why for stop in seen.stopped} == {Why.IDLE, Why.PARKED_TOO_LONG, Why.TOO_OLD}
    assert seen.seen == {
        Why.IDLE: 4, Why.PARKED_TOO_LONG: 1, Why.TOO_OLD: 1, Why.NOT_YET: 3, Why.IN_USE: 1, Why.PENDING: 1,
        Why.NOT_READY: 1, Why.WARNING: 1,
    }  # fmt: skip


async def test_the_hook_decides_the_same() -> None:
    """Whichever culler a hub has, the same servers are stopped; those with a share are announced."""
    hub, known = town()
    await hook_over(hub, make_arbiter(lambda _: known))
    assert set(hub.stopped) == SHOULD_STOP
    assert {f"{stop.person}/{stop.server}" for stop in known.announced} == {"dee/", "ed/", "gus@x/second"}


async def test_the_hook_asks_once_in_a_round() -> None:
    """Thousands of servers cost one question, and the next round asks anew."""
    hub, known = town()
    seconds = [0.0]
    hook: Any = make_arbiter(lambda _: known, clock=lambda: known.at + seconds[0])
    await hook_over(hub, hook)
    assert known.asked == 1
    seconds[0] += 60
    await hook_over(hub, hook)
    assert known.asked == 2


async def test_servers_asked_about_at_once_wait_for_one_answer() -> None:
    """A person with many servers has them judged together: none is judged before the evidence is there."""
    _, known = town()
    hook: Any = make_arbiter(lambda _: known)
    server = {"full_name": "bo/", "ready": True, "user_options": {}}
    answers = [hook(timedelta(hours=2), HOUR, server) for _ in range(5)]
    assert await asyncio.gather(*answers) == [True] * 5
    assert known.asked == 1


@pytest.mark.parametrize("culler", ["rounds", "hook"])
async def test_without_evidence_nobody_is_stopped(culler: str) -> None:
    """The broker is away: a server that looks idle may be computing, or parked in good faith."""
    hub, known = town()
    known.is_away = True
    if culler == "rounds":
        await rounds_over(hub, known)
    else:
        await hook_over(hub, make_arbiter(lambda _: known))
    assert hub.stopped == []


@pytest.mark.parametrize("culler", ["rounds", "hook"])
async def test_who_objects_goes_on(culler: str) -> None:
    """Somebody pressed Keep since the evidence was gathered: announcing it finds out."""
    hub, known = town()
    known.objects = {"dee/"}
    if culler == "rounds":
        seen = await rounds_over(hub, known)
        assert [(stop.person, why) for stop, why in seen.went_on] == [("dee", "KEPT")]
    else:
        await hook_over(hub, make_arbiter(lambda _: known))
    assert set(hub.stopped) == SHOULD_STOP - {"dee/"}


async def test_the_hub_breaks_off_in_the_middle() -> None:
    """What was announced before that is done, and the trouble is told."""
    hub, known = town()
    hub.fails_at = 1
    with pytest.raises(HubTroubleError, match="502"):
        await rounds_over(hub, known)
    assert hub.stopped == ["bo/"]


async def test_a_server_that_does_not_stop_holds_up_nobody() -> None:
    """The others are stopped, and it is told which did not."""
    hub, known = town()
    hub.refuses = {"ed/"}
    seen = await rounds_over(hub, known)
    assert set(hub.stopped) == SHOULD_STOP - {"ed/"}
    assert [stop.person for stop, _ in seen.went_on] == ["ed"]


async def test_a_wrong_token_is_told() -> None:
    """A culler without the hub's permission says so, and does not take an empty list for an empty hub."""
    hub, known = town()
    with hub.serving(), pytest.raises(HubTroubleError, match="403"):
        await Rounds(HubServers(hub.url, "wrong"), known).once()


async def test_rounds_go_on_after_trouble(caplog: pytest.LogCaptureFixture) -> None:
    """A hub that restarts is looked at again; its trouble is told once, and a stop is not lost for it."""
    hub, known = town()
    hub.fails_at = 0
    known.policy = CullPolicy(known.policy.base, every_s=0.01)
    with hub.serving(), caplog.at_level(logging.INFO):
        going = asyncio.ensure_future(Rounds(HubServers(hub.url, TOKEN), known).go_on())
        try:
            await until(lambda: known.asked >= 3)
            hub.fails_at = None
            await until(lambda: SHOULD_STOP.issubset(hub.stopped))
        finally:
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)
    assert caplog.text.count("Culling goes on when the hub does") == 1


async def test_a_policy_that_stops_nothing_asks_the_hub_nothing() -> None:
    """Where an admin only parks, ten thousand servers are not listed every five minutes."""
    hub, known = town()
    known.policy = CullPolicy(Limits(park_after_s=60.0), every_s=0.01)
    going = asyncio.ensure_future(Rounds(HubServers("http://127.0.0.1:9/hub/api", TOKEN), known).go_on())
    await until(lambda: known.asked >= 3)
    assert not going.done()
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    assert hub.stopped == []


async def test_a_culler_without_a_service_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The hook in a culler that does not know where our service is: everything goes on, and the log says what to set."""
    for name in ("GPUSHARE_BROKER", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert deepcopy(gpu_cull_arbiter) is gpu_cull_arbiter  # traitlets copies what stands in a configuration
    answer: Any = gpu_cull_arbiter(timedelta(days=9), HOUR, {"full_name": "bo/", "ready": True})
    assert not await answer
    assert "GPUSHARE_BROKER" in caplog.text


@pytest.mark.parametrize(
    ("model", "stops"),
    [
        ({"full_name": "dee/"}, True),
        ({"full_name": None, "progress_url": "/base/hub/api/users/dee/server/progress"}, True),
        ({"progress_url": "/hub/api/users/gus%40x/servers/second/progress"}, True),
        ({"progress_url": "/hub/api/users/cy/server/progress"}, False),
        ({"url": "/user/dee/"}, False),  # whose it is cannot be told
        ({"full_name": 5, "progress_url": 7}, False),
        ({"full_name": "bo/", "user_options": ["nonsense"]}, True),
        ({"full_name": "ana/", "started": "not a moment"}, False),
    ],
)
async def test_whose_a_server_is(model: dict[str, Any], stops: bool) -> None:  # noqa: FBT001  # a row of the table
    """Hubs of all versions show whose a server is; one that does not has it go on."""
    _, known = town()
    hook: Any = make_arbiter(lambda _: known)
    inactive = timedelta(hours=0.5 if model.get("full_name") == "ana/" else 2)
    assert await hook(inactive, HOUR, {"ready": True, **model}) is stops


async def test_nobody_can_stop_anothers_server_by_a_claim_of_its_name() -> None:
    """A lease that somebody else holds under that name says nothing about the server."""
    _, known = town()
    known.shares["hub:ana/"] = known.shares["hub:dee/"]
    hook: Any = make_arbiter(lambda _: known)
    assert not await hook(timedelta(hours=0.5), HOUR, {"full_name": "ana/", "ready": True})


async def test_age_is_judged_where_it_matters() -> None:
    """A limit of age for one profile alone is enough to look at when servers started, by either culler."""
    hub, known = town()
    known.policy = CullPolicy(Limits(), {}, {"rstudio": {"max_age_s": HOUR}})
    for server in hub.users["ana"].values():
        server["user_options"] = {"profile": "rstudio"}
    await hook_over(hub, make_arbiter(lambda _: known), 1e9)
    assert hub.stopped == ["ana/"]
    hub.stopped.clear()
    await rounds_over(hub, known)
    assert hub.stopped == ["ana/"]
