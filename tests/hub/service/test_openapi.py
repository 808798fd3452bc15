"""The OpenAPI document of a hub's service: all that is served beside the pages is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openapi_spec_validator import validate
from tornado.routing import PathMatches, RuleRouter
from tornado.web import Application, RequestHandler

from jupyter_gpushare.broker import openapi
from jupyter_gpushare.broker.handlers import API, BrokerHandler
from jupyter_gpushare.hub.culling import openapi_verbs
from jupyter_gpushare.hub.culling.handlers import ACCESS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]

VERBS = ("get", "head", "post", "put", "patch", "delete")
#: OpenAPI has no words for WebSockets; their messages are among the document's schemas.
SOCKETS = {("holder", "get"), ("stream", "get")}


def served(router: RuleRouter) -> Iterator[tuple[str, str]]:
    """The route and verb of all that a server answers below ``…/api/v1``."""
    for rule in router.rules:
        if isinstance(rule.target, RuleRouter):
            yield from served(rule.target)
        elif isinstance(rule.matcher, PathMatches) and rule.matcher.regex.pattern.startswith(API):
            assert issubclass(rule.target, BrokerHandler), f"{rule.matcher.regex.pattern} is no route of a table"
            implemented = [each for each in VERBS if getattr(rule.target, each) is not getattr(RequestHandler, each)]
            yield from ((rule.target.route, verb) for verb in implemented)


def test_every_route_of_the_service_is_in_its_document(play: Play) -> None:
    """A route that somebody adds to the broker or to the service must be described, or be named here."""

    async def story(bench: ServiceBench) -> None:
        token = bench.hub.token_of("ana", "custom:gpushare:read")
        document = (await bench.ask("GET", "openapi.json", token)).json()
        validate(document)
        described = {(path, verb) for path, verbs in document["paths"].items() for verb in verbs}
        verbs = (*openapi.VERBS, *openapi_verbs.VERBS)
        assert described == {(verb.path, verb.method) for verb in verbs}
        [server] = bench.service.broker._servers
        assert isinstance(server.request_callback, Application)
        found = set(served(server.request_callback.default_router))
        assert found - SOCKETS == {(verb.route, verb.method) for verb in verbs}
        assert found >= SOCKETS

    play(story)


def test_culling_is_described_for_those_who_may() -> None:
    """Each verb of culling, and what is said of who may do it, is that of the table."""
    assert {(verb.route, verb.method.upper()) for verb in openapi_verbs.VERBS} == set(ACCESS)


def test_what_is_asked_of_the_broker_alone_is_described_by_the_broker() -> None:
    """The broker's own document has nothing of a hub's service in it."""
    assert not any(path.startswith("/culling") for path in openapi.document()["paths"])
