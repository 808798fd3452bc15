"""``jupyter gpushare status``: what this user's running servers hold of their shares."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from getpass import getuser
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from jupyter_core.application import JupyterApp
from traitlets import Bool

from jupyter_gpushare.app.broker_command import NoBrokerError, open_client
from jupyter_gpushare.app.servers import Answered, ask_all
from jupyter_gpushare.app.tables import leases_table
from jupyter_gpushare.broker.client import BrokerAway, BrokerError, NotAnEndpointError
from jupyter_gpushare.broker.wire import LeasesAnswer
from jupyter_gpushare.demo.command import new_console
from jupyter_gpushare.demo.figures import memory, utilisation
from jupyter_gpushare.notebook.card import Card, Figure, Row, card_of, problem_card
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.notebook.duration import clock
from jupyter_gpushare.notebook.parking_facts import MOVED_STATUSES, refusal_notes, time_of_day
from jupyter_gpushare.notebook.view import KernelView, Parking
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.session.wire import KernelModel, ReadingModel, Snapshot

__all__ = ["ServerStatus", "StatusApp", "ask"]


@dataclass(frozen=True)
class ServerStatus:
    """One running server of this user: its session, or why there is none to show."""

    url: str
    directory: str
    session: Snapshot | None
    problem: str = ""


class StatusApp(JupyterApp):
    """What your running Jupyter servers hold of their GPU shares, and your leases where there is a broker."""

    name = "jupyter-gpushare-status"
    description = __doc__
    json = Bool(help="Print JSON.").tag(config=True)
    aliases = {}  # noqa: RUF012  # traitlets reads it from the class
    flags = {"json": ({"StatusApp": {"json": True}}, "Print JSON.")}  # noqa: RUF012  # as above

    def start(self) -> None:
        """Print the status; exits with 1 when no server has a share to show."""
        super().start()
        from jupyter_server.serverapp import list_running_servers  # takes a second, which other commands need not

        answers = asyncio.run(ask_all(list_running_servers(self.runtime_dir, self.log)))
        statuses = [_checked(answered) for answered in answers]
        leases = [] if self.json else asyncio.run(_own_leases())
        console = new_console()
        if self.json:
            console.out(json.dumps([_as_json(status) for status in statuses], indent=2), highlight=False)
        elif statuses:
            colour = console.color_system is not None and not console.no_color
            console.out("\n\n".join(text_of(_card(status), colour=colour) for status in statuses), highlight=False)
        elif not leases:
            console.print("No Jupyter server of yours is running here. Start one with: jupyter lab")
        if leases:
            console.print(leases_table(leases))
        self.exit(0 if leases or any(status.session for status in statuses) else 1)


def _checked(answered: Answered) -> ServerStatus:
    """The session as strictly checked as a kernel checks its view."""
    server, session, problem = answered.server, answered.session, answered.problem
    try:
        if session is not None:
            _seen_by_nobody(session)
    except msgspec.ValidationError as error:
        session, problem = None, f"Its answer is not understood: {error}. Is it of another version?"
    return ServerStatus(server.url, server.directory, session, problem)


async def ask(server: dict[str, Any]) -> ServerStatus:
    """Ask one server, known by what its runtime file says, as its own user."""
    return _checked((await ask_all([server]))[0])


async def _own_leases() -> list[LeaseModel]:
    """What the broker knows of this user, notebooks and jobs; nothing where there is none to ask."""
    query = urlencode({"person": getuser()})
    try:
        client = await open_client()
        return (await client.request("GET", f"leases?{query}", type=LeasesAnswer)).leases
    except (BrokerError, BrokerAway, NotAnEndpointError, NoBrokerError):
        return []


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
    card = card_of(_seen_by_nobody(session))
    return replace(card, title=title, rows=tuple(_rows(session)), notes=(*card.notes, *_notes(session)))


def _seen_by_nobody(session: Snapshot) -> KernelView:
    """The session as a kernel would see it that holds nothing: the rest of the card is the same for all."""
    nothing = {"value": None, "attribution": "unavailable"}
    kernel = {"id": "", "name": "", "path": None, "execution_state": "", "memory": nothing, "utilisation": nothing}
    return msgspec.convert(msgspec.to_builtins(session) | {"type": "kernel_view", "kernel": kernel}, KernelView)


def _rows(session: Snapshot) -> Iterable[Row]:
    for kernel in session.kernels:
        figures = _kernel_memory(kernel), _utilisation(kernel.utilisation), Figure(_doing(kernel, session.at))
        yield Row(kernel.path or kernel.name, figures)
    for process in session.processes:
        figures = _memory(process.memory), _utilisation(process.utilisation), Figure(f"pid {process.pid}")
        yield Row(f"{process.kind}: {process.name}", figures)


def _notes(session: Snapshot) -> Iterable[str]:
    """Why kernels that hold something cannot be parked, and what was lost."""
    for kernel in session.kernels:
        if kernel.parking is not None and kernel.memory.value != 0:
            seen = msgspec.convert(msgspec.to_builtins(kernel.parking), Parking)
            yield from (f"{kernel.path or kernel.name}: {note}" for note in refusal_notes(seen))
    yield from (notice.message.text for notice in session.notices if notice.kind == "loss")


def _kernel_memory(kernel: KernelModel) -> Figure:
    parking = kernel.parking
    if parking is not None and parking.status in MOVED_STATUSES and parking.memory is not None:
        return Figure(f"{Memory(parking.memory).human} parked")
    return _memory(kernel.memory)


def _doing(kernel: KernelModel, now: float) -> str:
    """What happens to it, in a few words."""
    parking = kernel.parking
    activity = "running" if kernel.busy_since is not None else "idle"
    if parking is None:
        return activity
    if parking.status == "running":
        return activity if parking.kept_until is None else f"{activity}, kept until {time_of_day(parking.kept_until)}"
    if parking.status == "counting_down" and parking.parks_at is not None:
        return f"handed back in {clock(parking.parks_at - now)}"
    words = {"asked": "parks when its cell has ended", "waiting": "waiting for room"}
    return words.get(parking.status, f"{parking.status} since {time_of_day(parking.since)}")


def _memory(reading: ReadingModel) -> Figure:
    return Figure(memory(reading), reading.reason)


def _utilisation(reading: ReadingModel) -> Figure:
    return Figure(utilisation(reading), reading.reason)
