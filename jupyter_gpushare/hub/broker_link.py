"""How the hub's own process reaches the broker in its service: claims, their ends, and how things stand."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import msgspec
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gpushare.broker.client import BrokerAway, BrokerClient, BrokerError, Endpoint
from jupyter_gpushare.broker.hub_wire import ClaimAnswer
from jupyter_gpushare.hub.offers import PROJECT_OPTION
from jupyter_gpushare.hub.picker_link import PICKER_PATH
from jupyter_gpushare.hub.picture import Picture

if TYPE_CHECKING:
    from jupyter_gpushare.broker.hub_wire import ClaimRequest
    from jupyter_gpushare.hub.picker_link import PickerLink

__all__ = ["BrokerAway", "BrokerError", "BrokerLink"]

#: How long a start waits for the broker's word, which takes milliseconds where nothing is wrong.
_CLAIM_S: Final = 15.0
#: How long the end of a server waits for it: what is not heard is made good when the service compares its books.
_END_S: Final = 5.0
#: How long a page waits: it comes without figures then.
_LOOK_S: Final = 0.3
_LOOK_HOLDS_S: Final = 1.0
_MOST_KEPT: Final = 2000
# Of a class that starts all at once everybody else waits here. A server's queue of connections to come holds 128, and
# what is beyond that is dropped by the system and tried again seconds later.
_AT_ONCE: Final = 32
_LARGEST: Final = 1 << 20
_OK: Final = 200
#: What a broker says to a person, as against a broker that cannot work now, or does not know this hub.
_REFUSALS: Final = frozenset({400, 409, 429})


@dataclass(slots=True)
class BrokerLink:
    """Asks the broker as the hub.

    Attributes:
        secret: what the hub and its service share.
    """

    secret: str = field(repr=False)
    _claims: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE), repr=False)
    _ends: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE), repr=False)
    _kept: dict[tuple[str, str], tuple[float, Picture]] = field(default_factory=dict, repr=False)

    async def claim(self, url: str, key: str, request: ClaimRequest) -> ClaimAnswer:
        """Have the lease *key* granted now, or say why not; a grant of before is confirmed.

        Raises:
            BrokerError: refused, or no room now; nothing is held.
            BrokerAway: nobody answers, or not as a broker that knows this hub. What was asked may have been done.
        """
        path = f"claims/{_in_path(key)}"
        try:
            async with asyncio.timeout(_CLAIM_S), self._claims:
                return await self._client(url, _CLAIM_S).request("PUT", path, request, ClaimAnswer)
        except TimeoutError:
            raise BrokerAway(f"nothing was heard of it for {_CLAIM_S:.0f} s") from None
        except BrokerError as error:
            if error.status in _REFUSALS:
                raise
            raise BrokerAway(f"it answers with {error.status}: {error.text}") from None

    async def end(self, url: str, key: str, person: str) -> None:
        """Have the lease *key* of *person* ended; it is no error if there is none.

        Raises:
            BrokerError: the broker makes no sense of it.
            BrokerAway: nobody answers.
        """
        path = f"claims/{_in_path(key)}?{urlencode({'person': person})}"
        async with self._ends:
            await self._client(url, _END_S).fetch("DELETE", path)

    async def picture(
        self, url: str, link: PickerLink, project: str = "", *, is_patient: bool = False
    ) -> Picture | None:
        """How *link*'s picker stands with *project* selected; None where nobody says so soon. A second old at most.

        *is_patient* waits for it as long as a start waits for its claim.
        """
        now = time.monotonic()
        kept = (url, f"{link.person}\0{link.groups}\0{link.shares}\0{link.project}\0{project}")
        at, found = self._kept.get(kept, (0.0, None))
        if found is not None and now - at < _LOOK_HOLDS_S:
            return found
        if len(self._kept) >= _MOST_KEPT:
            self._kept = {each: held for each, held in self._kept.items() if now - held[0] < _LOOK_HOLDS_S}
        picture = await self._look(url, link, project, _CLAIM_S if is_patient else _LOOK_S)
        if picture is not None:
            self._kept[kept] = (time.monotonic(), picture)
        return picture

    async def _look(self, url: str, link: PickerLink, project: str, within_s: float) -> Picture | None:
        selected = f"&{urlencode({PROJECT_OPTION: project})}" if project else ""
        request = HTTPRequest(
            f"{url.rstrip('/')}/{PICKER_PATH}",
            "POST",
            {"Content-Type": "application/x-www-form-urlencoded"},
            f"{link.form(self.secret)}{selected}",
            connect_timeout=within_s,
            request_timeout=within_s,
            follow_redirects=False,
        )
        # An own one each time: tornado's shared client lets ten requests through at once, and other parts of the hub
        # wait in it too.
        client = SimpleAsyncHTTPClient(force_instance=True, max_body_size=_LARGEST)
        try:
            answer = await client.fetch(request, raise_error=False)
            return msgspec.json.decode(answer.body or b"", type=Picture) if answer.code == _OK else None
        except (HTTPClientError, OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        finally:
            client.close()

    def _client(self, url: str, deadline_s: float) -> BrokerClient:
        return BrokerClient(Endpoint.parse(url, self.secret), deadline_s)


def _in_path(key: str) -> str:
    return quote(key, safe="")
