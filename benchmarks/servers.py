"""Real Jupyter servers with exactly one extension each, in processes of their own, over the stand-in driver."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks.stand_in import build as stand_in
from benchmarks.stand_in.source import DEVICE_FILE

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["NVDASHBOARD", "OURS", "PLAIN", "RESOURCE_USAGE", "Extension", "Server", "StartError", "Workplace"]

ROOT: Final = Path(__file__).parent.parent
_START_DEADLINE_S: Final = 60.0
_END_DEADLINE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Extension:
    """What a server is started with: a Python package, and its lab extension's folder under ``labextensions``."""

    name: str
    package: str = ""
    lab: str = ""


PLAIN: Final = Extension("none")
OURS: Final = Extension("jupyter_gpushare", "jupyter_gpushare", "jupyter-gpushare")
NVDASHBOARD: Final = Extension("nvdashboard", "jupyterlab_nvdashboard", "jupyterlab-nvdashboard")
RESOURCE_USAGE: Final = Extension("resource-usage", "jupyter_resource_usage", "@jupyter-server/resource-usage")


class StartError(RuntimeError):
    """A server did not start; the message ends with its last words."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """A folder in which servers run: the stand-in, its list of processes, and a folder for each server."""

    folder: Path
    devices: int = 8

    @property
    def processes(self) -> Path:
        """Who holds what on the stand-in's devices: see `stand_in.environment`."""
        return self.folder / "processes"

    @property
    def device_file(self) -> Path:
        """Who has this open holds a device, to our extension."""
        return self.folder / "device"

    def prepare(self) -> None:
        """Build the stand-in; nobody holds anything."""
        stand_in.build(self.folder / "driver")
        self.device_file.touch()
        self.hold([])

    def hold(self, kernel_pids: list[int]) -> None:
        """Each of the processes holds 2 GiB on the first device; a stranger, this process, some of each device."""
        strangers = [f"{device} {os.getpid()} 4096 20" for device in range(self.devices)]
        own = [f"0 {pid} 2048 50" for pid in kernel_pids]
        unfinished = self.processes.with_suffix(".new")
        unfinished.write_text("\n".join([*own, *strangers, ""]))
        unfinished.replace(self.processes)

    def environment(self, delay_ms: float, counter: Path) -> dict[str, str]:
        """What a server needs to see the stand-in and nothing of this machine's Jupyter configuration."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "GPUSHARE"))}
        library = stand_in.environment(
            self.folder / "driver",
            devices=self.devices,
            delay_ms=delay_ms,
            processes=self.processes,
            counter=counter,
        )
        return {**kept, **library, DEVICE_FILE: str(self.device_file), "PYTHONPATH": str(ROOT)}


@dataclass(slots=True)
class Server:
    """One server process. A context manager: it runs inside the block.

    Attributes:
        workplace: where.
        name: its folder's name, unlike any other's.
        extension: the only one that is enabled.
        delay_ms: how long each call of the driver takes.
        lab: whether it serves JupyterLab too, with the extension's front end alone.
    """

    workplace: Workplace
    name: str
    extension: Extension
    delay_ms: float = 0
    lab: bool = False
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    url: str = ""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """Its configuration, its log and its notebooks."""
        return self.workplace.folder / self.name

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None, "the server has not been started"
        return self._process.pid

    @property
    def driver_calls(self) -> int:
        """How many calls of the driver there were from this server."""
        return stand_in.calls(self.folder / "counter")

    def __enter__(self) -> Self:
        self._prepare()
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.folder / "notebooks",
                env={
                    **self.workplace.environment(self.delay_ms, self.folder / "counter"),
                    # No configuration file is read, those of the installation included: options say all.
                    "JUPYTER_NO_CONFIG": "1",
                    "JUPYTER_CONFIG_DIR": str(self.folder / "config"),
                    "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"),
                    "JUPYTER_DATA_DIR": str(self.folder / "data"),
                    "IPYTHONDIR": str(self.folder / "ipython"),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self.url = self._wait_for_url()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def request(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """The answer of the server's REST API, decoded; None for an empty one."""
        request = urllib.request.Request(  # noqa: S310  # our own server on this machine
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            text = answer.read()
        return json.loads(text) if text else None

    def start_kernel(self) -> str:
        """The id of a new kernel."""
        return str(self.request("api/kernels", {"name": "python3"})["id"])

    def _command(self) -> list[str]:
        module = "jupyterlab" if self.lab else "jupyter_server"
        if self.extension is OURS and not self.lab:
            module = "benchmarks.stand_in.server"
        options = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
        options += [f"--IdentityProvider.token={self.token}", "--ServerApp.terminals_enabled=False"]
        if self.extension.package:
            options.append(f"--ServerApp.jpserver_extensions={self.extension.package}=True")
        if self.lab:
            options += ["--expose-app-in-browser", f"--LabApp.labextensions_path={self.folder / 'labextensions'}"]
        return [sys.executable, "-m", module, *options]

    def _prepare(self) -> None:
        for part in ("config", "runtime", "data", "ipython", "notebooks", "labextensions"):
            (self.folder / part).mkdir(parents=True)
        if self.lab and self.extension.lab:
            self._install_labextension()

    def _install_labextension(self) -> None:
        installed = Path(sys.prefix, "share", "jupyter", "labextensions", self.extension.lab)
        shutil.copytree(installed, self.folder / "labextensions" / self.extension.lab)

    def _wait_for_url(self) -> str:
        deadline = time.monotonic() + _START_DEADLINE_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            url = self._published_url()
            if url and _answers(f"{url}api"):
                return url
            time.sleep(0.05)
        raise StartError(f"{self.name} did not start:\n{self.last_words()}")

    def _published_url(self) -> str:
        """The address that the server writes down for others, empty until it has."""
        try:
            return str(json.loads((self.folder / "runtime" / f"jpserver-{self.pid}.json").read_text())["url"])
        except (OSError, ValueError):
            return ""

    def last_words(self) -> str:
        """The end of the server's log."""
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-15:])

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310  # our own server on this machine
            return True
    except (urllib.error.URLError, OSError):
        return False
