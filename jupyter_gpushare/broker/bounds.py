"""How much of the broker one person may take: connections by whom the system or a token names, and open claims.

Admins, and the user of a broker of his own, are not bounded: there is nobody whom they could keep from it.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from tornado.httpserver import HTTPServer

from jupyter_gpushare.broker.public_error import PublicError
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tornado.httputil import HTTPServerRequest
    from tornado.iostream import IOStream

    from jupyter_gpushare.broker.access import Caller
    from jupyter_gpushare.broker.configuration import Configuration
    from jupyter_gpushare.broker.peers import Peers

__all__ = ["BoundedServer", "Bounds"]

#: What is refused gets this long to say what it wanted and hear why not.
_HEARS_WITHIN_S: Final = 5.0


class Bounds:
    """For one event loop.

    Args:
        configuration: what the admin allows one person now.
        peers: tells who is at the other end.
    """

    def __init__(self, configuration: Callable[[], Configuration], peers: Callable[[], Peers]) -> None:
        self._configuration = configuration
        self._peers = peers
        self._open: dict[str, list[IOStream]] = {}
        self._refused: WeakSet[IOStream] = WeakSet()
        self._claiming: Counter[tuple[str, str]] = Counter()

    def opened(self, stream: IOStream) -> None:
        """A connection was opened. One too many of a local user is told so at its first request, or closed."""
        if stream.socket.family != socket.AF_UNIX:
            return  # behind a proxy everybody has its address: who it is tells the token of a request
        who = self._peers().bounded_user(stream.socket)
        if who is None or self._takes(who, stream):
            return
        if len(self._refused) >= self._configuration().person_connections:
            stream.close()
            return
        self._refused.add(stream)
        asyncio.get_running_loop().call_later(_HEARS_WITHIN_S, stream.close)

    def check(self, request: HTTPServerRequest) -> None:
        """Look at a connection's request.

        Raises:
            PublicError: 429: its user has too many open.
        """
        if _stream(request) in self._refused:
            raise self._too_many()

    def check_token(self, request: HTTPServerRequest, caller: Caller) -> None:
        """Somebody whom a token names wants to keep the connection of *request*, over a network.

        Raises:
            PublicError: 429: he keeps too many.
        """
        stream = _stream(request)
        if caller.is_admin or stream is None or stream.socket is None or stream.socket.family == socket.AF_UNIX:
            return
        if not self._takes(f"person {caller.person}", stream):
            raise self._too_many()

    @contextmanager
    def claim(self, caller: Caller, key: str, holders: Collection[tuple[str, str]]) -> Iterator[None]:
        """Make one claim more, under *key*, than the *holders* (person and key) in the books.

        One that is decided and not kept yet is in the books already, and counts once.

        Raises:
            PublicError: 429: *caller* has too many open.
        """
        person, most = caller.person, self._configuration().person_claims
        if not caller.is_admin and self._claims(person, holders) >= most:
            template = (
                "You hold or wait for {most} shares here, which is the most for one person. Nothing is lost: end one, "
                "or ask an admin for more (person_claims in gpushare.toml)."
            )
            raise PublicError(429, Message("TOO_MANY_CLAIMS", template, {"most": str(most)}))
        self._claiming[person, key] += 1
        try:
            yield
        finally:
            self._claiming[person, key] -= 1
            self._claiming += Counter()  # those at zero go

    def _takes(self, who: str, stream: IOStream) -> bool:
        """Whether there is a place left for *stream*; it has it then."""
        most, mine = self._configuration().person_connections, self._open.setdefault(who, [])
        if len(mine) >= most:
            mine[:] = [each for each in mine if not each.closed()]
        if len(mine) >= most:
            return False
        mine.append(stream)
        return True

    def _claims(self, person: str, holders: Collection[tuple[str, str]]) -> int:
        """How many claims *person* has open. All of it in C: asked for each of thousands that come at once."""
        kept = list(map(itemgetter(0), holders)).count(person)
        return kept + sum(1 for each in self._claiming if each[0] == person and each not in holders)

    def _too_many(self) -> PublicError:
        template = (
            "You have {most} connections to the broker, which is the most for one person. Nothing is lost: close some, "
            "or ask an admin for more (person_connections in gpushare.toml)."
        )
        most = str(self._configuration().person_connections)
        return PublicError(429, Message("TOO_MANY_CONNECTIONS", template, {"most": most}))


class BoundedServer(HTTPServer):
    """A server that counts whose connections it takes."""

    bounds: Bounds

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Take a connection."""
        self.bounds.opened(stream)
        if not stream.closed():
            super().handle_stream(stream, address)


def _stream(request: HTTPServerRequest) -> IOStream | None:
    return getattr(request.connection, "stream", None)
