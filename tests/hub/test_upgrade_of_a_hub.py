"""A hub's service is stopped, upgraded and started again: what it promised, whom it knew and what it signed stay."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from jupyter_gpushare.app.rolling_back import roll_back
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.quantity import Memory
from tests.hub.service.bench import HUB_TOKEN, POLICY
from tests.hub.service.test_environment import ENVIRON
from tests.kernel_ports.sitecustomize import next_port

from .test_upgrade import PREVIOUS_REVISION, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

API = "/services/gpushare/api/v1/"
HALF = {"share": "0.5", "project": "team-a"}
MIA = {"person": "mia", "groups": ["team-a"]}


class HubSite:
    """A machine with one GPU, and a hub's service on it that is started again and again on the same state."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.machine = Machine.create(directory / "machine", (DeviceSpec(total=Memory(4 << 30)),))
        self.state = directory / "gpushare-state"
        self.url = f"http://127.0.0.1:{next_port('127.0.0.1')}"
        self.policy = directory / "gpushare.toml"
        self.policy.write_text(POLICY)
        self.environ = {
            **os.environ,
            **ENVIRON,
            "JUPYTERHUB_SERVICE_URL": self.url,
            "JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api",
            "GPUSHARE_SIMULATED_MACHINE": str(self.machine.path),
            "JUPYTER_CONFIG_DIR": str(directory / "config"),
        }

    @contextmanager
    def service(self) -> Iterator[None]:
        """It runs, and is then ended in order."""
        command = [sys.executable, "-m", "jupyter_gpushare.hub", "--state", str(self.state), "--config"]
        log = self.directory / "service.log"
        with log.open("ab") as output:
            process = subprocess.Popen([*command, str(self.policy)], env=self.environ, stdout=output, stderr=output)
        try:
            wait_for(self._answers, lambda: log.read_text()[-2000:])
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()[-2000:]

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}{API}health").is_success
        except httpx.TransportError:
            return False

    def ask(self, verb: str, path: str, body: Any = None, token: str = HUB_TOKEN) -> httpx.Response:
        """What whoever shows *token* is answered; the hub itself by default."""
        return httpx.request(verb, f"{self.url}{API}{path}", json=body, headers={"Authorization": f"Bearer {token}"})

    def claims(self) -> dict[str, Any]:
        """All of them by their keys, as the hub is told them."""
        return {each["key"]: each for each in self.ask("GET", "claims").raise_for_status().json()["claims"]}

    def groups(self, person: str) -> list[str]:
        """Which the hub has said that *person* is in."""
        said: list[str] = self.ask("GET", f"memberships?person={person}").raise_for_status().json()["groups"]
        return said

    def promise(self) -> dict[str, str]:
        """Half the GPU each to ana, and to mia for a group of hers; ben waits for all of it. Their leases' tokens."""
        wishes = ({"person": "ana", "groups": []}, MIA, {"person": "ben", "groups": [], "share": "1", "wait": True})
        answers = [self.ask("PUT", key_of(wish), {**HALF, **wish}) for wish in wishes]
        assert [answer.status_code for answer in answers] == [201, 201, 202]
        return {answer.json()["lease"]["id"]: answer.json()["token"] for answer in answers}

    def statuses(self, tokens: dict[str, str]) -> list[str]:
        """Of each lease, as its holder is told."""
        found = [self.ask("GET", f"leases/{lease}", token=token) for lease, token in tokens.items()]
        return [each.raise_for_status().json()["status"] for each in found]

    def kept(self) -> dict[str, tuple[int, bytes]]:
        """Secrets that lie in its state: their modes and contents."""
        files = sorted(self.state.glob("*.key"))
        return {each.name: (each.stat().st_mode & 0o777, each.read_bytes()) for each in files}

    def left(self) -> list[str]:
        """What of it ``jupyter gpushare uninstall --check`` finds, run where the hub runs."""
        command = [sys.executable, "-m", "jupyter_gpushare.app", "uninstall", "--check", "--json"]
        checked = subprocess.run(
            command, env=self.environ, cwd=self.directory, capture_output=True, text=True, check=False, timeout=120
        )
        found = json.loads(checked.stdout)
        assert checked.returncode == int(bool(found)), checked.stderr
        here = (str(self.directory), str(self.state.relative_to(self.directory)))
        return [each["kind"] for each in found if any(place in each["what"] for place in here)]


@pytest.fixture
def site() -> Iterator[HubSite]:
    """A directory with a short name: a socket's path must be short."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    found = HubSite(directory)
    yield found
    found.machine.close()
    shutil.rmtree(directory, ignore_errors=True)


def key_of(wish: dict[str, Any]) -> str:
    """Where the claim of somebody's server is."""
    return f"claims/hub:{wish['person']}%2F"


def test_an_upgraded_service_keeps_what_the_one_before_promised(site: HubSite) -> None:
    """Claims, until when they hold, the line, the hub's groups, and both keys: the tokens of before are still good."""
    with site.service():
        tokens = site.promise()
        claims, kept = site.claims(), site.kept()
    assert {mode for mode, _ in kept.values()} == {0o600}
    assert set(kept) == {"cookie.key", "token.key"}
    with site.service():
        assert site.claims() == claims
        assert site.groups("mia") == ["team-a"]
        assert site.statuses(tokens) == ["granted", "granted", "queued"]
    assert site.kept() == kept


def test_a_service_that_was_taken_back_and_upgraded_again_loses_nobody(site: HubSite) -> None:
    """Tables of before there were hubs know no groups and no times: the shares stay, and the hub says the rest again."""
    with site.service():
        tokens = site.promise()
        claims = site.claims()
    ledger = site.state / "broker.sqlite"
    _, copy = roll_back(f"sqlite:///{ledger}", PREVIOUS_REVISION)
    with site.service():
        assert site.statuses(tokens) == ["granted", "granted", "queued"]
        assert {key: each["lease"] for key, each in site.claims().items()} == {
            key: each["lease"] for key, each in claims.items()
        }
        assert site.groups("mia") == []
        again = site.ask("PUT", key_of(MIA), {**HALF, **MIA})
        assert (again.status_code, again.json()["lease"]["id"]) == (200, claims["hub:mia/"]["lease"])
        assert site.groups("mia") == ["team-a"]
    assert copy is not None
    copy.replace(ledger)
    with site.service():
        assert site.claims() == claims, "the copy from before has everything"
        assert site.groups("mia") == ["team-a"]


def test_what_a_service_leaves_is_found_until_it_is_removed(site: HubSite) -> None:
    """The command that says what of us is on a machine finds a hub's books where the hub runs, and then nothing."""
    with site.service():
        site.promise()
    assert "books" in site.left()
    shutil.rmtree(site.state)
    assert site.left() == []
