"""A small hub over HTTP: JupyterHub's REST interface as far as cullers use it, and a will of its own to fail."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "the-cullers-own-token"


@dataclass
class SmallHub:
    """One hub.

    Attributes:
        users: the names of their servers, each with the hub's own model.
        page: how many users a page has, whatever is asked for.
        stopped: whose servers were stopped, ``person/server``.
        fails_at: the number of the page at which the list breaks off; None for never.
        refuses: whose servers do not stop.
        asked: how often it was asked anything.
        calls_itself: the host in its links to further pages, as behind a proxy; its own where it is empty.
        url: of its REST interface, while it serves.
    """

    users: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    page: int = 200
    stopped: list[str] = field(default_factory=list)
    fails_at: int | None = None
    refuses: set[str] = field(default_factory=set)
    asked: int = 0
    calls_itself: str = ""
    url: str = ""

    def add(self, person: str, name: str = "", *, active: float, started: float, **more: Any) -> dict[str, Any]:
        """Give *person* a ready server, active and started at those moments (seconds since the epoch)."""
        path = f"/hub/api/users/{quote(person)}/" + (f"servers/{name}/progress" if name else "server/progress")
        model = {
            "name": name, "full_name": f"{person}/{name}", "last_activity": iso(active), "started": iso(started),
            "pending": None, "ready": True, "stopped": False, "url": f"/user/{quote(person)}/{name}",
            "user_options": {}, "progress_url": path, **more,
        }  # fmt: skip
        self.users.setdefault(person, {})[name] = model
        return model

    @contextmanager
    def serving(self) -> Iterator[SmallHub]:
        """Answer for as long as the context lasts; enter it on an event loop."""
        sockets = bind_sockets(0, "127.0.0.1")
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/hub/api"
        server = HTTPServer(Application([(r"/hub/api/?(.*)", _Api, {"hub": self})], log_function=lambda _: None))
        server.add_sockets(sockets)
        try:
            yield self
        finally:
            server.stop()


class _Api(RequestHandler):
    def initialize(self, hub: SmallHub) -> None:
        self.hub = hub

    def prepare(self) -> None:
        self.hub.asked += 1
        if self.request.headers.get("Authorization") != f"token {TOKEN}":
            self.send_error(403)

    def get(self, path: str) -> None:
        if not path:
            self.write({"version": "6.1.1"})
            return
        assert path == "users"
        assert self.get_query_argument("state") == "ready"
        offset = int(self.get_query_argument("offset", "0"))
        if self.hub.fails_at is not None and offset // self.hub.page >= self.hub.fails_at:
            self.send_error(502)
            return
        names = sorted(self.hub.users)
        items = [_user(name, self.hub.users[name]) for name in names[offset : offset + self.hub.page]]
        following = offset + self.hub.page
        query = urlencode({"state": "ready", "offset": following, "limit": self.hub.page})
        url = f"http://{self.hub.calls_itself or self.request.host}/hub/api/users?{query}"
        self.write({"items": items, "_pagination": {"next": {"url": url} if following < len(names) else None}})

    def delete(self, path: str) -> None:
        _, person, *rest = path.split("/")
        name = rest[1] if rest[0] == "servers" else ""
        whose = f"{person}/{name}"
        if whose in self.hub.refuses:
            self.send_error(500)
            return
        self.hub.stopped.append(whose)
        self.set_status(204)


def _user(name: str, servers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "kind": "user", "admin": False, "last_activity": None, "created": None, "servers": servers}


def iso(at: float) -> str:
    """As JupyterHub writes a moment."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
