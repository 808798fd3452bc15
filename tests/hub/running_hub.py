"""JupyterHub, its proxy and its users' servers as real processes, configured by `hub_config/local`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import httpx
import psutil

from tests.kernel_ports.sitecustomize import next_port

from .browser_user import BrowserUser

if TYPE_CHECKING:
    from collections.abc import Callable

Found = TypeVar("Found")

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "hub_config" / "local" / "jupyterhub_config.py"
PROXY = Path(__file__).parent / "node_modules" / ".bin" / "configurable-http-proxy"
PASSWORD = "only-for-this-test"
DEADLINE_S = 120.0


def wait_for(what: str, attempt: Callable[[], Found | None]) -> Found:
    """Try until *attempt* gives something, for as long as a slow machine may need; print how long it took."""
    start = time.monotonic()
    while (found := attempt()) is None:
        if time.monotonic() - start > DEADLINE_S:
            raise TimeoutError(f"{what}: nothing for {DEADLINE_S:.0f} s")
        time.sleep(0.1)
    sys.stdout.write(f"{what}: {time.monotonic() - start:.1f} s\n")
    return found


class RunningHub:
    """One JupyterHub in *directory*. `stop` ends it, its proxy and every server, also after a failure."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        port, hub_port, api_port = (next_port("127.0.0.1") for _ in range(3))
        self.url = f"http://127.0.0.1:{port}"
        self.log = directory / "hub.log"
        command = [
            sys.executable, "-m", "jupyterhub", "-f", str(CONFIG),
            f"--JupyterHub.bind_url={self.url}",
            f"--JupyterHub.hub_bind_url=http://127.0.0.1:{hub_port}",
            f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{api_port}",
            f"--ConfigurableHTTPProxy.command={PROXY}",
            "--JupyterHub.authenticate_prometheus=False",
            f"--Spawner.start_timeout={DEADLINE_S:.0f}",
            f"--Spawner.http_timeout={DEADLINE_S:.0f}",
        ]  # fmt: skip
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=directory, env=self._environment(), stdout=log, stderr=subprocess.STDOUT
            )

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "GPUSHARE"))}
        return {
            **kept,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]]),
            "GPUSHARE_HUB_DIR": str(self.directory),
            "GPUSHARE_HUB_PORT": str(next_port("127.0.0.1")),
            "GPUSHARE_HUB_PASSWORD": PASSWORD,
        }

    def wait_until_up(self) -> None:
        """Wait until the hub and its service answer through the proxy."""
        wait_for("hub up", lambda: self._answers("/hub/health"))
        wait_for("service up", lambda: self._answers("/services/gpushare/api/v1/health"))

    def _answers(self, path: str) -> bool | None:
        if self.process.poll() is not None:
            raise RuntimeError(f"the hub ended with {self.process.returncode}:\n{self.log_tail()}")
        try:
            return httpx.get(f"{self.url}{path}").is_success or None
        except httpx.TransportError:
            return None

    def log_in(self, name: str) -> BrowserUser:
        """A browser in which *name* has logged in."""
        return BrowserUser(self.url, name, PASSWORD)

    def log_tail(self) -> str:
        """The end of the hub's log, for a failure's message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])

    def server_processes(self, name: str) -> list[int]:
        """The processes of *name*'s server, found by the environment they run in."""
        return [process.pid for process in self._family() if _runs_for(process, name)]

    def _family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> None:
        """End the hub; what it leaves behind is ended too."""
        family = self._family()
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=15)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=15)


def _runs_for(process: psutil.Process, name: str) -> bool:
    try:
        return process.environ().get("JUPYTERHUB_USER") == name
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
