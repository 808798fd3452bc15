"""Who may do what: a table of every route and every caller."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from jupyter_server.utils import JupyterServerAuthWarning
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_gpushare.session.handlers import ROUTES
from jupyter_gpushare.session.tokens import TOKEN_HEADER
from tests.session.conftest import API

FREE = {"level": "free_cache", "kernel_id": "A"}
REPORT = {"memory": 5}

# route, method, body, then the status for: nobody, a reader, a user, kernel A, kernel B, a stranger's token,
# and kernel A in the browser of a user: the token decides, so that it never gets more than the kernel may have.
TABLE = [
    ("session", "GET", None, 403, 200, 200, 403, 403, 403, 403),
    ("devices", "GET", None, 403, 200, 200, 403, 403, 403, 403),
    ("kernels", "GET", None, 403, 200, 200, 403, 403, 403, 403),
    ("kernels/A", "GET", None, 403, 404, 404, 404, 403, 403, 404),
    ("kernels/A/report", "POST", REPORT, 403, 403, 403, 200, 403, 403, 200),
    ("processes", "GET", None, 403, 200, 200, 403, 403, 403, 403),
    ("history", "GET", None, 403, 200, 200, 403, 403, 403, 403),
    ("releases", "GET", None, 403, 200, 200, 403, 403, 403, 403),
    ("releases", "POST", FREE, 403, 403, 404, 404, 403, 403, 404),
    ("releases", "POST", {"level": "end_all"}, 403, 403, 409, 403, 403, 403, 403),
    ("releases/00", "GET", None, 403, 404, 404, 404, 404, 403, 404),
    ("resumes", "POST", {"kernel_id": "A"}, 403, 403, 404, 404, 403, 403, 404),
    ("resumes", "POST", {}, 403, 403, 202, 403, 403, 403, 403),
    ("keep", "POST", {"seconds": 60, "kernel_id": "A"}, 403, 403, 404, 404, 403, 403, 404),
    ("keep", "POST", {"seconds": 60}, 403, 403, 200, 403, 403, 403, 403),
    ("culling/keep", "POST", {"seconds": 60}, 403, 403, 409, 403, 403, 403, 403),
    ("request", "POST", {"share": "0.5"}, 403, 403, 409, 409, 409, 403, 409),
    ("kernels/A/policy", "PUT", {"reset": True}, 403, 403, 404, 404, 403, 403, 404),
    ("kernels/A/wake", "POST", {}, 403, 403, 403, 404, 403, 403, 404),
    ("parking", "GET", None, 403, 200, 200, 403, 403, 403, 403),
    ("releases", "POST", {"level": "park", "kernel_id": "A"}, 403, 403, 404, 404, 403, 403, 404),
    ("openapi.json", "GET", None, 403, 200, 200, 403, 403, 403, 403),
]
CALLERS = ["nobody", "reader", "user", "kernel A", "kernel B", "stranger", "user as kernel A"]


class ReadersOnly(Authorizer):
    """Lets everybody read and nobody else."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:  # noqa: ARG002
        return action == "read"


@pytest.fixture(name="call")
def _call(jp_serverapp: Any, jp_base_url: str, session: Any, origin: str) -> Any:
    """Make one request as one of the callers; its status."""
    tokens = {name: session.tokens.issue(name) for name in ("A", "B")}

    async def call(caller: str, path: str, method: str = "GET", body: Any = None) -> int:
        headers = (
            {"Authorization": f"token {jp_serverapp.identity_provider.token}"}
            if caller.startswith(("reader", "user"))
            else {}
        )
        if caller == "reader":
            jp_serverapp.web_app.settings["authorizer"] = ReadersOnly()
        if "kernel " in caller:
            headers[TOKEN_HEADER] = tokens[caller[-1]]
        if caller == "stranger":
            headers[TOKEN_HEADER] = "not-a-token"
        url = f"http://{origin}{jp_base_url}{'/'.join(API)}/{path}"
        request = HTTPRequest(url, method=method, headers=headers, body=json.dumps(body) if body is not None else None)
        return (await AsyncHTTPClient().fetch(request, raise_error=False)).code

    return call


@pytest.mark.parametrize("caller", CALLERS)
async def test_who_may_do_what(call: Any, caller: str) -> None:
    """Every verb of every route answers each caller exactly as the table says."""
    column = 3 + CALLERS.index(caller)
    expected = {(row[0], row[1], json.dumps(row[2])): row[column] for row in TABLE}
    seen = {(row[0], row[1], json.dumps(row[2])): await call(caller, row[0], row[1], row[2]) for row in TABLE}
    assert expected == seen


def test_the_table_is_complete() -> None:
    """No route can be added without saying who may use it."""
    listed = {row[0].replace("/A", "/K").replace("/00", "/R") for row in TABLE}
    routes = {
        pattern.removeprefix("/gpushare/api/v1/")
        .replace(r"(?P<kernel_id>[\w.-]{1,64})", "K")
        .replace("(?P<release_id>[0-9a-f]{1,32})", "R")
        for pattern, _ in ROUTES
    }
    assert listed == routes


async def connect(origin: str, base_url: str, headers: dict[str, str]) -> Any:
    """Open the stream with these headers."""
    url = f"ws://{origin}{base_url}{'/'.join(API)}/stream"
    return await websocket_connect(HTTPRequest(url, headers=headers))


@pytest.mark.parametrize("headers", [{}, {TOKEN_HEADER: "not-a-token"}, {"Authorization": "token wrong"}])
async def test_the_stream_is_closed_to_strangers(origin: str, jp_base_url: str, headers: dict[str, str]) -> None:
    """The WebSocket is refused before it opens, not after."""
    with pytest.raises(HTTPClientError) as caught:
        await connect(origin, jp_base_url, headers)
    assert caught.value.code == 403


async def test_the_stream_asks_the_authorizer(
    jp_serverapp: Any, origin: str, jp_base_url: str, jp_auth_header: Any
) -> None:
    """A user whom the server's authorizer does not let read gets no frame."""

    class Nobody(Authorizer):
        def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:  # noqa: ARG002
            return False

    jp_serverapp.web_app.settings["authorizer"] = Nobody()
    with pytest.raises(HTTPClientError) as caught:
        await connect(origin, jp_base_url, jp_auth_header)
    assert caught.value.code == 403


async def test_a_kernels_stream_shows_only_itself(
    origin: str, jp_base_url: str, session: Any, start_kernel: Any
) -> None:
    """With its own token a kernel sees its row and the totals, and no other notebook's name."""
    mine, other = await start_kernel("mine.ipynb"), await start_kernel("private.ipynb")
    socket = await connect(origin, jp_base_url, {TOKEN_HEADER: session.tokens.issue(mine)})
    text = await socket.read_message()
    frame = json.loads(text)
    assert frame["type"] == "kernel_view"
    assert frame["kernel"]["id"] == mine
    assert other not in text
    assert "private" not in text
    socket.close()


@pytest.mark.parametrize(
    "server_options", [{"allow_unauthenticated_access": False, "jpserver_extensions": {"jupyter_gpushare": True}}]
)
async def test_a_server_that_insists_on_authentication_finds_no_open_door(
    origin: str, jp_base_url: str, recwarn: Any
) -> None:
    """Jupyter's own check for handlers that forgot authentication has nothing to say, and every door is shut."""
    for path in ("session", "stream", "releases", "kernels/A"):
        url = f"http://{origin}{jp_base_url}{'/'.join(API)}/{path}"
        assert (await AsyncHTTPClient().fetch(url, raise_error=False)).code == 403
    assert [warning for warning in recwarn if issubclass(warning.category, JupyterServerAuthWarning)] == []
