"""``jupyter gpushare status``: what this user's running servers hold of their shares."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
from jupyter_core.application import JupyterApp
from tornado.httpclient import HTTPClientError
from traitlets import Bool

from jupyter_gpushare.demo.command import new_console
from jupyter_gpushare.demo.figures import memory, utilisation
from jupyter_gpushare.notebook.card import Card, Figure, Row, card_of, problem_card
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.notebook.view import KernelView
from jupyter_gpushare.session.wire import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.session.wire import ReadingModel

__all__ = ["ServerStatus", "StatusApp", "ask"]


@dataclass(frozen=True)
class ServerStatus:
    """One running server of this user: its session, or why there is none to show."""

    url: str
    directory: str
    session: Snapshot | None
    problem: str = ""


class StatusApp(JupyterApp):
    """What your running Jupyter servers hold of their GPU shares."""

    name = "jupyter-gpushare-status"
    description = __doc__
    json = Bool(help="Print JSON.").tag(config=True)
    aliases = {}  # noqa: RUF012  # traitlets reads it from the class
    flags = {"json": ({"StatusApp": {"json": True}}, "Print JSON.")}  # noqa: RUF012  # as above

    def start(self) -> None:
        """Print the status; exits with 1 when no server has a share to show."""
        super().start()
        from jupyter_server.serverapp import list_running_servers  # takes a second, which other commands need not

        statuses = asyncio.run(_statuses(list_running_servers(self.runtime_dir, self.log)))
        console = new_console()
        if self.json:
            console.out(json.dumps([_as_json(status) for status in statuses], indent=2), highlight=False)
        elif statuses:
            colour = console.color_system is not None and not console.no_color
            console.out("\n\n".join(text_of(_card(status), colour=colour) for status in statuses), highlight=False)
        else:
            console.print("No Jupyter server of yours is running here. Start one with: jupyter lab")
        self.exit(0 if any(status.session for status in statuses) else 1)


async def _statuses(servers: Iterable[dict[str, Any]]) -> list[ServerStatus]:
    return list(await asyncio.gather(*(ask(server) for server in servers)))


async def ask(server: dict[str, Any]) -> ServerStatus:
    """Ask one server, known by what its runtime file says, as its own user."""
    from jupyter_server.utils import async_fetch

    url, directory = str(server["url"]), str(server.get("root_dir", ""))
    headers = {"Authorization": f"token {server.get('token', '')}"}
    try:
        response = await async_fetch(f"{url}gpushare/api/v1/session?no_track_activity=1", headers=headers)
        session = msgspec.json.decode(response.body, type=Snapshot)
        _seen_by_nobody(session)  # checks it as strictly as a kernel checks its view
        return ServerStatus(url, directory, session)
    except HTTPClientError as error:
        return ServerStatus(url, directory, None, _http_problem(error.code))
    except OSError as error:
        return ServerStatus(url, directory, None, f"It does not answer: {error}")
    except msgspec.DecodeError as error:
        return ServerStatus(url, directory, None, f"Its answer is not understood: {error}. Is it of another version?")


def _http_problem(code: int) -> str:
    problems = {
        401: "It does not accept its own token.",
        403: "It does not let this user read the GPU share.",
        404: "It runs without the extension. Install jupyter_gpushare where it runs, then restart it.",
        599: "It did not answer in time.",
    }
    return problems.get(code, f"It answered with HTTP {code}; its log says why.")


def _as_json(status: ServerStatus) -> dict[str, Any]:
    session = None if status.session is None else msgspec.to_builtins(status.session)
    problem = status.problem or None
    return {"url": status.url, "directory": status.directory, "session": session, "problem": problem}


def _card(status: ServerStatus) -> Card:
    """What ``%gpushare`` would show, for all notebooks of the server."""
    title = f"{status.url}  {status.directory}"
    if status.session is None:
        return replace(problem_card(status.problem), title=title)
    session = status.session
    return replace(card_of(_seen_by_nobody(session)), title=title, rows=tuple(_rows(session)))


def _seen_by_nobody(session: Snapshot) -> KernelView:
    """The session as a kernel would see it that holds nothing: the rest of the card is the same for all."""
    nothing = {"value": None, "attribution": "unavailable"}
    kernel = {"id": "", "name": "", "path": None, "execution_state": "", "memory": nothing, "utilisation": nothing}
    return msgspec.convert(msgspec.to_builtins(session) | {"type": "kernel_view", "kernel": kernel}, KernelView)


def _rows(session: Snapshot) -> Iterable[Row]:
    for kernel in session.kernels:
        running = Figure("running" if kernel.busy_since is not None else "idle")
        yield Row(kernel.path or kernel.name, (_memory(kernel.memory), _utilisation(kernel.utilisation), running))
    for process in session.processes:
        figures = _memory(process.memory), _utilisation(process.utilisation), Figure(f"pid {process.pid}")
        yield Row(f"{process.kind}: {process.name}", figures)


def _memory(reading: ReadingModel) -> Figure:
    return Figure(memory(reading), reading.reason)


def _utilisation(reading: ReadingModel) -> Figure:
    return Figure(utilisation(reading), reading.reason)
