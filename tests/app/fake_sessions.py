"""Servers with notebooks that park and resume, step by step, or refuse: real HTTP, no GPU."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_gpushare.session import requests, wire
from tests.notebook.fake_server import device, kernel, message, parking, reading, view

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "own-token"
REFUSAL = "Cannot park: A cell is running. Wait for its end."


@dataclass
class Notebook:
    """One kernel. *moves* are what it shows while it moves, one look each; it may refuse, or stay for ever."""

    id: str
    path: str | None
    status: wire.ParkStatus = "running"
    memory: int = 7_400_000_000
    refuses: bool = False
    #: What it shows, look by look, on the way back: with "waiting" for ever it never arrives.
    on_the_way: list[wire.ParkStatus] = field(default_factory=lambda: ["resuming", "running"])
    #: What a release ends with.
    ends: str = "released"
    is_lost: bool = False

    def model(self) -> wire.KernelModel:
        texts: dict[str, tuple[str, str]] = {
            "running": ("PARKABLE", "7.4 GB can be parked in about 2 s. Nothing is lost."),
            "asked": ("ASKED", "7.4 GB move to host memory as soon as the cell has ended. Nothing is lost."),
            "parking": ("PARKING", "Parking 3.1 GB of 7.4 GB. Nothing is lost."),
            "parked": ("PARKED", "7.4 GB safe in host memory since 14:02. Run any cell and it returns (about 2 s)."),
            "waiting": ("WAITING_FOR_ROOM", "Waiting for room: no device has room. 7.4 GB stay safe in host memory."),
            "resuming": ("RESUMING", "Resuming 3.1 GB of 7.4 GB. Your cell runs next."),
        }
        said = message(*texts[self.status])
        held = reading(self.memory if self.status == "running" else 0)
        shown = parking(self.status, message=said, memory=self.memory, moved=3_100_000_000, since=1.0)
        return kernel(id=self.id, path=self.path, memory=held, parking=shown, busy_since=None)


class FakeSession(ThreadingHTTPServer):
    """One Jupyter server of this user, announced in its runtime directory."""

    daemon_threads = True

    def __init__(self, runtime: str, directory: Path, notebooks: list[Notebook]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.notebooks, self.asked = notebooks, list[tuple[str, str, Any]]()
        self.notices: list[wire.NoticeModel] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        info = {"url": self.url, "pid": os.getpid(), "token": TOKEN, "root_dir": str(directory)}
        name = f"jpserver-{self.server_address[1]}.json"
        (Path(runtime) / name).write_text(json.dumps(info), encoding="utf-8")
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """What the real server answers; bodies are read as strictly."""
        name, _, rest = path.partition("?")[0].partition("/")
        if (method, name) == ("GET", "session"):
            return 200, self._snapshot()
        if (method, name) == ("GET", "kernels"):
            return self._look(self._notebook(rest))
        if (method, name) == ("POST", "releases"):
            return self._park(msgspec.json.decode(body, type=requests.ReleaseRequest))
        if (method, name) == ("GET", "releases"):
            return self._follow(self._notebook(rest))
        if (method, name) == ("POST", "resumes"):
            wanted = msgspec.json.decode(body, type=requests.ResumeRequest).kernel_id or ""
            notebook = self._notebook(wanted)
            notebook.status = "running" if notebook.status == "asked" else notebook.status
            return 202, requests.ResumeAnswer([notebook.id])
        raise AssertionError(f"no route for {method} {path}")

    def _notebook(self, kernel_id: str) -> Notebook:
        return next(notebook for notebook in self.notebooks if notebook.id == kernel_id)

    def _snapshot(self) -> wire.Snapshot:
        seen = view()
        return wire.Snapshot(
            seq=1, at=time.time(), simulated=False, driver=seen.driver, share=seen.share, memory=seen.memory,
            utilisation=seen.utilisation, state=seen.state, devices=[device()], processes=[], releases=[],
            kernels=[notebook.model() for notebook in self.notebooks], parking_mode="park", notices=self.notices,
        )  # fmt: skip

    def _park(self, wish: requests.ReleaseRequest) -> tuple[int, Any]:
        notebook = self._notebook(wish.kernel_id or "")
        if notebook.refuses:
            return 409, wire.ErrorAnswer(message("CANNOT_PARK", REFUSAL), REFUSAL)
        notebook.status = "parking"
        return 202, self._release(notebook, "running", "Parking 7.4 GB. Nothing is lost.")

    def _follow(self, notebook: Notebook) -> tuple[int, Any]:
        if notebook.status == "parking":
            return 200, self._release(notebook, "running", "Parking 7.4 GB. Nothing is lost.")
        text = "7.4 GB given back." if notebook.ends == "released" else "Cannot park: a step failed, all is undone."
        return 200, self._release(notebook, notebook.ends, text)

    def _look(self, notebook: Notebook) -> tuple[int, Any]:
        answer = 200, view(kernel=notebook.model())
        if notebook.status == "parking":
            notebook.status = "parked" if notebook.ends == "released" else "running"
        elif notebook.on_the_way and notebook.status in ("parked", "waiting", "resuming"):
            notebook.status = notebook.on_the_way.pop(0) if len(notebook.on_the_way) > 1 else notebook.on_the_way[0]
            if notebook.is_lost and notebook.status == "running":
                said = message("GPU_STATE_LOST", "The GPU state of train.ipynb is lost: the driver failed.")
                self.notices.append(wire.NoticeModel("n1", 1.0, "loss", said))
        return answer

    def _release(self, notebook: Notebook, status: Any, text: str) -> wire.ReleaseModel:
        freed = notebook.memory if status == "released" else None
        return wire.ReleaseModel(notebook.id, "park", notebook.id, status, 1.0, None, freed, None, message("X", text))


class _Handler(BaseHTTPRequestHandler):
    server: FakeSession

    def do_GET(self) -> None:
        """Answer."""
        assert self.headers["Authorization"] == f"token {TOKEN}"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.removeprefix("/gpushare/api/v1/")
        self.server.asked.append((self.command, path, json.loads(body) if body else None))
        status, answer = self.server.answer(self.command, path, body)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(msgspec.json.encode(answer))

    do_POST = do_GET  # noqa: N815  # the base class's name

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


def running(sessions: list[FakeSession]) -> Iterator[list[FakeSession]]:
    """*sessions* until the test ends."""
    yield sessions
    for session in sessions:
        session.shutdown()
        session.server_close()
