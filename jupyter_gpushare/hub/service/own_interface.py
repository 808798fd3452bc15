"""Pages act through the broker's own REST interface, as the person who looks: what one may is decided there, once.

It is this very process that is asked, over its own port. Who the person is was found out when the page was asked for;
a token says so that only this process can make and read, and that lives for a minute.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from jupyter_gpushare.broker.handlers import API
from jupyter_gpushare.broker.public_error import PublicError
from jupyter_gpushare.broker.wire import ErrorAnswer
from jupyter_gpushare.hub.service.standing import Level, Standing
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PREFIX", "OwnInterface", "OwnTokens"]

#: By which such a token is told from others.
PREFIX: Final = "gpi_"
_LIVES_S: Final = 60.0
_PATIENCE_S: Final = 30.0
_ERRORS: Final = 400
_AT_ONCE: Final = 100


class _Ticket(msgspec.Struct, frozen=True):
    name: str
    is_service: bool
    groups: frozenset[str]
    level: int
    until: float


class OwnTokens:
    """Makes and reads the tokens. *monotonic*: seconds that only go forward."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._monotonic = monotonic

    def issue(self, standing: Standing) -> str:
        """A token for *standing*."""
        until = self._monotonic() + _LIVES_S
        ticket = _Ticket(standing.name, standing.is_service, standing.groups, standing.level, until)
        body = base64.urlsafe_b64encode(msgspec.json.encode(ticket)).decode()
        return f"{PREFIX}{body}.{self._sign(body)}"

    def standing_of(self, token: str) -> Standing | None:
        """Whose *token* is; None for one that this process did not make, or long ago."""
        if not token.startswith(PREFIX) or not token.isascii():
            return None
        body, _, signature = token.removeprefix(PREFIX).rpartition(".")
        if not hmac.compare_digest(signature, self._sign(body)):
            return None
        ticket = msgspec.json.decode(base64.urlsafe_b64decode(body), type=_Ticket)
        if self._monotonic() > ticket.until:
            return None
        return Standing(ticket.name, ticket.is_service, ticket.groups, Level(ticket.level))

    def _sign(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()


class OwnInterface:
    """Asks the broker of this process.

    Args:
        tokens: makes the tokens that it knows people by.
        address: where it listens, such as ``http://127.0.0.1:10203``; known only when it does.
    """

    def __init__(self, tokens: OwnTokens, address: Callable[[], str]) -> None:
        self._tokens = tokens
        self._address = address
        self._client: AsyncHTTPClient | None = None

    def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def ask(self, standing: Standing, verb: str, path: str, body: Any = None) -> bytes:
        """What the broker answers *standing* to *verb* on *path*, which lies below its interface.

        Raises:
            PublicError: it refused, for the reason that it gave.
        """
        return await self.ask_with(self._tokens.issue(standing), verb, path, body)

    async def ask_with(self, token: str, verb: str, path: str, body: Any = None) -> bytes:
        """The same for whoever *token* is.

        Raises:
            PublicError: as above.
        """
        request = HTTPRequest(
            f"{self._address()}{API}/{path}",
            verb,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            body=None if body is None else msgspec.json.encode(body),
            allow_nonstandard_methods=True,
            request_timeout=_PATIENCE_S,
            follow_redirects=False,
        )
        if self._client is None:
            self._client = AsyncHTTPClient(force_instance=True, max_clients=_AT_ONCE)
        try:
            answer = await self._client.fetch(request, raise_error=False)
        except (OSError, HTTPClientError) as error:
            raise _stopping(error) from None
        if answer.code >= _ERRORS:
            raise _refusal(answer.code, answer.body)
        return answer.body


def _refusal(status: int, body: bytes) -> PublicError:
    said = msgspec.json.decode(body, type=ErrorAnswer)
    error = said.error
    return PublicError(status, Message(error.code, error.template, error.values), said.field)


def _stopping(error: BaseException) -> PublicError:
    template = "The broker does not answer now; try again in a moment. {problem}"
    return PublicError(503, Message("BROKER_AWAY", template, {"problem": str(error)[:200]}))
