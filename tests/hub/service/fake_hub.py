"""A small hub: JupyterHub's REST interface as far as the service asks it, and a will of its own to be away."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.httputil import url_concat
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

if TYPE_CHECKING:
    import asyncio

SERVICE_TOKEN = "the-services-own-token"


@dataclass
class FakeUser:
    """A user, and the servers that it has, each as the hub's model says it."""

    name: str
    admin: bool = False
    groups: list[str] = field(default_factory=list)
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def serves(self, name: str = "", *, ready: bool = True, pending: str | None = None) -> None:
        """Have a server."""
        self.servers[name] = {"name": name, "ready": ready, "pending": pending, "stopped": False}


@dataclass
class FakeHub:
    """One hub.

    Attributes:
        users: by name.
        tokens: what ``/user`` answers whoever shows them.
        signed_in: whom the next browser belongs to that is sent to sign in; empty for nobody.
        is_broken: whether it answers 502 to everything.
        page: how many users a page of the list has.
        asked: the paths that were asked for.
        codes: issued by signing in.
        release: where set, answers wait for it.
        shown: the tokens that were asked about, each time.
    """

    users: dict[str, FakeUser] = field(default_factory=dict)
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    signed_in: str = ""
    is_broken: bool = False
    version: str = "6.1.1"
    page: int = 2
    asked: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)
    release: asyncio.Event | None = None
    base: str = "/"
    _server: HTTPServer | None = None
    port: int = 0

    @property
    def url(self) -> str:
        """Its REST interface."""
        return f"http://127.0.0.1:{self.port}{self.base}hub/api"

    def start(self) -> None:
        """Answer from now on, at the port of before if there was one."""
        sockets = bind_sockets(self.port, "127.0.0.1")
        self.port = sockets[0].getsockname()[1]
        root = f"{self.base}hub/api"
        application = Application(
            [
                (rf"{root}/?", _Root),
                (rf"{root}/user", _Whose),
                (rf"{root}/users", _Users),
                (rf"{root}/users/([^/]+)", _User),
                (rf"{root}/oauth2/authorize", _Authorize),
                (rf"{root}/oauth2/token", _Exchange),
            ],
            hub=self,
            log_function=lambda _handler: None,
        )
        self._server = HTTPServer(application)
        self._server.add_sockets(sockets)

    async def stop(self) -> None:
        """Be away."""
        if self._server is not None:
            self._server.stop()
            await self._server.close_all_connections()
            self._server = None

    def user(self, name: str, **more: Any) -> FakeUser:
        """A user, made if need be."""
        return self.users.setdefault(name, FakeUser(name, **more))

    def token_of(self, name: str, *scopes: str, kind: str = "user") -> str:
        """A token of *name* with *scopes*."""
        token = f"token-of-{name}-{len(self.tokens)}"
        model: dict[str, Any] = {"name": name, "kind": kind, "scopes": list(scopes)}
        if kind == "user":
            user = self.user(name)
            model |= {"admin": user.admin, "groups": user.groups}
        self.tokens[token] = model
        return token


class _Handler(RequestHandler):
    async def prepare(self) -> None:
        self.hub: FakeHub = self.settings["hub"]
        self.hub.asked.append(self.request.uri or "")
        self.hub.shown.append(self.request.headers.get("Authorization", "").removeprefix("token "))
        if self.hub.release is not None:
            await self.hub.release.wait()
        if self.hub.is_broken:
            self.set_status(502)
            self.finish("<html>Bad gateway</html>")

    def check_service(self) -> bool:
        if self.request.headers.get("Authorization") == f"token {SERVICE_TOKEN}":
            return True
        self.set_status(403)
        self.finish({"status": 403, "message": "Forbidden"})
        return False


class _Root(_Handler):
    def get(self) -> None:
        self.finish({"version": self.hub.version})


class _Whose(_Handler):
    def get(self) -> None:
        token = self.request.headers.get("Authorization", "").removeprefix("token ")
        model = self.hub.tokens.get(token)
        if model is None:
            self.set_status(403)
            self.finish({"status": 403, "message": "Forbidden"})
        else:
            user = self.hub.users.get(model["name"])
            now = {"groups": user.groups, "admin": user.admin} if model["kind"] == "user" and user else {}
            self.finish({**model, **now, "session_id": None, "token_id": "a1"})


class _Users(_Handler):
    def get(self) -> None:
        if not self.check_service():
            return
        offset = int(self.get_query_argument("offset", "0"))
        everybody = [user for user in self.hub.users.values() if user.servers]
        page = everybody[offset : offset + self.hub.page]
        following = None
        if offset + self.hub.page < len(everybody):
            query = {"state": "active", "offset": str(offset + self.hub.page), "limit": str(self.hub.page)}
            following = {"offset": offset + self.hub.page, "limit": self.hub.page}
            following["url"] = url_concat(f"http://hub.example{self.hub.base}hub/api/users", query)  # type: ignore[assignment]
        items = [_model(user) for user in page]
        self.set_header("Content-Type", "application/jupyterhub-pagination+json")
        self.finish(json.dumps({"items": items, "_pagination": {"next": following, "total": len(everybody)}}))


class _User(_Handler):
    def get(self, name: str) -> None:
        if not self.check_service():
            return
        user = self.hub.users.get(name)
        if user is None:
            self.set_status(404)
            self.finish({"status": 404, "message": "Not Found"})
        else:
            self.finish(_model(user))


class _Authorize(_Handler):
    """Signs in whoever the test says, without a page in between (``oauth_no_confirm``)."""

    def get(self) -> None:
        if not self.hub.signed_in:
            self.set_status(403)
            self.finish("log in first")
            return
        code = f"code-{len(self.hub.codes)}"
        self.hub.codes[code] = self.hub.signed_in
        back = {"code": code, "state": self.get_query_argument("state")}
        self.redirect(url_concat(self.get_query_argument("redirect_uri"), back))


class _Exchange(_Handler):
    def post(self) -> None:
        name = self.hub.codes.pop(self.get_body_argument("code"))
        token = self.hub.token_of(name, "access:services!service=gpushare", f"read:users:name!user={name}")
        self.finish({"access_token": token, "token_type": "Bearer"})


def _model(user: FakeUser) -> dict[str, Any]:
    return {"kind": "user", "name": user.name, "groups": user.groups, "servers": user.servers}
