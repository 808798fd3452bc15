"""Asks JupyterHub over its REST interface (its documentation, "JupyterHub REST API"; 5.5 to 6.1 answer alike here)."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import quote, urljoin, urlsplit

import msgspec
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

__all__ = ["HubAwayError", "HubRest", "Identified", "ServerModel", "UserModel"]

_PAGE: Final = 200
_MOST_PAGES: Final = 1000
_PATIENCE_S: Final = 10.0
_AT_ONCE: Final = 20
_LARGEST_ANSWER: Final = 64 << 20
_PAGINATED: Final = "application/jupyterhub-pagination+json"
_MISSING: Final = 404
_UNKNOWN: Final = frozenset({401, 403})


class HubAwayError(Exception):
    """The hub cannot be asked now: it does not answer, or not as a hub does. Says which."""


class ServerModel(msgspec.Struct, frozen=True):
    """A server as the hub tells of it. *pending* is ``spawn``, ``stop`` or ``check`` while that goes on."""

    name: str = ""
    pending: str | None = None
    ready: bool = False
    stopped: bool = False
    last_activity: str | None = None
    started: str | None = None


class UserModel(msgspec.Struct, frozen=True):
    """A user with its active servers, as far as this service may see them."""

    name: str
    groups: list[str] = []
    servers: dict[str, ServerModel] = {}


class Identified(msgspec.Struct, frozen=True):
    """Whose a token is, and what it may. A service has no groups."""

    name: str
    kind: Literal["user", "service"]
    admin: bool = False
    groups: list[str] = []
    scopes: list[str] = []


class _Next(msgspec.Struct):
    url: str


class _Pagination(msgspec.Struct):
    next: _Next | None = None


class _Users(msgspec.Struct):
    items: list[UserModel]
    pagination: _Pagination = msgspec.field(name="_pagination", default_factory=_Pagination)


@dataclass(frozen=True, slots=True)
class HubRest:
    """One hub, asked as one service.

    Attributes:
        url: the interface, without a slash at the end.
        token: the service's own.
        tls: for a hub with encryption between its parts (``JupyterHub.internal_ssl``).
    """

    url: str
    token: str
    tls: ssl.SSLContext | None = None
    _clients: list[AsyncHTTPClient] = field(default_factory=list)

    @classmethod
    def of(cls, url: str, token: str, environ: Mapping[str, str]) -> Self:
        """The hub that the service's environment names."""
        key, certificate = environ.get("JUPYTERHUB_SSL_KEYFILE"), environ.get("JUPYTERHUB_SSL_CERTFILE")
        if not key or not certificate:
            return cls(url, token)
        tls = ssl.create_default_context(cafile=environ.get("JUPYTERHUB_SSL_CLIENT_CA") or None)
        tls.load_cert_chain(certificate, key)
        return cls(url, token, tls)

    async def whose(self, token: str) -> Identified | None:
        """Whose *token* is; None for nobody's.

        Raises:
            HubAwayError: the hub cannot be asked.
        """
        return await self._ask("/user", Identified, token=token, without=_UNKNOWN)

    async def version(self) -> str:
        """Which JupyterHub it is.

        Raises:
            HubAwayError: as above.
        """
        said = await self._ask("/", dict[str, Any])
        return "" if said is None else str(said.get("version", ""))

    async def user(self, name: str) -> UserModel | None:
        """One user with its active servers; None when there is none of that name.

        Raises:
            HubAwayError: as above.
        """
        return await self._ask(f"/users/{quote(name, safe='')}", UserModel, without=frozenset({_MISSING}))

    async def users(self) -> AsyncIterator[UserModel]:
        """All users who have an active server, page by page: one that starts or stops is active too.

        Raises:
            HubAwayError: as above; what came before is not all.
        """
        path: str | None = f"/users?state=active&limit={_PAGE}"
        for _ in range(_MOST_PAGES):
            page = await self._ask(path or "", _Users)
            if page is None:
                return
            for user in page.items:
                yield user
            path = None if page.pagination.next is None else self._path_of(page.pagination.next.url)
            if path is None:
                return
        raise HubAwayError("the hub's list of users does not end")

    def close(self) -> None:
        """Let go of the connections."""
        while self._clients:
            self._clients.pop().close()

    def _client(self) -> AsyncHTTPClient:
        """Made when there is a loop. One of its own: a hub that hangs must keep nobody else's questions waiting."""
        if not self._clients:
            self._clients.append(
                AsyncHTTPClient(force_instance=True, max_clients=_AT_ONCE, max_body_size=_LARGEST_ANSWER)
            )
        return self._clients[0]

    def _path_of(self, url: str) -> str:
        """The next page's path and query: never another host's, whatever the answer says."""
        parts = urlsplit(urljoin(f"{self.url}/users", url))
        _, _, path = parts.path.partition("/hub/api")
        return f"{path or '/users'}?{parts.query}"

    async def _ask(
        self, path: str, kind: type[Any], *, token: str = "", without: frozenset[int] = frozenset()
    ) -> Any | None:
        request = HTTPRequest(
            f"{self.url}{path}",
            headers={"Authorization": f"token {token or self.token}", "Accept": _PAGINATED},
            connect_timeout=_PATIENCE_S,
            request_timeout=_PATIENCE_S,
            follow_redirects=False,
            ssl_options=self.tls,
        )
        try:
            answer = await self._client().fetch(request, raise_error=False)
        except (OSError, HTTPClientError) as error:
            raise HubAwayError(f"JupyterHub does not answer at {self.url}: {error}") from None
        if answer.code in without:
            return None
        if answer.error is not None or answer.code != 200:  # noqa: PLR2004  # OK
            raise HubAwayError(f"JupyterHub answers {path.partition('?')[0]} with {answer.code} {answer.reason}")
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HubAwayError(f"JupyterHub's answer to {path.partition('?')[0]} cannot be read: {error}") from None
