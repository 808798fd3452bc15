"""``jupyter gpushare status`` against servers of every kind, the ill-behaved ones included."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.app.status import ask
from jupyter_gpushare.demo.figures import UNKNOWN as UNKNOWN_SIGN
from jupyter_gpushare.devices.device import Attribution, DriverState
from jupyter_gpushare.session import wire

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

UNKNOWN = wire.ReadingModel(None, Attribution.UNAVAILABLE, "this MIG device does not report it")


def _exactly(value: int) -> wire.ReadingModel:
    return wire.ReadingModel(value, Attribution.EXACT)


def _session() -> wire.Snapshot:
    device = wire.DeviceModel(
        uuid="GPU-1", index=0, host="h", kind="a100", name="A100", is_mig=False, total=40 * 10**9, usable=40 * 10**9,
        used=_exactly(18 * 10**9), utilisation=UNKNOWN, mine=_exactly(8 * 10**9), others=_exactly(10 * 10**9),
        other_holders=1,
    )  # fmt: skip
    kernel = wire.KernelModel(
        id="k", name="python3", path="evil\x1b[31m.ipynb", execution_state="busy", busy_since=1.0, idle_since=None,
        running="train()", memory=_exactly(8 * 10**9), utilisation=UNKNOWN, processes=1, levels=["end_kernel"],
        note=None,
    )  # fmt: skip
    share = wire.ShareModel("0.5", "½ GPU guaranteed", "environment", ["GPU-1"], 20 * 10**9, 20 * 10**9, "shared")
    return wire.Snapshot(
        seq=1, at=1.0, simulated=False, driver=wire.DriverModel("nvidia", DriverState.READY, "580", ""), share=share,
        memory=_exactly(8 * 10**9), utilisation=UNKNOWN, devices=[device], kernels=[kernel], processes=[], releases=[],
        state=wire.MessageModel("ACTIVE", "Active.", {}, "Active."),
    )  # fmt: skip


class FakeServer(ThreadingHTTPServer):
    """Answers every request the same way, and remembers what it was asked with."""

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.code, self.body = code, body
        self.authorizations: list[str | None] = []


class _Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def do_GET(self) -> None:
        """Answer."""
        self.server.authorizations.append(self.headers["Authorization"])
        self.send_response(self.server.code)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def serve(places: dict[str, str]) -> Iterator[Callable[[int, bytes], FakeServer]]:
    """Starts a fake server that this user's runtime directory announces."""
    servers: list[FakeServer] = []

    def begin(code: int, body: bytes) -> FakeServer:
        server = FakeServer(code, body)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        _announce(places, f"http://127.0.0.1:{server.server_address[1]}/", len(servers))
        return server

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def _announce(places: dict[str, str], url: str, number: int = 0) -> None:
    info = {"url": url, "pid": os.getpid(), "token": "own-token", "root_dir": "/lab"}
    path = Path(places["JUPYTER_RUNTIME_DIR"]) / f"jpserver-{number}.json"
    path.write_text(json.dumps(info), encoding="utf-8")


def test_status_shows_share_use_and_rows(
    serve: Callable[[int, bytes], FakeServer], gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """The figures are the server's, asked with the server's own token; unknown is a dash with its reason, never 0."""
    server = serve(200, msgspec.json.encode(_session()))
    ended = gpushare("status")
    assert ended.returncode == 0, ended.stderr
    assert server.authorizations == ["token own-token"]
    assert "40 % of share · ½ GPU guaranteed" in ended.stdout
    assert "you 8.0 GB  ░ kept for you 12.0 GB  ▒ others 10.0 GB  · free 10.0 GB" in ended.stdout
    assert f".ipynb  8.0 GB · {UNKNOWN_SIGN} (this MIG device does not report it) · running" in ended.stdout
    assert " 0 %" not in ended.stdout


def test_a_notebooks_name_cannot_steer_the_terminal(
    serve: Callable[[int, bytes], FakeServer], gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Control characters in what a server sends are not printed."""
    serve(200, msgspec.json.encode(_session()))
    assert "\x1b" not in gpushare("status").stdout


@pytest.mark.parametrize(
    ("code", "body", "told"),
    [
        (404, b"<html>", "It runs without the extension. Install jupyter_gpushare where it runs"),
        (403, b"", "It does not let this user read the GPU share."),
        (500, b"", "HTTP 500; its log says why"),
        (200, b"<html>", "Its answer is not understood"),
        (200, b'{"type": "snapshot"}', "Its answer is not understood"),
    ],
)
def test_a_server_without_a_share_to_show_is_listed_with_the_reason(
    code: int,
    body: bytes,
    told: str,
    serve: Callable[[int, bytes], FakeServer],
) -> None:
    """A server that cannot be shown is named with what to do."""
    server = serve(code, body)
    status = asyncio.run(ask({"url": f"http://127.0.0.1:{server.server_address[1]}/", "token": "t"}))
    assert status.session is None
    assert told in status.problem


def test_one_bad_server_hides_no_good_one(
    serve: Callable[[int, bytes], FakeServer], gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """All servers of the user are shown, each with its session or its problem."""
    serve(404, b"")
    serve(200, msgspec.json.encode(_session()))
    ended = gpushare("status", "--json")
    assert ended.returncode == 0
    found = sorted(json.loads(ended.stdout), key=lambda server: server["session"] is None)
    assert found[0]["session"]["memory"]["value"] == 8 * 10**9
    assert found[1]["problem"].startswith("It runs without the extension")


def test_a_server_that_is_gone_is_said_to_be_gone(
    places: dict[str, str], gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """An announced server that nobody answers for is a line, not a traceback."""
    _announce(places, "http://127.0.0.1:1/")
    ended = gpushare("status")
    assert ended.returncode == 1
    assert "It does not answer" in ended.stdout
    assert ended.stderr == ""


@pytest.mark.parametrize(("options", "told"), [([], "Start one with: jupyter lab"), (["--json"], "[]")])
def test_no_server_is_said_with_how_to_start_one(
    options: list[str], told: str, gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """With nothing running the answer is a sentence; as JSON it is an empty list."""
    ended = gpushare("status", *options)
    assert ended.returncode == 1
    assert told in ended.stdout


def test_a_terminal_gets_colours_unless_told_otherwise(
    serve: Callable[[int, bytes], FakeServer], gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """NO_COLOR is honoured even where colours are forced on."""
    serve(200, msgspec.json.encode(_session()))
    assert "\x1b[34m" in gpushare("status", FORCE_COLOR="1", NO_COLOR="").stdout
    assert "\x1b[34m" not in gpushare("status", FORCE_COLOR="1", NO_COLOR="1").stdout
