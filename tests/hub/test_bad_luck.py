"""A real hub under bad input and bad luck: nothing is had by trickery, nothing is lost or left by accident."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

import httpx
import psutil
import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_gpushare.demo.hub.plan import Person
from jupyter_gpushare.demo.hub.staging import ADMIN, ANA, BO
from jupyter_gpushare.demo.hub.visitor import Form

from .odd_servers import OLDER, WITHOUT_US
from .running_hub import ROOT
from .staged_hub import LIGHT, QUICK_POOL, staged, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.demo.hub.visitor import Visitor

    from .staged_hub import StagedHub

pytestmark = pytest.mark.hub

API: Final = "/services/gpushare/api/v1/"
#: What the hub's form says while it cannot ask how full the GPUs are.
_IS_AWAY: Final = "the service that shares the GPUs does not answer"
READER: Final = "reader"
READER_TOKEN: Final = "a-token-of-another-service-0123456789"  # of a hub that lives for this test
_PROGRAM: Final = "from tests.hub.odd_servers import install\ninstall()\n"
_POLICY: Final = (
    f'[broker]\nadmins = ["{ADMIN}"]\n'
    '[projects.team-a]\nquota = 1\nmembers = ["@team-a"]\n[projects.team-b]\nquota = 2\nmembers = ["@team-b"]\n'
    + QUICK_POOL
)
_TRAITS: Final[dict[str, Any]] = {
    "Spawner.cmd": LIGHT,
    "JupyterHub.cleanup_servers": False,
    "JupyterHub.services": [{"name": READER, "api_token": READER_TOKEN}],
    "JupyterHub.load_roles": [
        {"name": READER, "services": [READER], "scopes": ["access:services!service=gpushare", "custom:gpushare:read"]}
    ],
    "JupyterHub.custom_scopes": {"custom:gpushare:read": {"description": "see how GPU shares stand"}},
}


@pytest.fixture(scope="module")
def site() -> Iterator[StagedHub]:
    """A hub with two GPUs, two teams, and two people whose servers are odd."""
    who = (
        Person(ANA, ("team-a",)),
        Person(BO, ("team-b",)),
        Person(WITHOUT_US, ("team-b",)),
        Person(OLDER, ("team-b",)),
        Person(ADMIN, is_admin=True),
    )
    more = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with staged(_POLICY, who=who, traits=_TRAITS, environment_more=more) as staged_hub:
        staged_hub.environment |= more
        staged_hub.begin(_PROGRAM)
        asyncio.run(staged_hub.hub.wait())
        yield staged_hub


async def _leases_of(site: StagedHub, person: str) -> list[LeaseModel]:
    async with site.broker() as broker:
        return [lease for lease in await broker.leases() if lease.person == person]


async def _one_lease(site: StagedHub, person: str, *statuses: str) -> LeaseModel | None:
    found = await _leases_of(site, person)
    return found[0] if len(found) == 1 and found[0].status in statuses else None


async def _start(site: StagedHub, visitor: Visitor, share: str = "0.5") -> LeaseModel:
    """Start a server and wait until its lease runs."""
    await visitor.spawn(share)
    await visitor.until_ready()
    lease: LeaseModel = await until("its lease", lambda: _one_lease(site, visitor.name, "running"))
    return lease


async def _stop(site: StagedHub, visitor: Visitor) -> None:
    await visitor.stop_server()

    async def is_over() -> bool:
        return not await _leases_of(site, visitor.name)

    await until("the end of its lease", is_over)


CRAFTED: Final[list[Any]] = [
    {"share": "0.75"},
    {"share": "8"},
    {"share": "1" * 100_000},
    {"share": "<script>alert(1)</script>"},
    {"share": "{{ ''.__class__ }}"},
    {"share": ["0.5"]},
    {"share": {"x": 1}},
    {"share": 0.5},
    {"share": True},
    {"share": "0.5", "share_project": "team-b"},
    {"share": "0.5", "share_project": "<b>team-a</b>"},
    {"share": "0.5", "share_project": "x" * 5000},
    {"share": "0.5", "share_project": ["team-b"]},
    {"share": "0.5", "share_project": {"$ne": ""}},
    {"share": "0.5\x00"},
    {"share": "1e999"},
    {"share": "-1"},
]


@pytest.mark.parametrize("options", CRAFTED, ids=lambda options: str(options)[:40])
async def test_crafted_options_start_nothing(site: StagedHub, options: dict[str, Any]) -> None:
    """Whatever the REST interface is sent beside what is offered: refused in words, without a lease or a server."""
    async with site.visitors(ANA) as (ana,):
        answer = await ana.api("POST", f"users/{ANA}/server", json=options)
        assert 400 <= answer.status_code < 500, answer.text
        said = answer.json()["message"]
        assert said
        assert len(said) < 1000
        assert await ana.server() is None
    assert await _leases_of(site, ANA) == []


async def test_a_page_of_another_site_does_nothing_in_somebodys_name(site: StagedHub) -> None:
    """Without the secret of our own pages a signed-in browser posts, claims and listens in vain."""
    async with site.visitors(ANA) as (ana,):
        await ana.page("/services/gpushare/overview")
        claim = {"share": "0.5", "project": "team-a"}
        for verb, path, body in (
            ("POST", "/services/gpushare/actions/release", None),
            ("PUT", f"{API}claims/mine", claim),
            ("DELETE", f"{API}claims/mine", None),
            ("POST", f"{API}asks", {"project": "team-a", "amount": "2"}),
        ):
            answer = await ana.client.request(verb, path, json=body)
            assert answer.status_code == 403, (verb, path, answer.text[:300])
        cookies = "; ".join(f"{each.name}={each.value}" for each in ana.client.cookies.jar)
        for path in ("/services/gpushare/live/overview", f"{API}stream"):
            address = site.url.replace("http", "ws", 1) + path
            headers = {"Cookie": cookies, "Origin": "https://elsewhere.example"}
            with pytest.raises(HTTPClientError) as refusal:
                await websocket_connect(HTTPRequest(address, headers=headers))
            assert refusal.value.code == 403
    assert await _leases_of(site, ANA) == []


async def _ask(site: StagedHub, token: str, verb: str, path: str, body: Any = None) -> httpx.Response:
    async with httpx.AsyncClient(base_url=site.url, timeout=60) as client:
        headers = {"Authorization": f"token {token}"} if token else {}
        return await client.request(verb, API + path, headers=headers, json=body)


async def test_a_token_speaks_for_its_owner_alone(site: StagedHub) -> None:
    """With a token of another person one can neither look at, take nor end somebody's share; a service may only look."""
    async with site.visitors(ANA, BO) as (ana, bo):
        lease = await _start(site, ana)
        for_ana = {"share": "0.5", "project": "team-a", "person": ANA, "is_starting": True}
        key = "claims/hub%3Aana%2F"
        for token in (bo.token, READER_TOKEN, "", "no-token-at-all"):
            assert (await _ask(site, token, "DELETE", f"leases/{lease.id}")).status_code in (401, 403, 404)
            assert (await _ask(site, token, "PUT", key, for_ana)).status_code in (401, 403)
            assert (await _ask(site, token, "DELETE", f"{key}?person={ANA}")).status_code in (401, 403)
            assert (await _ask(site, token, "POST", "admin/stop-parking", {"stop": True})).status_code in (401, 403)
        assert (await _ask(site, bo.token, "GET", f"leases/{lease.id}")).status_code in (403, 404)
        seen = (await _ask(site, READER_TOKEN, "GET", "projects")).raise_for_status().json()["projects"]
        assert {project["name"] for project in seen} >= {"team-a", "team-b"}
        assert (await _one_lease(site, ANA, "running")) is not None
        await _stop(site, ana)


async def test_a_token_that_is_over_or_not_meant_for_us_is_none(site: StagedHub) -> None:
    """An expired token, and one whose scopes leave us out, is told that it may not."""
    async with site.visitors(ANA) as (ana,):
        expired = await _token(ana, expires_in=1)
        elsewhere = await _token(ana, scopes=["read:users:name!user=ana"])

        async def is_over() -> bool:
            async with httpx.AsyncClient(base_url=site.url) as nobody:
                answer = await nobody.get("/hub/api/user", headers={"Authorization": f"token {expired}"})
            return answer.status_code == 403

        await until("the token's end", is_over)
        for token in (expired, elsewhere):
            assert (await _ask(site, token, "GET", "leases")).status_code in (401, 403)


async def _token(visitor: Visitor, **wish: Any) -> str:
    answer = await visitor.api("POST", f"users/{visitor.name}/tokens", json=wish)
    token: str = answer.raise_for_status().json()["token"]
    return token


async def test_who_leaves_a_team_keeps_what_runs_and_gets_no_more_of_it(site: StagedHub) -> None:
    """A change of groups ends nobody's server, and holds from the next start on."""
    async with site.visitors(BO, ADMIN) as (bo, admin):
        lease = await _start(site, bo)
        (await admin.client.request(
            "DELETE", "/hub/api/groups/team-b/users", json={"users": [BO]}, headers=_token_of(admin)
        )).raise_for_status()  # fmt: skip
        try:
            still = await _one_lease(site, BO, "running")
            assert still is not None
            assert still.id == lease.id
            await _stop(site, bo)
            answer = await bo.api("POST", f"users/{BO}/server", json={"share": "0.5"})
            assert 400 <= answer.status_code < 500
            assert await _leases_of(site, BO) == []
        finally:
            added = await admin.api("POST", "groups/team-b/users", json={"users": [BO]})
            added.raise_for_status()
        await _start(site, bo)
        await _stop(site, bo)


def _token_of(visitor: Visitor) -> dict[str, str]:
    return {"Authorization": f"token {visitor.token}"}


async def test_a_killed_service_comes_back_to_the_same_shares(site: StagedHub) -> None:
    """The broker hangs and dies while a picker is open: the page says so, until it is back, and nobody lost anything."""
    async with site.visitors(ANA, BO) as (ana, bo):
        lease = await _start(site, ana)
        before = (await bo.spawn_page()).text
        assert "free" in before
        assert _IS_AWAY not in before
        service = site.process("jupyter_gpushare.hub")

        async def page_while_away() -> Form | None:
            page = await bo.spawn_page()
            return page if _IS_AWAY in page.text else None

        # What the hub was told last it may show for a second. A service that is dead already may be back by then.
        service.suspend()
        while_away = await until("the page says so", page_while_away)
        assert "0.5" in while_away.choices["share"], "the form is there, without figures"
        service.kill()

        async def is_back() -> bool:
            return (await bo.page(f"{API}health")).is_success

        await until("the service is back", is_back)
        assert _IS_AWAY not in (await bo.spawn_page()).text
        again = await until("the lease is heard again", lambda: _one_lease(site, ANA, "running"))
        assert again.id == lease.id
        await _start(site, bo)
        await _stop(site, bo)
        await _stop(site, ana)


async def test_without_its_proxy_the_hub_loses_no_share(site: StagedHub) -> None:
    """The proxy dies and the hub starts another one: servers hold their leases past it all the time."""
    async with site.visitors(ANA) as (ana,):
        lease = await _start(site, ana)
        site.process("configurable-http-proxy").kill()

        async def is_back() -> bool:
            try:
                return (await ana.page(f"{API}health")).is_success and await ana.server() is not None
            except httpx.HTTPError:
                return False

        await until("the hub is back", is_back)
        still = await until("the lease", lambda: _one_lease(site, ANA, "running"))
        assert (still.id, still.epoch) == (lease.id, lease.epoch), "it was never away"
        await _stop(site, ana)


async def test_a_server_without_us_keeps_the_share_that_was_picked_until_it_stops(site: StagedHub) -> None:
    """It uses the GPU without a word to the broker: what it was granted is nobody else's, and is free when it ends."""
    async with site.visitors(WITHOUT_US) as (person,):
        await person.spawn("1")
        await person.until_ready()
        lease = await _one_lease(site, WITHOUT_US, "granted")
        assert lease is not None
        assert lease.grants
        await _stop(site, person)


async def test_a_server_of_before_gets_no_second_share(site: StagedHub) -> None:
    """One that knows nothing of the hub's claim speaks with that lease's token, and cannot have another by it."""
    async with site.visitors(OLDER) as (person,):
        await person.spawn("0.5")
        await person.until_ready()
        leases = await _leases_of(site, OLDER)
        assert len(leases) == 1
        assert leases[0].grants
        await _stop(site, person)


async def test_a_hub_that_is_killed_leaves_every_server_its_share(site: StagedHub) -> None:
    """The hub dies and comes back: the same server, the same lease; and the pages open again."""
    async with site.visitors(ANA) as (ana,):
        lease = await _start(site, ana)
        server = psutil.Process(site.process("light_server").pid)
        site.kill()
        site.begin(_PROGRAM)
        await site.hub.wait()
        still = await until("the lease", lambda: _one_lease(site, ANA, "running"))
        assert still.id == lease.id
        assert server.is_running()
        page = Form((await ana.page("/services/gpushare/sessions")).text)
        assert "0.5" in page.text or "½" in page.text
        await ana.until_ready()
        await _stop(site, ana)
        assert not server.is_running()
