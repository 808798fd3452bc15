"""docs/hub-how-to.md: what an admin copies from it works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from traitlets.config import Config

from jupyter_gpushare.app import GpuShareApp
from jupyter_gpushare.app.admin import AdminApp
from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.hub import setup_gpushare
from jupyter_gpushare.hub.news.signing import Secret
from jupyter_gpushare.rules.message import Message
from tests.kernel_ports.sitecustomize import next_port

from .guide import DOCS, Block, Guide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PAGES: Final = ("hub-how-to.md", "hub-tutorial.md", "culling.md", "news.md", "broker.md", "upgrading.md")
_SECRET: Final = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY="
_DEADLINE_S: Final = 60.0


def _blocks(language: str) -> list[Block]:
    return [block for block in Guide.read("hub-how-to.md").blocks() if block.language == language]


def _named(blocks: list[Block]) -> list[Any]:
    return [pytest.param(block, id=block.text.strip().splitlines()[0][:40]) for block in blocks]


@pytest.mark.parametrize("block", _named(_blocks("toml")))
def test_every_part_of_the_file_is_read(block: Block) -> None:
    """What is copied into gpushare.toml says something, and nothing unknown."""
    assert Configuration.parse(block.text) != Configuration()


@pytest.mark.parametrize("block", _named([each for each in _blocks("python") if "setup_gpushare(" in each.text]))
def test_every_part_of_the_hubs_configuration_works(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is copied into jupyterhub_config.py is taken, and the hub has our service beside the admin's own."""
    c = _configured(block, tmp_path, monkeypatch)
    services = [service["name"] for service in c.JupyterHub.services]
    assert services[-1] == "gpushare"
    for name in services[:-1]:
        assert any(name in role.get("services", ()) for role in c.JupyterHub.load_roles)


def _configured(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(tmp_path)
    c = Config()
    exec(compile(block.text, "jupyterhub_config.py", "exec"), {"c": c, "setup_gpushare": setup_gpushare})  # noqa: S102  # what JupyterHub does with it
    return c


async def test_students_get_the_students_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of an admission of one's own does what is said of it."""
    block = next(each for each in _blocks("python") if "class Admission" in each.text)
    names: dict[str, Any] = {"c": Config(), "setup_gpushare": setup_gpushare}
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, "jupyterhub_config.py", "exec"), names)  # noqa: S102  # as above
    everybody = SimpleNamespace(offers="all of them")
    admission = names["Admission"](everybody)
    student, other = (_spawner_of(*groups) for groups in (("students", "x"), ("x",)))
    assert [str(share) for share in admission.offers_for(student).shares] == ["0.25"]
    assert admission.offers_for(other) == "all of them"
    assert admission.word_denial(Message("NO", "No."), other).text == "No. Questions: gpu@example.org."


def _spawner_of(*groups: str) -> Any:
    return SimpleNamespace(user=SimpleNamespace(groups=[SimpleNamespace(name=name) for name in groups]))


def test_the_idle_cullers_configuration_has_the_hook() -> None:
    """The block that is for the culler itself names our hook."""
    block = next(each for each in _blocks("python") if "gpu_cull_arbiter" in each.text)
    c = Config()
    exec(compile(block.text, "idle_culler.py", "exec"), {"c": c})  # noqa: S102  # what the culler does with it
    assert callable(c.IdleCuller.cull_arbiter_hook)


@pytest.mark.parametrize("page", _PAGES)
def test_commands_exist(page: str) -> None:
    """Nobody is sent to a command of ours that is not there."""
    text = (DOCS / page).read_text(encoding="utf-8")
    named = set(re.findall(r"jupyter gpushare ([a-z-]+)", text)) - {"demo"}
    assert named <= set(GpuShareApp.subcommands)
    assert set(re.findall(r"jupyter gpushare admin ([a-z-]+)", text)) <= set(AdminApp.subcommands)


class _Chat(BaseHTTPRequestHandler):
    """A chat that takes messages from a webhook."""

    messages: list[dict[str, str]]

    def do_POST(self) -> None:
        self.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Say nothing."""


@pytest.fixture
def chat() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Its address, and what was said there."""
    messages: list[dict[str, str]] = []
    server = HTTPServer(("127.0.0.1", 0), type("Chat", (_Chat,), {"messages": messages}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", messages
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bridge(tmp_path: Path, chat: tuple[str, list[dict[str, str]]]) -> Iterator[str]:
    """The page's bridge as a process of its own; its address."""
    block = next(each for each in _blocks("python") if "class Bridge" in each.text)
    program, secret, port = tmp_path / "bridge.py", tmp_path / "secret", next_port("127.0.0.1")
    program.write_text(block.text)
    secret.write_text(f"{_SECRET}\n")
    secret.chmod(0o600)
    environ = os.environ | {"SECRET_FILE": str(secret), "CHAT_URL": chat[0], "PORT": str(port)}
    process = subprocess.Popen([sys.executable, str(program)], env=environ, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/"
    try:
        _wait_until_up(address, process)
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait_until_up(address: str, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _DEADLINE_S
    while True:
        try:
            httpx.get(address, timeout=_DEADLINE_S)
        except httpx.TransportError:
            assert process.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.05)
        else:
            return


def _tell(address: str, secret: Secret, *, key: str = "audit-1-2", ago_s: float = 0.0, text: str = "Come.") -> int:
    """Tell the bridge some news; the status of its answer."""
    body = json.dumps({"type": "gpushare.your_turn", "data": {"person": "ana", "text": text}}).encode()
    at = int(time.time() - ago_s)
    headers = {"webhook-id": key, "webhook-timestamp": str(at), "webhook-signature": secret.sign(key, at, body)}
    return httpx.post(address, content=body, headers=headers, timeout=_DEADLINE_S).status_code


def test_the_bridge_tells_what_is_ours_and_only_once(
    bridge: str, chat: tuple[str, list[dict[str, str]]], tmp_path: Path
) -> None:
    """News with our signature reach the chat once; forged and old ones never do."""
    ours = Secret.of_file(tmp_path / "secret")
    assert [_tell(bridge, ours), _tell(bridge, ours)] == [204, 204]
    assert _tell(bridge, Secret((b"another secret of its own",)), key="audit-2-2", text="Forged.") == 403
    assert _tell(bridge, ours, key="audit-3-2", ago_s=900, text="Old.") == 403
    assert chat[1] == [{"text": "@ana: Come."}]
