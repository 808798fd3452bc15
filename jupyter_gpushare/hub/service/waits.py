"""Waiting for a share before a server starts: the claim that stays in line, as long as somebody looks at its page.

No slot of the hub is held meanwhile. When the share is granted the browser visits the hub's own spawn page with the
form's fields in the address (``/hub/spawn/…?opt-…``; JupyterHub, "Spawn a server with options by URL"), as the person
itself: the hub then asks its own questions, and our hook there finds the claim granted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import msgspec

from jupyter_gpushare.broker.hub_wire import AliveRequest, ClaimAnswer, ClaimRequest
from jupyter_gpushare.broker.public_error import PublicError
from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.pages import Waiting
from jupyter_gpushare.hub.service.hub_rest import HubAwayError
from jupyter_gpushare.hub.wait_link import WAIT_PATH
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.hub.service.environment import HubEnvironment
    from jupyter_gpushare.hub.service.hub_rest import HubRest
    from jupyter_gpushare.hub.service.own_interface import OwnInterface
    from jupyter_gpushare.hub.service.standing import Standing
    from jupyter_gpushare.hub.wait_link import WaitLink
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["Wait", "Waits"]

#: How long a claim outlives its page: for a reload, a laptop's lid, a page without script that asks again by itself.
_HELD_S: Final = 60.0
_AWAY: Final = 500
_PREFIXED: Final = 6


@dataclass(frozen=True, slots=True)
class Wait:
    """What one open page waits for.

    Attributes:
        link: what the hub wrote into its address.
        query: the address's own query, for coming back to it.
    """

    link: WaitLink
    query: str


class Waits:
    """Makes, keeps and ends the claims of the pages that wait.

    Args:
        environment: where the hub is.
        hub: asked once which version it is.
        interface: the broker, asked as the person who waits.
        view: the books.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        environment: HubEnvironment,
        hub: HubRest,
        interface: OwnInterface,
        view: Callable[[], View],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._environment = environment
        self._hub = hub
        self._interface = interface
        self._view = view
        self._now = now
        self._has_prefix: bool | None = None

    async def begin(self, standing: Standing, wait: Wait) -> Waiting:
        """Stand in line, or stay there; what became of it."""
        link = wait.link
        waiting = await self._waiting(wait)
        if self._is_over(link):
            return await self._give_up(standing, waiting)
        request = ClaimRequest(
            share=link.share,
            project=link.project,
            name=link.name,
            wait=True,
            reserve_s=link.reserve_s,
            for_s=_HELD_S,
        )
        try:
            body = await self._interface.ask(standing, "PUT", self._path(link), request)
        except PublicError as error:
            state = "away" if error.status >= _AWAY else "refused"
            return _with_problem(waiting, state, error.message.text)
        answer = msgspec.json.decode(body, type=ClaimAnswer)
        is_waiting = answer.lease.status == "queued"
        return replace(waiting, state="waiting" if is_waiting else "granted", lease=answer.lease)

    async def look(self, standing: Standing, wait: Wait) -> Waiting:
        """How it stands now: by the books, and asked of nobody, while there is a claim."""
        lease = self._claim_of(wait.link)
        if lease is None or self._is_over(wait.link):
            return await self.begin(standing, wait)
        waiting = await self._waiting(wait)
        shown = self._view().lease(lease)
        return replace(waiting, state="waiting" if lease.status is Status.QUEUED else "granted", lease=shown)

    async def keep(self, standing: Standing, wait: Wait) -> None:
        """Say that somebody still looks.

        Raises:
            PublicError: the claim is gone, or the broker away; `look` says which.
        """
        request = AliveRequest(for_s=_HELD_S, reserve_s=wait.link.reserve_s)
        await self._interface.ask(standing, "POST", f"{self._path(wait.link)}/alive", request)

    async def cancel(self, standing: Standing, wait: Wait) -> Waiting:
        """Wait no more, unless the server has come meanwhile: what runs is not ended by a late click.

        Raises:
            PublicError: the broker is away.
        """
        lease = self._claim_of(wait.link)
        if lease is None or lease.status in (Status.QUEUED, Status.GRANTED):
            await self._interface.ask(standing, "DELETE", self._path(wait.link))
        return replace(await self._waiting(wait), state="cancelled")

    def address(self, wait: Wait) -> str:
        """The page's own address."""
        return f"{self._environment.prefix}{WAIT_PATH}{quote(wait.link.server, safe='')}?{wait.query}"

    async def spawn_address(self, link: WaitLink) -> str:
        """Where the browser goes to start the server."""
        fields = await self._fields(link)
        return self._form(link) + (f"?{urlencode(fields)}" if fields else "")

    async def _waiting(self, wait: Wait) -> Waiting:
        link = wait.link
        return Waiting(
            server=link.server,
            share=link.share,
            project=link.project,
            state="waiting",
            until=link.made + link.queue_timeout_s,
            spawn_url=self._form(link),
            spawn_method="get",
            spawn_fields=await self._fields(link),
            cancel_url=self.address(wait),
            again_url=self._form(link),
        )

    async def _give_up(self, standing: Standing, waiting: Waiting) -> Waiting:
        try:
            await self._interface.ask(standing, "DELETE", f"claims/{_key(standing.name, waiting.server)}")
        except PublicError as error:
            return _with_problem(waiting, "away", error.message.text)
        return replace(waiting, state="over")

    async def _fields(self, link: WaitLink) -> list[tuple[str, str]]:
        """The hub's form, as its address takes it: from version 6 on each name has a prefix."""
        prefix = "opt-" if await self._takes_prefix() else ""
        fields = [(f"{prefix}{name}", value) for name, values in link.fields.items() for value in values]
        return [*fields, *([("next", link.next)] if link.next else [])]

    async def _takes_prefix(self) -> bool:
        if self._has_prefix is None:
            try:
                version = await self._hub.version()
            except HubAwayError:
                return True
            major = version.partition(".")[0]
            self._has_prefix = not major.isdigit() or int(major) >= _PREFIXED
        return self._has_prefix

    def _form(self, link: WaitLink) -> str:
        server = f"/{quote(link.server, safe='')}" if link.server else ""
        return f"{self._environment.hub_url}spawn/{quote(link.person, safe='')}{server}"

    def _is_over(self, link: WaitLink) -> bool:
        """Whether the time is up. A share that was granted in time has its own time to be taken."""
        lease = self._claim_of(link)
        if lease is not None and lease.status is not Status.QUEUED:
            return False
        return self._now() >= link.made + link.queue_timeout_s

    def _claim_of(self, link: WaitLink) -> Lease | None:
        books = self._view().books
        return books.leases.get(books.holders.get((link.person, claim_key(link.person, link.server)), ""))

    def _path(self, link: WaitLink) -> str:
        return f"claims/{_key(link.person, link.server)}"


def _key(person: str, server: str) -> str:
    return quote(claim_key(person, server), safe="")


def _with_problem(waiting: Waiting, state: str, problem: str) -> Waiting:
    return replace(waiting, state=state, problem=problem)  # type: ignore[arg-type]  # one of its own words
