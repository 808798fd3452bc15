"""While the service begins somebody answers for it, so that a slow start costs nobody the hub."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from jupyter_gpushare.hub.service import beginning
from tests.kernel_ports.sitecustomize import next_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFIX = "/services/gpushare/"


@pytest.fixture
def port() -> Iterator[int]:
    """Of a service that has not begun."""
    yield next_port("127.0.0.1")
    beginning.end()


def _environ(port: int) -> dict[str, str]:
    return {"JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}", "JUPYTERHUB_SERVICE_PREFIX": PREFIX}


def test_the_hub_finds_somebody_and_everybody_else_is_told_to_come_back(port: int) -> None:
    """An answer below 500 at the service's address is what the hub waits for; claims and pages must not get one."""
    beginning.begin(_environ(port))
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        page = client.get(PREFIX)
        assert page.status_code == 200
        assert "begin" in page.text
        assert page.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        for verb, path in (
            ("GET", f"{PREFIX}api/v1/health"),
            ("PUT", f"{PREFIX}api/v1/claims/x"),
            ("POST", PREFIX),
            ("DELETE", f"{PREFIX}api/v1/claims/x"),
            ("GET", "/"),
        ):
            answer = client.request(verb, path, content=b"{}" if verb in ("PUT", "POST") else None)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1"), (verb, path)


def test_the_port_is_free_when_the_service_takes_over(port: int) -> None:
    """The service listens there itself a moment later."""
    beginning.begin(_environ(port))
    assert beginning.is_answering()
    beginning.end()
    assert not beginning.is_answering()
    with socket.create_server(("127.0.0.1", port)):
        pass


@pytest.mark.parametrize("url", ["", "nonsense", "http://127.0.0.1:99999", "unix:/tmp/x"])
def test_without_an_address_nobody_answers(url: str) -> None:
    """What is wrong with the hub's word is said by the service, in a sentence."""
    beginning.begin({"JUPYTERHUB_SERVICE_URL": url})
    assert not beginning.is_answering()


def test_a_port_that_is_taken_is_left_to_whoever_has_it(port: int) -> None:
    """The service of a hub that was killed may still be there: it is waited for as ever."""
    with socket.create_server(("127.0.0.1", port)):
        beginning.begin(_environ(port))
        assert not beginning.is_answering()


def test_a_service_answers_before_it_has_begun(port: int, tmp_path: Path) -> None:
    """Even one that cannot begin, as here without its token, answers its hub while it finds that out."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB_")}
    command = [sys.executable, "-m", "jupyter_gpushare.hub", "--state", str(tmp_path / "state")]
    with subprocess.Popen(
        command, env=environ | _environ(port), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as service:
        answered = False
        while service.poll() is None:
            try:
                answered = answered or httpx.get(f"http://127.0.0.1:{port}{PREFIX}").status_code == 200
            except httpx.TransportError:
                time.sleep(0.01)
        assert service.stdout is not None
        assert "is not set" in service.stdout.read()
    assert service.returncode == 1
    assert answered
