"""The routes of a hub's claims, and what a person may ask for: see `hub_wire`."""

from __future__ import annotations

from typing import Final

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.handlers import API, BrokerHandler
from jupyter_gpushare.broker.public_error import bad_request, forbidden, printable
from jupyter_gpushare.rules.event import GroupsKnown
from jupyter_gpushare.rules.lease import Kind

__all__ = ["ROUTES"]

_LONGEST_KEY: Final = 200
_MOST_SHARES: Final = 32
# With all else that may be asked beside them, fewer than the thousand fields of a query that our server reads.
_MOST_GROUPS: Final = 900
_LONGEST_NAME: Final = 200


class AvailabilityHandler(BrokerHandler):
    """When a share could be had."""

    route = "availability"

    def get(self) -> None:
        """One answer for each ``share``."""
        shares = self.get_query_arguments("share")
        if not 1 <= len(shares) <= _MOST_SHARES:
            raise bad_request(f"{len(shares)} shares were asked for; ask for 1 to {_MOST_SHARES}", "share")
        kind = self.get_query_argument("kind", Kind.INTERACTIVE.value)
        if kind not in list(Kind):
            raise bad_request(f"{kind[:50]!r} is no kind; write interactive or training", "kind")
        project = self.get_query_argument("project", "default")
        person = self._person()
        groups = self.get_query_arguments("group")
        if len(groups) > _MOST_GROUPS or any(len(group) > _LONGEST_NAME for group in groups):
            raise bad_request(f"more than {_MOST_GROUPS} groups, or one too long; send fewer and shorter ones", "group")
        known = [GroupsKnown(person, frozenset(groups))] if groups else []
        self.answer(self.broker.availability(shares, project, person, Kind(kind), known))

    def _person(self) -> str:
        """For whom: others only for those who may claim for them."""
        person = self.get_query_argument("person", "")
        if self.person.kind == "hub" and not person:
            raise bad_request("the hub asks for somebody; add person=", "person")
        if person in ("", self.person.person) and not self.get_query_arguments("group"):
            return self.person.person
        if not self.person.is_admin and self.person.kind != "hub":
            raise forbidden("ANOTHER_PERSON", "You may ask for yourself alone; leave person and group out.")
        return person or self.person.person


class ClaimsHandler(BrokerHandler):
    """All claims."""

    route = "claims"

    def get(self) -> None:
        """Those whose key begins with ``prefix``."""
        self.answer(self.broker.claims.all(self.get_query_argument("prefix", "")))


class ClaimHandler(BrokerHandler):
    """One claim."""

    route = "claim"

    async def put(self, key: str) -> None:
        """Make it, or keep it."""
        request = self.read(hub_wire.ClaimRequest)
        status, answer = await self.broker.claims.put(self.person, checked(key), request)
        self.answer(answer, status=status)

    def get(self, key: str) -> None:
        """How it is."""
        self.answer(self.broker.claims.get(self.person, checked(key), self.get_query_argument("person", "")))

    async def delete(self, key: str) -> None:
        """End it; it is no error if there is none."""
        person, why = self.get_query_argument("person", ""), self.get_query_argument("why", "")
        await self.broker.claims.delete(self.person, checked(key), person, printable(why))
        self.set_status(204)
        self.finish()


class AliveHandler(BrokerHandler):
    """Keeping one claim."""

    route = "alive"

    async def post(self, key: str) -> None:
        """A little longer."""
        self.answer(await self.broker.claims.alive(self.person, checked(key), self.read(hub_wire.AliveRequest)))


def checked(key: str) -> str:
    """A claim's key, as it is in the path.

    Raises:
        PublicError: 400: it is too long or cannot be printed.
    """
    if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
        raise bad_request(f"a key has 1 to {_LONGEST_KEY} printable characters", "key")
    return key


ROUTES = [
    (rf"{API}/availability", AvailabilityHandler),
    (rf"{API}/claims", ClaimsHandler),
    (rf"{API}/claims/(?P<key>[^/]+)", ClaimHandler),
    (rf"{API}/claims/(?P<key>[^/]+)/alive", AliveHandler),
]
