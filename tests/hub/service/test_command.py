"""``python -m jupyter_gpushare.hub`` as the hub runs it: as a process, with the hub's variables."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.hub.service.parent import HUB_PROCESS
from tests.kernel_ports.sitecustomize import next_port

from .test_environment import ENVIRON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_S = 60.0


@pytest.fixture(name="environ")
def _environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What the hub sets, for a service on a free port and a simulated machine."""
    machine = Machine.create(tmp_path / "machine")
    port = next_port("127.0.0.1")
    yield {
        **os.environ,
        **ENVIRON,
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}",
        "JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api",
        "GPUSHARE_SIMULATED_MACHINE": str(machine.path),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
    }
    machine.close()


def command(tmp_path: Path, *more: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "jupyter_gpushare.hub", "--state", str(tmp_path / "state"), *more]


def health(environ: dict[str, str]) -> int:
    """What the service answers; 0 while it does not."""
    try:
        return httpx.get(f"{environ['JUPYTERHUB_SERVICE_URL']}/services/gpushare/api/v1/health").status_code
    except httpx.TransportError:
        return 0


def wait_until_up(environ: dict[str, str], process: subprocess.Popen[bytes]) -> None:
    """Wait until it answers."""
    end = time.monotonic() + DEADLINE_S
    while health(environ) != 200:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)


def test_it_answers_and_ends_as_it_is_told(tmp_path: Path, environ: dict[str, str]) -> None:
    """SIGTERM ends it in order, with nothing left on the port and its books closed."""
    process = subprocess.Popen(command(tmp_path), env=environ)
    try:
        wait_until_up(environ, process)
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
        assert health(environ) == 0
    finally:
        process.kill()
        process.wait()


def test_it_ends_when_the_hub_that_ran_it_is_killed(tmp_path: Path, environ: dict[str, str]) -> None:
    """An orphan makes room for the service of the next hub."""
    hub = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()", *command(tmp_path)],
        env=environ,
    )
    try:
        wait_until_up(environ, hub)
        hub.kill()
        hub.wait()
        end = time.monotonic() + DEADLINE_S
        while health(environ):
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        hub.kill()
        hub.wait()


def test_it_ends_when_its_hub_was_gone_before_it_looked(tmp_path: Path, environ: dict[str, str]) -> None:
    """A hub that is killed while its service starts leaves an orphan, whose parent is the machine's first process."""
    gone = subprocess.Popen(["sleep", "600"])
    named = identify(gone.pid)
    gone.kill()
    gone.wait()
    assert named is not None
    told = environ | {HUB_PROCESS: f"{named.pid} {named.start}"}
    process = subprocess.Popen(command(tmp_path), env=told)
    try:
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("wrong", ["state", "variable", "configuration", "option", "port"])
def test_what_is_wrong_is_said_in_one_sentence(wrong: str, tmp_path: Path, environ: dict[str, str]) -> None:
    """It does not start, and says what to do; no traceback."""
    more: list[str] = []
    expected = {
        "state": "must be a directory of its own (chmod 700)",
        "variable": "GPUSHARE_HUB_TOKEN is not set",
        "configuration": "quota",
        "option": "is no option of the service",
        "port": "JUPYTERHUB_SERVICE_URL",
    }[wrong]
    if wrong == "state":
        (tmp_path / "state").mkdir(mode=0o755)
    elif wrong == "variable":
        environ.pop("GPUSHARE_HUB_TOKEN")
    elif wrong == "configuration":
        (tmp_path / "gpushare.toml").write_text('[projects.team]\nquota = "many"\n')
        more = ["--config", str(tmp_path / "gpushare.toml")]
    elif wrong == "option":
        more = ["nonsense"]
    else:
        environ["JUPYTERHUB_SERVICE_URL"] = "ftp://nowhere"
    done = subprocess.run(
        command(tmp_path, *more), env=environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_it_waits_for_its_port(tmp_path: Path, environ: dict[str, str]) -> None:
    """The service of the hub before still has it for a moment: the books are taken over only when it is gone."""
    port = int(environ["JUPYTERHUB_SERVICE_URL"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)) as other:
        process = subprocess.Popen(command(tmp_path), env=environ)
        other.accept()[0].close()
        assert not (tmp_path / "state").exists()
    try:
        wait_until_up(environ, process)
    finally:
        process.terminate()
        process.wait()
