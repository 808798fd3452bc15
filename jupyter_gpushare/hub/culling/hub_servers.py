"""The hub's running servers, as few bytes and objects as possible: a hub may have ten thousand of them.

Over JupyterHub's REST interface (its documentation, "JupyterHub REST API"; 5.5 to 6.1 answer alike here). The scopes
that are needed are ``list:users``, ``read:users:name``, ``read:users:activity``, ``read:servers`` and
``delete:servers``.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urljoin, urlsplit

import msgspec
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from types import TracebackType

    from tornado.httpclient import HTTPResponse

__all__ = ["HubServers", "HubTroubleError", "Server", "User", "seconds_of"]

#: JupyterHub's own bound for one page, ``JupyterHub.api_page_max_limit``.
_PAGE: Final = 200
_MOST_PAGES: Final = 5000
_PATIENCE_S: Final = 60.0
_LARGEST_ANSWER: Final = 64 << 20
_PAGINATED: Final = "application/jupyterhub-pagination+json"
_OK: Final = 200
_SLOW: Final = 202
_DONE: Final = frozenset({200, 202, 204})
_GONE: Final = 404


class HubTroubleError(Exception):
    """The hub cannot be asked, or does not do what it is asked for. Says what happened."""


class Server(msgspec.Struct, frozen=True, gc=False):
    """One server. *pending* is what the hub does with it now, such as ``spawn`` or ``stop``."""

    pending: str | None = None
    ready: bool = False
    last_activity: datetime | None = None
    started: datetime | None = None
    user_options: Any = None


class User(msgspec.Struct, frozen=True):
    """One person with their servers, by name."""

    name: str
    servers: dict[str, Server] = {}


class _Next(msgspec.Struct):
    url: str


class _Pagination(msgspec.Struct):
    next: _Next | None = None


class _Page(msgspec.Struct):
    items: list[User]
    pagination: _Pagination = msgspec.field(name="_pagination", default_factory=_Pagination)


_DECODER: Final = msgspec.json.Decoder(_Page)


@dataclass(slots=True)
class HubServers:
    """One hub, asked by one culler. Use it as an async context.

    Attributes:
        url: of the REST interface, without a slash at the end.
        token: shows who asks.
        tls: for a hub with encryption between its parts (``JupyterHub.internal_ssl``).
        at_once: how many requests are on their way at a time, at most.
    """

    url: str
    token: str
    tls: ssl.SSLContext | None = None
    at_once: int = 10
    _client: AsyncHTTPClient | None = field(default=None, init=False)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """The hub that *environ* names, as it does for a service.

        Raises:
            KeyError: it names none; the argument is the variable that is missing.
        """
        url, token = (environ[name] for name in ("JUPYTERHUB_API_URL", "JUPYTERHUB_API_TOKEN"))
        key, certificate = environ.get("JUPYTERHUB_SSL_KEYFILE"), environ.get("JUPYTERHUB_SSL_CERTFILE")
        if not key or not certificate:
            return cls(url.rstrip("/"), token)
        tls = ssl.create_default_context(cafile=environ.get("JUPYTERHUB_SSL_CLIENT_CA") or None)
        tls.load_cert_chain(certificate, key)
        return cls(url.rstrip("/"), token, tls)

    async def __aenter__(self) -> Self:
        self._client = SimpleAsyncHTTPClient(
            force_instance=True, max_clients=self.at_once, max_body_size=_LARGEST_ANSWER
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    async def users(self) -> AsyncIterator[list[User]]:
        """Everybody who has a ready server, page by page.

        Raises:
            HubTroubleError: what came before is not all.
        """
        path: str | None = f"/users?state=ready&limit={_PAGE}"
        for _ in range(_MOST_PAGES):
            if path is None:
                return
            page = self._decoded(await self._fetch("GET", path))
            yield page.items
            path = None if page.pagination.next is None else self._path_of(page.pagination.next.url)
        if path is not None:
            raise HubTroubleError("the hub's list of users does not end")

    async def stop(self, person: str, server: str) -> bool:
        """Stop *person*'s *server*; whether it has stopped already, and not only begun to.

        Raises:
            HubTroubleError: the hub does not.
        """
        name = quote(person, safe="")
        path = f"/users/{name}/servers/{quote(server, safe='')}" if server else f"/users/{name}/server"
        answer = await self._fetch("DELETE", path, fine=_DONE | {_GONE})
        return answer.code != _SLOW

    def _decoded(self, answer: HTTPResponse) -> _Page:
        try:
            return _DECODER.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HubTroubleError(f"the hub's list of users cannot be read: {error}") from None

    def _path_of(self, url: str) -> str:
        """The next page's path and query: never another host's, whatever the answer says."""
        parts = urlsplit(urljoin(f"{self.url}/users", url))
        _, _, path = parts.path.partition("/hub/api")
        return f"{path or '/users'}?{parts.query}"

    async def _fetch(self, method: str, path: str, fine: frozenset[int] = frozenset({_OK})) -> HTTPResponse:
        assert self._client is not None  # noqa: S101  # used as a context
        request = HTTPRequest(
            f"{self.url}{path}",
            method=method,
            headers={"Authorization": f"token {self.token}", "Accept": _PAGINATED},
            connect_timeout=_PATIENCE_S,
            request_timeout=_PATIENCE_S,
            follow_redirects=False,
            ssl_options=self.tls,
        )
        try:
            answer = await self._client.fetch(request, raise_error=False)
        except (OSError, HTTPClientError) as error:
            raise HubTroubleError(f"JupyterHub does not answer at {self.url}: {error}") from None
        if answer.code not in fine:
            raise HubTroubleError(f"JupyterHub answers {method} {path.partition('?')[0]} with {answer.code}")
        return answer


def seconds_of(moment: datetime | None) -> float | None:
    """Since the epoch. A moment without a zone is in UTC, as JupyterHub's are."""
    if moment is None:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
