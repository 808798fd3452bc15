"""What the parts share: a simulated machine, a real Jupyter Server on it in a process of its own, its kernels."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psutil

from jupyter_gpushare.demo.processes import Child, end_processes
from jupyter_gpushare.demo.server import API, Answer, Server
from jupyter_gpushare.demo.workspace import Workspace
from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from jupyter_gpushare.quantity import Memory
from scripts.soak.clients import Client, Console, Page
from scripts.soak.neighbour import Neighbour
from scripts.soak.record import ROOT
from scripts.soak.server_side import ORDER, is_checkpoint_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

__all__ = ["MIB", "Ended", "Notebook", "Site", "until"]

MIB: Final = 1 << 20
DEADLINE_S: Final = 120.0
_START_S: Final = 60.0
_LOOK_S: Final = 0.03
_DEVICE: Final = DeviceSpec(total=Memory(2112 * MIB), reserve=Memory(64 * MIB))


async def until(probe: Callable[[], Awaitable[Any]], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first true value of *probe*, asked again and again, ever more slowly.

    Raises:
        TimeoutError: none came within *deadline_s*; names *what* was waited for.
    """
    deadline, pause_s = time.monotonic() + deadline_s, _LOOK_S
    while not (value := await probe()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {deadline_s:g} s")
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.3, 0.5)
    return value


@dataclass(frozen=True)
class Ended:
    """How a wish to park ended: *code* is PARKED, or the constant of what spoke against it; *text* is for people."""

    code: str
    text: str = ""

    @property
    def is_parked(self) -> bool:
        """Whether it is parked."""
        return self.code == "PARKED"


class Notebook:
    """One kernel of the site, shown on a page. *process* holds its GPU memory."""

    def __init__(self, site: Site, kernel_id: str, page: Page, process: Identity) -> None:
        self.site, self.id, self.page, self.process = site, kernel_id, page, process

    async def begin(self, sizes: list[int], seed: int) -> dict[str, Any]:
        """Take GPU memory of these *sizes*; what the kernel tells of itself."""
        told: dict[str, Any] = await self.page.run(
            f"from scripts.soak import inside; inside.begin({sizes!r}, {seed})", "inside.told()"
        )
        return told

    async def told(self, by: Client | None = None) -> dict[str, Any]:
        """What it witnessed, after a look at all of its memory."""
        told: dict[str, Any] = await (by or self.page).run("inside.check()", "inside.told()")
        return told

    async def park(self) -> Ended:
        """Press the button, and wait for how that ends."""
        body = {"level": "park", "kernel_id": self.id, "when": "now"}
        begun = await self.site.server.request("POST", API + "releases", body)
        if begun.code != 202:  # noqa: PLR2004
            return _refused(begun)
        path = f"{API}releases/{begun.body['id']}?no_track_activity=1"

        async def final() -> Any:
            now = (await self.site.server.request("GET", path)).body
            return now if now["status"] != "running" else None

        ended = await until(final, f"the park of {self.id}")
        return Ended("PARKED") if ended["status"] == "released" else _told(ended["message"])

    async def park_when_quiet(self) -> Ended:
        """Press the button until no cell is in its way: that the last one has ended is known a moment later."""

        async def ended() -> Ended | None:
            now = await self.park()
            return None if now.code == "CELL_RUNNING" else now

        found: Ended = await until(ended, f"{self.id} is quiet")
        return found

    async def resume(self) -> None:
        """Press the other button, and wait until it runs."""
        await self.site.server.request("POST", API + "resumes", {"kernel_id": self.id})
        await self.until_status("running")

    async def status(self) -> str:
        """Where its parking is."""
        answer = await self.site.server.request("GET", f"{API}kernels/{self.id}?no_track_activity=1")
        return str(answer.body["kernel"]["parking"]["status"])

    async def until_status(self, *wanted: str) -> str:
        """Wait for one of these."""

        async def reached() -> str | None:
            now = await self.status()
            return now if now in wanted else None

        return str(await until(reached, f"status {wanted} of {self.id}"))

    async def state(self) -> str:
        """What its process may do with its GPU, asked of the driver itself and of nobody else."""

        def ask() -> str:
            driver = SimulatedCheckpoint(self.site.machine.path)
            try:
                return driver.state(self.process).value
            finally:
                driver.close()

        return await asyncio.to_thread(ask)


class Site:
    """Everything of one block. A server may die and another one take its place.

    Attributes:
        workspace: where all of it lives.
        machine: the simulated machine.
        server: the server that runs now.
    """

    def __init__(self, workspace: Workspace, machine: Machine, options: dict[str, Any]) -> None:
        self.workspace, self.machine = workspace, machine
        self._options = options
        self._server: Server | None = None
        self._children: list[Child] = []
        self._stack = AsyncExitStack()

    @classmethod
    @asynccontextmanager
    async def open(cls, **options: Any) -> AsyncIterator[Site]:
        """A site with a server that runs; *options* are of `GpuShare`. Everything is ended and removed afterwards."""
        workspace = Workspace.create()
        machine = Machine.create(workspace.machine, [_DEVICE], context_bytes=16 * MIB, copy_bytes_per_s=0)
        site = cls(workspace, machine, options)
        try:
            await site.start_server()
            yield site
        finally:
            await site.close()

    @property
    def server(self) -> Server:
        """The server that runs."""
        assert self._server is not None  # noqa: S101  # `open` started one
        return self._server

    @property
    def state(self) -> Path:
        """Where the servers keep their journal and their flags."""
        return self.workspace.root / "state"

    @property
    def locks(self) -> Path:
        """Where the device tokens and the bookings are."""
        return self.workspace.root / "locks"

    @property
    def order(self) -> Path:
        """The file of the hand that kills; see `server_side`."""
        return self.workspace.root / "order.json"

    def environment(self) -> dict[str, str]:
        """What the server, its kernels and the neighbours run in."""
        environment = self.workspace.environment(private_runtime=True)
        inherited = environment.get("PYTHONPATH")
        return environment | {
            "PYTHONPATH": f"{ROOT}:{inherited}" if inherited else str(ROOT),
            "JUPYTER_DATA_DIR": str(self.workspace.root / "data"),
            ORDER: str(self.order),
        }

    async def start_server(self) -> None:
        """Start a server; one that ran before is forgotten."""
        self._configure()
        # A page that the last server left open ends by itself.
        self._server = await Server.start(
            self.workspace,
            self.environment(),
            module="jupyter_server",
            deadline_s=_START_S,
            started=self._children.append,
        )

    async def start_kernel(self, name: str) -> Notebook:
        """Start a kernel that a notebook shows."""
        wish = {"path": f"{name}.ipynb", "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        answer = await self.server.request("POST", "api/sessions", wish)
        kernel_id: str = answer.body["kernel"]["id"]
        page = await self.open_page(kernel_id)
        pid = await page.run("import os", "str(os.getpid())")
        process = identify(pid)
        if process is None:
            raise RuntimeError(f"kernel {kernel_id} ended at once")
        return Notebook(self, kernel_id, page, process)

    async def open_page(self, kernel_id: str, *, legacy: bool = False) -> Page:
        """Open a page, to be closed with the site."""
        page = await Page.open(self.server, kernel_id, legacy=legacy)
        self._stack.push_async_callback(page.close)
        return page

    def open_console(self, kernel_id: str) -> Console:
        """Open a console, to be closed with the site."""
        console = Console(self.workspace.root / "runtime" / f"kernel-{kernel_id}.json")
        self._stack.push_async_callback(console.close)
        return console

    async def start_neighbour(self) -> Neighbour:
        """Start another program on the same GPU, to be ended with the site."""
        neighbour = await Neighbour.start(self.environment(), self.workspace.root)
        self._stack.push_async_callback(neighbour.end)
        return neighbour

    def checkpoint_processes(self) -> list[psutil.Process]:
        """The server's checkpoint processes: one, or none."""
        try:
            return [child for child in psutil.Process(self.server.child.pid).children() if is_checkpoint_process(child)]
        except psutil.NoSuchProcess:
            return []

    def give_order(self, step: str, victim: str) -> None:
        """Have the *victim*, ``server`` or ``checkpoint``, killed when that step begins."""
        written = self.order.with_suffix(".new")
        written.write_text(json.dumps({"step": step, "victim": victim}))
        written.rename(self.order)

    async def notices(self) -> list[dict[str, Any]]:
        """What the server told people."""
        answer = await self.server.request("GET", API + "session?no_track_activity=1")
        return list(answer.body["notices"])

    async def stop_server(self) -> None:
        """End the server as its user would."""
        await asyncio.to_thread(self.server.child.end, 30)

    async def close(self) -> None:
        """End what runs and remove what is left."""
        await self._stack.aclose()
        for child in self._children:
            await asyncio.to_thread(child.end, 15)
        await asyncio.to_thread(end_processes, self.workspace.root)
        self.machine.close()
        self.workspace.remove()

    def _configure(self) -> None:
        self.workspace.configure(port=0)
        path = self.workspace.settings / "jupyter_server_config.json"
        config = json.loads(path.read_text())
        config["ServerApp"]["jpserver_extensions"]["scripts.soak.server_side"] = True
        config["GpuShare"] = {
            "share": "1",
            "parking": "park",
            "idle_timeout_s": None,
            "allow_foreign": True,
            "state_directory": str(self.state),
            "lock_directory": str(self.locks),
            **self._options,
        }
        path.write_text(json.dumps(config))


def _refused(answer: Answer) -> Ended:
    if not isinstance(answer.body, dict) or "error" not in answer.body:
        return Ended(f"HTTP {answer.code}", str(answer.body))
    return _told(answer.body["error"])


def _told(message: dict[str, Any]) -> Ended:
    return Ended(
        str(message["values"].get("reason_code", message["code"])), message["template"].format(**message["values"])
    )
