"""``jupyter gpushare top``: the devices and who has them, live."""

from __future__ import annotations

import asyncio
import sys
import termios
import time
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Group
from rich.live import Live
from rich.text import Text
from traitlets import Float

from jupyter_gpushare.app.broker_command import BrokerCommand
from jupyter_gpushare.app.division import division
from jupyter_gpushare.app.tables import PATTERNS, STYLES, devices_table, leases_table, projects_table
from jupyter_gpushare.broker.client import BrokerAway, BrokerError
from jupyter_gpushare.broker.wire import DevicesAnswer, LeasesAnswer, ProjectsAnswer
from jupyter_gpushare.demo.command import new_console
from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

    from jupyter_gpushare.broker.client import BrokerClient
    from jupyter_gpushare.broker.wire import DeviceModel, LeaseModel

__all__ = ["Overview", "TopApp", "look"]

_NAMES: Final = {
    "notebook": "notebooks compute",
    "training": "training",
    "lent": "lent to training",
    "parked": "parked, kept",
    "others": "others",
    "free": "free",
}
_SHORTEST_S: Final = 0.2
_FOR_THE_REST: Final = 18


class Overview(msgspec.Struct, frozen=True):
    """Everything at one moment."""

    devices: DevicesAnswer
    projects: ProjectsAnswer
    leases: LeasesAnswer


class TopApp(BrokerCommand):
    """The GPUs and who has them, live: q ends it. Printed once where the output is no terminal."""

    name = "jupyter-gpushare-top"
    description = __doc__
    every = Float(2.0, help="Seconds between two looks.").tag(config=True)
    aliases = {"every": "TopApp.every"}  # noqa: RUF012  # traitlets reads it from the class
    flags = {"json": ({"TopApp": {"json": True}}, "Print JSON, once.")}  # noqa: RUF012  # as above

    def start(self) -> None:
        """Follow until q, or print once."""
        if self.every < _SHORTEST_S:
            self.exit(f"--every: {self.every:g} is below {_SHORTEST_S:g} s; write for example --every 2")
        super().start()

    async def asked(self, client: BrokerClient) -> Overview:
        """All of it, and live on a terminal until somebody presses q."""
        overview = await look(client)
        if not self.json and sys.stdin.isatty() and sys.stdout.isatty():
            overview = await _follow(client, overview, self.every)
        return overview

    def shown(self, answer: Overview) -> RenderableType:
        """Figures, devices, projects, leases."""
        return overview_of(answer, most_devices=100, most_leases=1000)


async def look(client: BrokerClient) -> Overview:
    """Ask for everything at once."""
    devices, projects, leases = await asyncio.gather(
        client.request("GET", "devices", type=DevicesAnswer),
        client.request("GET", "projects", type=ProjectsAnswer),
        client.request("GET", "leases", type=LeasesAnswer),
    )
    return Overview(devices, projects, leases)


def overview_of(seen: Overview, *, most_devices: int, most_leases: int, note: str = "") -> RenderableType:
    """The whole screen; what does not fit is counted."""
    leases = _foremost(seen.leases.leases, most_leases)
    parts: list[RenderableType] = [
        _figures(seen.devices.devices),
        devices_table(seen.devices.devices, seen.devices.hosts, most=most_devices),
        projects_table(seen.projects.projects),
        leases_table(leases),
    ]
    if hidden := len(seen.leases.leases) - len(leases):
        parts.append(Text(f"… and {hidden} more leases: jupyter gpushare leases", "dim"))
    if note:
        parts.append(Text(note, STYLES["changing"]))
    return Group(*parts)


def _figures(devices: Sequence[DeviceModel]) -> Text:
    """How the GPUs are used, as one line that is the bars' legend too."""
    text = Text(f"{len(devices)} GPU{'' if len(devices) == 1 else 's'}:  ")
    divisions = [division(device) for device in devices]
    for kind, name in _NAMES.items():
        amount = Fraction.total(each[kind] for each in divisions)
        text.append(f"{PATTERNS[kind]} {name} ", STYLES[kind]).append(f"{amount}   ", "bold")
    return text


def _foremost(leases: Sequence[LeaseModel], most: int) -> list[LeaseModel]:
    """Those that something happens to, then those that wait, then all others."""
    rank = {"parking": 0, "resuming": 0, "yielding": 0, "granted": 0, "missing": 0, "queued": 1}
    return sorted(leases, key=lambda lease: (rank.get(lease.status, 2), lease.place or 0, lease.submitted))[:most]


async def _follow(client: BrokerClient, first: Overview, every_s: float) -> Overview:
    console = new_console()
    seen, note = first, ""
    quits = asyncio.Event()

    def screen() -> RenderableType:
        rows = max(4, console.height - _FOR_THE_REST)
        return overview_of(seen, most_devices=rows // 2, most_leases=rows // 2, note=note)

    with _keys(lambda key: quits.set() if key in ("q", "Q") else None), Live(screen(), console=console) as live:
        while not quits.is_set():
            try:
                await asyncio.wait_for(quits.wait(), every_s)
            except TimeoutError:
                seen, note = await _look_again(client, seen)
                live.update(screen(), refresh=True)
    return seen


async def _look_again(client: BrokerClient, before: Overview) -> tuple[Overview, str]:
    """What is so now; what was so last, with a note, while the broker is away."""
    try:
        return await look(client), ""
    except (BrokerAway, BrokerError) as problem:
        return before, f"{time.strftime('%H:%M:%S')} {problem}"


@contextmanager
def _keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Hear single keys, without Enter, and leave the terminal as it was."""
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, lambda: pressed(sys.stdin.read(1)))
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
