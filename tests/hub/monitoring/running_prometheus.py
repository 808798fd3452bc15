"""A real Prometheus on a free port of this machine, with our own scrape configuration and alert rules."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MONITORING = Path(__file__).parents[3] / "hub_config" / "monitoring"
_DEADLINE_S = 120.0


def program(name: str) -> str:
    """Where the program *name* of Debian's package ``prometheus`` is."""
    found = shutil.which(name)
    assert found is not None, f"{name} is not installed: scripts/prepare matrix"
    return found


class RunningPrometheus:
    """Asks it over its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        """The ``data`` of an answer; an error of Prometheus is an AssertionError with its own words."""
        try:
            with urlopen(f"{self.url}{path}?{urlencode(query)}", timeout=30) as answer:  # noqa: S310  # on this machine
                said = json.load(answer)
        except URLError as error:
            body = error.read().decode() if hasattr(error, "read") else ""
            raise AssertionError(f"{path} {query}: {error} {body}") from error
        assert said["status"] == "success", said
        return said["data"]

    def series(self, expression: str) -> list[dict[str, Any]]:
        """What an instant query finds now."""
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expression)["result"]
        return found

    def until(self, probe: Callable[[], Any], what: str) -> Any:
        """Wait until *probe* gives something true."""
        end = time.monotonic() + _DEADLINE_S
        while time.monotonic() < end:
            if found := probe():
                return found
            time.sleep(0.1)
        raise AssertionError(f"{what}: not after {_DEADLINE_S} s")


@contextmanager
def running_prometheus(directory: Path, targets: Mapping[str, int], token: str) -> Iterator[RunningPrometheus]:
    """Scrape *targets*, each job's port on this machine, every second; ended afterwards."""
    configuration = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(MONITORING / each) for each in configuration["rule_files"]]
    (directory / "token").write_text(token)
    for job in configuration["scrape_configs"]:
        job["scheme"] = "http"
        job["authorization"]["credentials_file"] = str(directory / "token")
        job["static_configs"] = [{"targets": [f"127.0.0.1:{targets[job['job_name']]}"]}]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = {
        "config.file": directory / "prometheus.yml",
        "storage.tsdb.path": directory / "data",
        "web.listen-address": f"127.0.0.1:{port}",
        "log.level": "warn",
    }
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [program("prometheus"), *(f"--{name}={value}" for name, value in arguments.items())],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            prometheus = RunningPrometheus(f"http://127.0.0.1:{port}")
            prometheus.until(lambda: _is_ready(prometheus.url, process), (directory / "log").read_text())
            yield prometheus
        finally:
            process.terminate()
            process.wait(30)


def _is_ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Prometheus ended at its start"
    try:
        with urlopen(f"{url}/-/ready", timeout=5) as answer:  # noqa: S310  # on this machine
            return bool(answer.status == 200)
    except OSError:
        return False
