"""A hub and its service with nothing behind them: the same answers to whichever culler asks. A process of its own."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from benchmarks.hub.culling.world import World, version

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE: Final = 50  # JupyterHub.api_page_default_limit
_LONGEST_PAGE: Final = 200  # JupyterHub.api_page_max_limit


class _Handler(RequestHandler):
    def initialize(self, world: World, stopped: list[str]) -> None:
        self.world, self.stopped = world, stopped


class _Root(_Handler):
    def get(self) -> None:
        self.write(version())


class _Users(_Handler):
    def get(self) -> None:
        limit = min(int(self.get_query_argument("limit", str(_PAGE))), _LONGEST_PAGE)
        offset = int(self.get_query_argument("offset", "0"))
        items = self.world.users[offset : offset + limit]
        following: Mapping[str, Any] | None = None
        if offset + limit < len(self.world.users):
            query = {"state": "ready", "limit": limit, "offset": offset + limit}
            url = f"{self.request.protocol}://{self.request.host}/hub/api/users?{urlencode(query)}"
            following = {"offset": offset + limit, "limit": limit, "url": url}
        pagination = {"offset": offset, "limit": limit, "total": len(self.world.users), "next": following}
        self.write({"items": items, "_pagination": pagination})


class _Server(_Handler):
    def delete(self, name: str) -> None:
        self.stopped.append(name)
        self.set_status(204)


class _Evidence(_Handler):
    def get(self) -> None:
        self.write(self.world.evidence)


class _Losses(_Handler):
    def post(self) -> None:
        self.write({"go_on": []})


class _Stopped(_Handler):
    def get(self) -> None:
        """Who was stopped since the last time."""
        self.write({"stopped": sorted(self.stopped)})
        self.stopped.clear()


async def _serve(world: World) -> None:
    given = {"world": world, "stopped": []}
    service = "/services/gpushare/api/v1/culling"
    routes = [
        (r"/hub/api/", _Root), (r"/hub/api/users", _Users), (r"/hub/api/users/([^/]+)/server", _Server),
        (rf"{service}/evidence", _Evidence), (rf"{service}/losses", _Losses), (r"/stopped", _Stopped),
    ]  # fmt: skip
    sockets = bind_sockets(0, "127.0.0.1")
    application = Application([(*route, given) for route in routes], log_function=lambda _: None)
    HTTPServer(application).add_sockets(sockets)
    print(json.dumps({"port": sockets[0].getsockname()[1]}), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["quiet", "usual", "mixed"])
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    asyncio.run(_serve(World(options.kind, options.count)))


if __name__ == "__main__":
    main()
