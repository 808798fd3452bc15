"""A broker that a hub's service runs: who identifies, what else it serves, where it listens, whose processes count."""

from __future__ import annotations

import asyncio
import os
import pwd
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tornado.web import RequestHandler, url

from jupyter_gpushare.broker.places import PlaceError
from jupyter_gpushare.broker.public_error import PublicError
from jupyter_gpushare.broker.wire import BrokerModel
from jupyter_gpushare.rules.message import Message
from tests.broker.service.bench import Bench, processes_of
from tests.broker.service.hub_town import HubTown, session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.broker.access import Caller
    from jupyter_gpushare.broker.service import Broker

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]


@pytest.fixture(name="town")
def _town(bench: Bench) -> HubTown:
    """A hub's broker with one device."""
    return HubTown(bench)


class PageHandler(RequestHandler):
    """Something of the service's own."""

    def initialize(self, broker: Broker) -> None:
        """The broker beside which it is served."""
        self.broker = broker

    def get(self) -> None:
        """A page, and a signed cookie: the application's settings are there."""
        self.set_signed_cookie("seen", "yes")
        self.finish(self.broker.settings.mode)


def test_pages_are_served_by_the_same_server(town: HubTown, play: Play) -> None:
    """Routes of the service come before ours, with the settings that they need; the rest is still the broker's."""
    town.bench.options["routes"] = lambda broker: [url("/services/gpushare/page", PageHandler, {"broker": broker})]
    town.bench.options["application"] = {"cookie_secret": "s" * 32}

    async def story(bench: Bench) -> None:
        page = await town.ask("GET", "/services/gpushare/page", "")
        assert (page.status, page.body) == (200, b"hub")
        assert (await town.ask("GET", "/services/gpushare/nowhere", "ana")).code == "NOT_FOUND"
        assert (await town.ask("GET", "", "ana")).of(BrokerModel).mode == "hub"

    play(story)


def test_cross_site_requests_are_the_identifiers_business(town: HubTown, play: Play) -> None:
    """A service that turns tornado's own check on does not shut out hooks and servers, which have no cookie."""
    town.bench.options["application"] = {"cookie_secret": "s" * 32, "xsrf_cookies": True}

    async def story(bench: Bench) -> None:
        assert (await town.start("k")).status == 201
        assert (await town.ask("DELETE", "claims/k?person=ana")).status == 204

    play(story)


def test_what_the_identifier_refuses_is_refused_with_its_words(town: HubTown, play: Play) -> None:
    """A hub that cannot be asked who somebody is makes it a 503 with its own sentence, for sockets too."""

    async def identify(request: HTTPServerRequest) -> Caller | None:
        raise PublicError(503, Message("HUB_AWAY", "The hub is away."))

    town.bench.options["identify"] = identify

    async def story(bench: Bench) -> None:
        for path in ("leases", "holder", "claims/k"):
            answer = await town.ask("GET", path, "ana")
            assert (answer.status, answer.code) == (503, "HUB_AWAY")

    play(story)


def test_a_lease_token_needs_no_hub(town: HubTown, play: Play) -> None:
    """Servers that hold a share go on while the hub is away: their own tokens are looked at first."""
    asked: list[str] = []
    known = town.bench.options["identify"]

    async def identify(request: HTTPServerRequest) -> Caller | None:
        asked.append(request.headers.get("Authorization", ""))
        caller: Caller | None = await known(request)
        return caller

    town.bench.options["identify"] = identify

    async def story(bench: Bench) -> None:
        token = (await town.start("k")).claim.token
        asked.clear()
        holding = town.client(token).hold(session("k"), processes_of(os.getpid()))
        await asyncio.wait_for(holding.granted(), 60)
        assert asked == []
        await holding.close()

    play(story)


def test_it_listens_on_this_machine_alone(town: HubTown, play: Play) -> None:
    """The hub's proxy is in front of it; nobody reaches it by another way, and no socket is left open to others."""

    async def story(bench: Bench) -> None:
        assert [address.rpartition(":")[0] for address in bench.broker.addresses] == ["http://127.0.0.1"]
        assert bench.settings.socket is None

    play(story)


def test_its_directory_must_be_its_own(town: HubTown) -> None:
    """Tokens' key and books lie there: one that others may enter is refused, with what to type."""
    town.bench.settings.state.chmod(0o755)

    with pytest.raises(PlaceError, match="chmod 700"):
        asyncio.run(town.bench.start())
    town.bench.machine.close()


@pytest.mark.parametrize("unix_users", [False, True])
def test_a_hubs_user_is_no_unix_user_unless_it_is_said(bench: Bench, play: Play, unix_users: Any) -> None:
    """Servers run as the hub's own user, whatever their persons are called; with system spawners, as those persons."""
    other = next(each.pw_name for each in pwd.getpwall() if each.pw_uid not in (0, os.getuid()))
    town = HubTown(bench, f'[projects.team]\nquota = "2"\nmembers = ["{other}"]\n')
    bench.settings = replace(bench.settings, unix_users=unix_users)

    async def story(bench: Bench) -> None:
        holding = town.client(other).hold(session("k"), processes_of(os.getpid()))
        lease = await asyncio.wait_for(holding.granted(), 60)
        assert bench.broker.desk.roster.has(lease.id) is not unix_users
        await holding.close()

    play(story)
