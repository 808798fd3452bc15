"""A real Jupyter Server with our extension, in a process of its own, that sees one rig's device."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.servers import OURS, Server, Workplace
from tests.gpu.driven import ROOT

if TYPE_CHECKING:
    import urllib.error
    from collections.abc import Iterator

    from tests.gpu.rig import Rig

__all__ = ["ParkingServer", "refusal", "running"]


@dataclass(frozen=True, slots=True)
class RigWorkplace(Workplace):
    """The folder of a server on *rig*, which has no stand-in for a driver."""

    rig: Rig | None = None

    def environment(self, delay_ms: float, counter: Path) -> dict[str, str]:  # noqa: ARG002  # the base's signature
        """What a server needs to see the rig's device and nothing of this machine's Jupyter configuration."""
        assert self.rig is not None
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "GPUSHARE"))}
        return {**kept, **self.rig.environ(), "PYTHONPATH": str(ROOT)}


class ParkingServer(Server):
    """A server that parks what it is asked to park."""

    def gpushare(self, path: str, body: Any = None) -> Any:
        """The answer of our REST API."""
        return self.request(f"gpushare/api/v1/{path}", body)

    def parking_of(self, kernel_id: str) -> Any:
        """How it is with parking one kernel."""
        return self.gpushare(f"kernels/{kernel_id}")["kernel"]["parking"]

    def start_notebook(self, path: str) -> str:
        """The id of a new kernel that a notebook shows."""
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        return str(self.request("api/sessions", body)["kernel"]["id"])

    def _command(self) -> list[str]:
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": "0",
            "ServerApp.terminals_enabled": "False",
            "ServerApp.jpserver_extensions": f"{self.extension.package}=True",
            "IdentityProvider.token": self.token,
            "GpuShare.parking": "park",
            # What else is on the machine is not the test's business.
            "GpuShare.allow_foreign": "True",
            "GpuShare.state_directory": str(self.folder / "state"),
            "GpuShare.lock_directory": str(self.folder / "locks"),
        }
        given = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", *given]


@contextmanager
def running(rig: Rig) -> Iterator[ParkingServer]:
    """A server on *rig*."""
    with tempfile.TemporaryDirectory(prefix="gpushare-server-", ignore_cleanup_errors=True) as folder:
        server = ParkingServer(RigWorkplace(Path(folder), rig=rig), "server", OURS)
        with server:
            yield server


def refusal(error: urllib.error.HTTPError) -> Any:
    """The JSON that an error answer carries."""
    return json.loads(error.read())
