"""The REST routes: each finds out who asks, asks the books one question, and answers with a wire type."""

from __future__ import annotations

import logging
import re
import uuid
from http.client import responses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import msgspec
from tornado.web import HTTPError, RequestHandler

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.access import is_allowed, roles_of
from jupyter_gpushare.broker.openapi import document
from jupyter_gpushare.broker.public_error import PublicError, bad_request, forbidden, not_found, sendable, unavailable
from jupyter_gpushare.broker.showing import of_person, show, show_one
from jupyter_gpushare.rules.event import Wanted
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_gpushare.broker.access import Caller, Role
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.project import Project

__all__ = ["API", "DOCUMENT", "ROUTES", "BrokerHandler", "DocumentHandler"]

#: Below which everything is.
API: Final = "/services/gpushare/api/v1"
#: Where the OpenAPI document is.
DOCUMENT: Final = rf"{API}/openapi\.json"
_LOG: Final = logging.getLogger(__name__)
_READS: Final = frozenset({"GET", "HEAD"})
#: As many digits as the largest number that a database holds has; more would only keep us busy.
_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
#: How msgspec says which field is wrong: the name of one that is missing or too much, and the way to it.
_NAMED: Final = re.compile(r" field `([^`]*)`")
_PLACED: Final = re.compile(r" - at `\$\.?([^`]*)`\Z")
_T = TypeVar("_T")


class BrokerHandler(RequestHandler):
    """What all routes have in common: who asks, what it may, JSON answers, errors for people.

    Attributes:
        route: the name in the table of who may do what.
        is_about_one: whether who may depends on what is in the path, so that the method looks.
    """

    route = ""
    is_about_one = False
    caller: Caller | None = None

    def initialize(self, broker: Broker) -> None:
        """The broker that is asked."""
        self.broker = broker

    async def prepare(self) -> None:
        """Find out who asks, and refuse whoever may not. A route about one lease looks again when it knows which."""
        self.broker.bounds.check(self.request)
        self.caller = await self.broker.identify(self.request)
        if not self.is_about_one and not is_allowed(self.route, self.verb, self.roles(), self.caller):
            self.refuse()

    def roles(self, lease: Lease | None = None, project: Project | None = None) -> frozenset[Role]:
        """What the caller is to *lease* or *project*; nothing to what its token does not let it do."""
        caller = self.caller
        if caller is not None and caller.reads_only and (self.verb not in _READS or self.route == "holder"):
            return frozenset()
        return roles_of(caller, self.broker.books, lease, project)

    def check_xsrf_cookie(self) -> None:
        """No cookie is read here. Whoever identifies callers by one has seen to it (`Broker`'s *identify*)."""

    def refuse(self) -> NoReturn:
        """Say no.

        Raises:
            PublicError: always.
        """
        if self.verb not in self.SUPPORTED_METHODS or not self._is_implemented():
            raise HTTPError(405)
        if self.caller is None:
            message = Message("NOT_IDENTIFIED", "The broker does not know who you are; set GPUSHARE_BROKER_TOKEN.")
            raise PublicError(401, message)
        raise forbidden()

    @property
    def person(self) -> Caller:
        """Who asks, on a route that a known person is needed for."""
        if self.caller is None:
            raise HTTPError(401)
        return self.caller

    def check_lease(self, lease_id: str) -> Lease:
        """The lease, if the caller may do with it what it asks for. What one may not see does not exist."""
        lease = self.broker.books.leases.get(lease_id)
        if lease is not None and is_allowed(self.route, self.verb, self.roles(lease)):
            return lease
        sees = lease is not None and is_allowed(self.route, "GET", roles_of(self.caller, self.broker.books, lease))
        if self.caller is None or sees:
            self.refuse()
        raise not_found("lease", lease_id)

    def answer(self, body: Any, status: int = 200) -> None:
        """Finish with *body* as JSON."""
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(msgspec.json.encode(body))

    def read(self, kind: type[_T]) -> _T:
        """The request's body as *kind*.

        Raises:
            PublicError: 400: no JSON, or a field is wrong; the message names it.
        """
        try:
            return msgspec.json.decode(self.request.body or b"{}", type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(str(error), _field_in(str(error))) from None

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number from the query.

        Raises:
            PublicError: 400: it is none, or out of its bounds.
        """
        text = self.get_query_argument(name, str(default), strip=False)
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise bad_request(f"{text[:50]!r} is no number from {least} to {most}; write for example {default}", name)
        return int(text)

    async def submit(self, *events: Event) -> Change:
        """Have *events* decided on and kept.

        Raises:
            PublicError: 503: the ledger cannot be used now; what was asked is done when it can.
        """
        return await self.broker.submit(*events)

    def set_default_headers(self) -> None:
        """Nothing here may be kept or guessed at by anything in between."""
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.clear_header("Server")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with our error type; what is not meant for people stays in the log, under the id that they see."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if not isinstance(error, PublicError):
            error = PublicError(status_code, _hidden(error, status_code, self.request.uri or ""))
        self.broker.metrics.refused(self, error.message.code)
        self.set_header("Content-Type", "application/json")
        self.finish(msgspec.json.encode(error.answer()))

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Give a public error its own status."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        super().send_error(error.status if isinstance(error, PublicError) else status_code, **kwargs)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """An error for people is no fault; any other is logged with its id when it is answered."""

    @property
    def verb(self) -> str:
        """What is to be done."""
        return self.request.method or ""

    def _is_implemented(self) -> bool:
        mine = getattr(type(self), self.verb.lower(), None)
        return mine is not getattr(RequestHandler, self.verb.lower(), None)


def _field_in(problem: str) -> str:
    """The field that *problem*, which msgspec found, is about; empty when it is about none."""
    parts = [found[1] for pattern in (_PLACED, _NAMED) if (found := pattern.search(problem))]
    return sendable(".".join(filter(None, parts)))


def _hidden(error: BaseException | None, status: int, uri: str) -> Message:
    if isinstance(error, HTTPError) and status < 500:  # noqa: PLR2004  # a mistake of the asker's
        text = (error.log_message or "") % error.args if error.args else error.log_message or ""
        reason = sendable(text.rstrip(".") or responses.get(status, "no reason was given"))
        return Message("HTTP_ERROR", "The broker refused the request: {text}.", {"text": reason})
    key = uuid.uuid4().hex[:12]
    _LOG.error("Error %s at %s", key, uri[:200], exc_info=error)
    return Message("INTERNAL_ERROR", "Something failed inside the broker; its log says what under {id}.", {"id": key})


class RootHandler(BrokerHandler):
    """The broker itself."""

    route = "broker"

    def get(self) -> None:
        """What it is."""
        self.answer(self.broker.model())


class HealthHandler(BrokerHandler):
    """Whether it can keep promises."""

    route = "health"

    def get(self) -> None:
        """200, or 503 with what to do. Nobody who is not known is told more than that."""
        trouble = self.broker.reconciler.trouble
        if trouble is None:
            self.answer(wire.HealthAnswer("ok"))
            return
        raise unavailable(str(trouble) if self.caller is not None else "Its log says why.")


class MetricsHandler(BrokerHandler):
    """For Prometheus."""

    route = "metrics"

    def get(self) -> None:
        """Every figure of this moment."""
        content_type, body = self.broker.metrics.page()
        self.set_header("Content-Type", content_type)
        self.finish(body)


class DocumentHandler(BrokerHandler):
    """The description of this API."""

    route = "document"

    def initialize(self, broker: Broker, described: Callable[[], dict[str, Any]] = document) -> None:
        """Whoever serves more than the broker's own routes says by *described* what there is."""
        super().initialize(broker)
        self._described = described

    def get(self) -> None:
        """The OpenAPI document."""
        self.answer(self._described())


class DevicesHandler(BrokerHandler):
    """Hosts and devices."""

    route = "devices"

    def get(self) -> None:
        """All of them, with their books."""
        self.answer(self.broker.view().devices())


#: What leases can be asked for by, and what is compared.
_ASKED_BY: Final = {
    "project": attrgetter("project"),
    "status": attrgetter("status"),
}


class LeasesHandler(BrokerHandler):
    """Leases."""

    route = "leases"

    async def get(self) -> None:
        """Those that the asker may see, oldest first."""
        view = self.broker.view()
        meant: Collection[Lease] = view.books.leases.values()
        for name, said_of in _ASKED_BY.items():
            if wanted := self.get_query_argument(name, ""):
                meant = [lease for lease in meant if said_of(lease) == wanted]
        if person := self.get_query_argument("person", ""):
            meant = of_person(self.person, view, meant, person)
        ordered = sorted(meant, key=attrgetter("submitted", "id"))
        self.answer(wire.LeasesAnswer(await show(self.person, view, ordered)))


class LeaseHandler(BrokerHandler):
    """One lease."""

    route = "lease"
    is_about_one = True

    def get(self, lease_id: str) -> None:
        """How it is."""
        lease = self.check_lease(lease_id)
        self.answer(show_one(self.person, self.broker.view(), lease))

    async def delete(self, lease_id: str) -> None:
        """Have it ended by its holder; what it holds is free when the devices show it."""
        lease = self.check_lease(lease_id)
        by = self.person.person if lease.person != self.person.person else "holder"
        await self.submit(Wanted(lease.id, Target.ENDED, by=by))
        after = self.broker.books.leases.get(lease.id) or lease.evolve(target=Target.ENDED)
        self.answer(self.broker.view().lease(after), status=202)


class NothingHandler(BrokerHandler):
    """Any other path."""

    async def prepare(self) -> None:
        """There is nothing here, whoever asks."""
        raise not_found("route", self.request.path)


ROUTES = [
    (rf"{API}/?", RootHandler),
    (rf"{API}/health", HealthHandler),
    (rf"{API}/metrics", MetricsHandler),
    (DOCUMENT, DocumentHandler),
    (rf"{API}/devices", DevicesHandler),
    (rf"{API}/leases", LeasesHandler),
    (rf"{API}/leases/(?P<lease_id>[A-Za-z0-9_-]{{1,64}})", LeaseHandler),
]
