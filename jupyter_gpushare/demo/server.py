"""The demo's Jupyter server: started as a process of its own, and asked as a browser would ask it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from jupyter_core.paths import jupyter_runtime_dir
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_gpushare.demo.processes import Child
from jupyter_gpushare.session.wire import Snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from jupyter_gpushare.demo.workspace import Workspace

__all__ = ["API", "Answer", "FrontEnd", "Server", "ServerError"]

API: Final = "gpushare/api/v1/"
_POLL_S: Final = 0.1
# Where nobody opens a page: what serves Lab's takes more than half of a server's start.
_WITHOUT_PAGES: Final = "--ServerApp.jpserver_extensions={'jupyterlab': False, 'notebook': False, 'jupyter_lsp': False}"


class ServerError(RuntimeError):
    """The server did not start, went away, or did not answer in time. The message says which, and what it printed."""


@dataclass(frozen=True)
class Answer:
    """What the server answered: HTTP status and decoded JSON, None when there is none."""

    code: int
    body: Any

    @property
    def message(self) -> str:
        """The answer's sentence for people, or that it has none."""
        text = self.body.get("message") if isinstance(self.body, dict) else None
        return text if isinstance(text, str) else "without a message"


class FrontEnd:
    """Talks to a Jupyter server as its user's browser does. *url* ends with a slash; *deadline_s* bounds each wait."""

    def __init__(self, url: str, token: str, deadline_s: float) -> None:
        self.url, self.token, self.deadline_s = url, token, deadline_s

    @property
    def headers(self) -> dict[str, str]:
        """What authorises a request as the server's user."""
        return {"Authorization": f"token {self.token}"}

    async def request(
        self, method: str, path: str, body: object = None, *, headers: dict[str, str] | None = None
    ) -> Answer:
        """Ask *path* below the server's URL; an HTTP error is an answer too.

        Raises:
            OSError: the server is not there.
        """
        request = HTTPRequest(
            self.url + path,
            method,
            headers=self.headers if headers is None else headers,
            body=None if body is None else json.dumps(body),
            allow_nonstandard_methods=True,
            request_timeout=self.deadline_s,
        )
        response = await AsyncHTTPClient().fetch(request, raise_error=False)
        if response.code == 599:  # noqa: PLR2004  # tornado's own code for "no answer came"
            raise ServerError(f"The server did not answer {method} {path}: {response.error}")
        return Answer(response.code, _decoded(response.body))

    async def session(self) -> Snapshot:
        """What the sidebar would show now.

        Raises:
            ServerError: the extension is not there.
        """
        answer = await self.request("GET", API + "session?no_track_activity=1")
        if answer.code != 200:  # noqa: PLR2004
            raise ServerError(
                f"The server shows no GPU share (HTTP {answer.code}, {answer.message}). Is jupyter_gpushare on in it?"
            )
        return msgspec.convert(answer.body, Snapshot)

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """The sidebar's stream: one snapshot at once, then about one a second."""
        connection = await self.connect(API + "stream?no_track_activity=1")
        try:
            while True:
                yield msgspec.json.decode(await self.read(connection), type=Snapshot)
        finally:
            connection.close()

    async def connect(self, path: str) -> WebSocketClientConnection:
        """Open the WebSocket *path*."""
        address = self.url.replace("http", "ws", 1) + path
        return await websocket_connect(HTTPRequest(address, headers=self.headers, connect_timeout=self.deadline_s))

    async def read(self, connection: WebSocketClientConnection) -> str | bytes:
        """The connection's next frame.

        Raises:
            ServerError: it was closed, or none came within the deadline.
        """
        try:
            frame = await asyncio.wait_for(connection.read_message(), self.deadline_s)
        except TimeoutError:
            raise ServerError(f"The server sent nothing for {self.deadline_s:.0f} s.") from None
        if frame is None:
            raise ServerError(f"The server closed the connection: {connection.close_reason or 'no reason given'}")
        return frame


class Server(FrontEnd):
    """A Jupyter server that we started, in the process *child*."""

    def __init__(self, child: Child, url: str, token: str, deadline_s: float) -> None:
        super().__init__(url, token, deadline_s)
        self.child = child

    @classmethod
    async def start(
        cls,
        workspace: Workspace,
        environment: dict[str, str],
        *,
        module: Literal["jupyterlab", "jupyter_server"],
        deadline_s: float,
        started: Callable[[Child], None],
    ) -> Server:
        """Start *module* in *workspace* and wait until it answers. *started* gets the process at once, to end it.

        Raises:
            ServerError: it ended, or did not answer within *deadline_s*.
        """
        argv = [sys.executable, "-m", module, *([] if module == "jupyterlab" else [_WITHOUT_PAGES])]
        child = Child(argv, environment, workspace.notebooks, workspace.root / "server.log")
        started(child)
        runtime = environment.get("JUPYTER_RUNTIME_DIR") or jupyter_runtime_dir()
        info = await _info(child, Path(runtime) / f"jpserver-{child.pid}.json", deadline_s)
        server = cls(child, info["url"], info["token"], deadline_s)
        await server.wait_until_answers()
        return server

    async def wait_until_answers(self) -> None:
        """Wait until the server answers over HTTP.

        Raises:
            ServerError: it ended, or the deadline passed.
        """
        give_up = time.monotonic() + self.deadline_s
        while True:
            try:
                if (await self.request("GET", "api")).code == 200:  # noqa: PLR2004
                    return
            except OSError as error:
                _check(self.child, give_up, f"It does not answer: {error}.")
            await asyncio.sleep(_POLL_S)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None  # a page for a browser


async def _info(child: Child, path: Path, deadline_s: float) -> dict[str, Any]:
    """What the server wrote about itself: the port that it really got, and its token."""
    give_up = time.monotonic() + deadline_s
    while True:
        try:
            info: dict[str, Any] = json.loads(await asyncio.to_thread(path.read_text, encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            _check(child, give_up, "It has not opened its port.")
            await asyncio.sleep(_POLL_S)
        else:
            return info


def _check(child: Child, give_up: float, problem: str) -> None:
    if child.exit_code is not None:
        raise ServerError(f"The server ended with code {child.exit_code}. It printed:\n{child.log_tail()}")
    if time.monotonic() > give_up:
        raise ServerError(f"The server did not start in time. {problem} It printed:\n{child.log_tail()}")
