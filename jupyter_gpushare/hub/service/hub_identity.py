"""Who sends a request: asked of the hub, remembered for a minute, and never asked twice at once.

A minute is how long it takes until a token that was revoked, a group that was left or an admin who is none any more is
noticed. Where the hub is away, whom it named within that minute is still known, and nobody else is.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from jupyter_gpushare.broker.public_error import PublicError, forbidden
from jupyter_gpushare.broker.tokens import PREFIX as LEASE_PREFIX
from jupyter_gpushare.hub.service.browser import is_of_our_own, sitting_of
from jupyter_gpushare.hub.service.hub_rest import HubAwayError
from jupyter_gpushare.hub.service.own_interface import PREFIX as OWN_PREFIX
from jupyter_gpushare.hub.service.standing import Level, standing_of
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.hub.service.browser import Sitting
    from jupyter_gpushare.hub.service.hub_rest import HubRest, Identified
    from jupyter_gpushare.hub.service.standing import Standing

__all__ = ["HubIdentity", "bearer_of"]

_KNOWN_S: Final = 60.0
# A wrong token is asked about again soon: it may be one that is just being made.
_UNKNOWN_S: Final = 10.0
#: So many questions at once about whom the hub has named before, and so many about whoever else.
_AT_ONCE: Final = 16
_STRANGERS_AT_ONCE: Final = 4
_LONGEST_TOKEN: Final = 200
#: What our own tokens begin with: one that is ours no more is nobody's, and none of the hub's business.
_OURS: Final = (LEASE_PREFIX, OWN_PREFIX)
_SCHEMES: Final = ("bearer ", "token ")
_T = TypeVar("_T")


@dataclass(slots=True)
class _Remembered:
    said: Identified
    until: float


@dataclass(slots=True)
class HubIdentity:
    """Knows people by the hub's word. For one event loop.

    Tokens are remembered by their hashes alone. Those that are nobody's are remembered and asked about apart: who sends
    one after another neither has people forgotten nor has them wait.

    Attributes:
        hub: who is asked.
        service: our own name at the hub.
        cookie: the name of the cookie of who has signed in here.
        secret: what that cookie is signed with.
        hub_token: what the hub's hooks show.
        admins: whom the admin's file names, now.
        monotonic: seconds that only go forward.
        most_remembered: of so many tokens.
        most_unknown: so many tokens are remembered to be nobody's.
    """

    hub: HubRest
    service: str
    cookie: str
    secret: bytes
    hub_token: str
    admins: Callable[[], Collection[str]]
    monotonic: Callable[[], float] = time.monotonic
    most_remembered: int = 20_000
    most_unknown: int = 1_000
    _remembered: OrderedDict[str, _Remembered] = field(default_factory=OrderedDict)
    _unknown: OrderedDict[str, float] = field(default_factory=OrderedDict)
    _asking: dict[str, asyncio.Task[Identified | None]] = field(default_factory=dict)
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _strangers_turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STRANGERS_AT_ONCE))

    def is_hub(self, request: HTTPServerRequest) -> bool:
        """Whether the hub itself asks: its hooks, by the secret that they share with us."""
        given = bearer_of(request).encode("utf-8", "replace")
        return hmac.compare_digest(given, self.hub_token.encode())

    async def sender_of(self, request: HTTPServerRequest) -> Standing | None:
        """Who sends *request*, by a token or by a browser's cookie; None for nobody whom the hub knows.

        Raises:
            PublicError: 403: known, and not with this token or from this page; 503: the hub cannot be asked.
        """
        if token := bearer_of(request):
            return self._checked(await self._standing(token, "", is_browser=False))
        sitting = self.sitting(request)
        if sitting is None:
            return None
        if not is_of_our_own(request, sitting):
            raise _not_from_our_page()
        return await self.person_at(sitting)

    async def person_at(self, sitting: Sitting) -> Standing | None:
        """Who sits at a browser; None when the hub knows of that no more, as after logging out.

        Raises:
            PublicError: 403 and 503 as for `sender_of`.
        """
        return self._checked(await self._standing(sitting.token, sitting.session, is_browser=True))

    def sitting(self, request: HTTPServerRequest) -> Sitting | None:
        """The browser that sends *request*, if somebody has signed in there."""
        return sitting_of(request, self.cookie, self.secret)

    def forget(self) -> None:
        """Ask about everybody anew."""
        self._remembered.clear()
        self._unknown.clear()

    def _checked(self, standing: Standing | None) -> Standing | None:
        if standing is not None and standing.level is Level.NOTHING:
            raise _no_scope(standing.name, self.service)
        return standing

    async def _standing(self, token: str, session: str, *, is_browser: bool) -> Standing | None:
        if not token.isascii() or not token.isprintable() or len(token) > _LONGEST_TOKEN or token.startswith(_OURS):
            return None
        key = hashlib.sha256(f"{session}\0{token}".encode("utf-8", "replace")).hexdigest()
        try:
            said = await self._whose(key, token, is_browser=is_browser)
        except HubAwayError as error:
            raise _hub_away(error) from None
        return None if said is None else standing_of(said, self.service, self.admins(), is_browser=is_browser)

    async def _whose(self, key: str, token: str, *, is_browser: bool) -> Identified | None:
        known, now = self._remembered.get(key), self.monotonic()
        if known is not None and now < known.until:
            return known.said
        if now < self._unknown.get(key, 0.0):
            return None
        asking = self._asking.get(key)
        if asking is None:
            # What a browser shows the hub gave to somebody: it comes in a cookie that we have signed.
            turn = self._turn if known is not None or is_browser else self._strangers_turn
            asking = self._asking[key] = asyncio.ensure_future(self._ask(key, token, turn))
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        # Whoever asked first may go away; the others still wait for the answer.
        return await asyncio.shield(asking)

    async def _ask(self, key: str, token: str, turn: asyncio.Semaphore) -> Identified | None:
        async with turn:
            said = await self.hub.whose(token)
        now = self.monotonic()
        if said is None:
            self._remembered.pop(key, None)
            _keep(self._unknown, key, now + _UNKNOWN_S, self.most_unknown)
        else:
            self._unknown.pop(key, None)
            _keep(self._remembered, key, _Remembered(said, now + _KNOWN_S), self.most_remembered)
        return said


def _keep(kept: OrderedDict[str, _T], key: str, value: _T, most: int) -> None:
    """Keep *value* as the newest of at most so many."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


def bearer_of(request: HTTPServerRequest) -> str:
    """The token in the request's header (RFC 6750, and JupyterHub's own scheme); empty when there is none."""
    header = request.headers.get("Authorization", "")
    scheme = next((scheme for scheme in _SCHEMES if header.lower().startswith(scheme)), None)
    return "" if scheme is None else header[len(scheme) :].strip()


def _no_scope(name: str, service: str) -> PublicError:
    template = (
        "The token of {name} may not do this: give it the scope custom:gpushare:read to look or custom:gpushare:write "
        "to act, or access:services!service={service}."
    )
    return forbidden("NO_SCOPE", template, name=name, service=service)


def _not_from_our_page() -> PublicError:
    template = "This request does not come from a page of this service; open the page again and repeat it there."
    return forbidden("NOT_FROM_OUR_PAGE", template)


def _hub_away(error: HubAwayError) -> PublicError:
    template = "JupyterHub cannot be asked now who you are, so nothing new is done; what runs goes on. {problem}."
    return PublicError(503, Message("HUB_AWAY", template, {"problem": str(error).rstrip(".")}))
