"""A small real server that speaks the API's contract to one kernel, and can be as hostile as a test wants."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import msgspec
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

from jupyter_gpushare.devices.device import Attribution, DriverState
from jupyter_gpushare.session import requests, wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KERNEL_ID = "3f2a-kernel"
TOKEN = "the-kernels-own-token"
GB = 10**9
BASE = "/user/ada/gpushare/api/v1"


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    token: str | None
    body: Any


@dataclass
class FakeServer:
    """Answers `view`, or what `answers` says for a method and path; keeps what it saw."""

    socket: Path | None = None
    view: wire.KernelView | bytes = field(default_factory=lambda: view())  # noqa: PLW0108  # `view` is defined below
    answers: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    #: Called for every request, in the server's thread, before it is answered.
    on_request: Callable[[Seen], None] = lambda _seen: None
    #: What a release costs as things are: one after the other, as things change after each announcement.
    announced: list[str] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    #: Why it cannot be parked: the reason's constant, the reason and its remedy; None where it can.
    refusal: tuple[str, str, str] | None = None
    #: How long a kernel may be kept at most.
    keep_limit_s: float = 28800
    policy: wire.PolicyModel = field(default_factory=lambda: wire.PolicyModel(600, "configuration"))
    hangs: bool = False
    refuses: bool = False

    def __enter__(self) -> Self:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(60)

    @property
    def base(self) -> str:
        if self.socket:
            return f"http+unix://{quote(str(self.socket), safe='')}{BASE}"
        return f"http://127.0.0.1:{self._port}{BASE}"

    @property
    def environment(self) -> dict[str, str]:
        return {"GPUSHARE_SERVER_URL": self.base, "GPUSHARE_KERNEL_ID": KERNEL_ID, "GPUSHARE_KERNEL_TOKEN": TOKEN}

    def wished(self, method: str, path: str, body: bytes) -> tuple[int, Any] | None:
        """The answer to a wish about parking, checked as strictly as the real server does; None for other requests."""
        read = msgspec.json.decode
        if (method, path) == ("POST", "/releases") and read(body)["level"] == "park":
            return self.park(read(body, type=requests.ReleaseRequest))
        if (method, path) == ("POST", "/resumes"):
            wanted = read(body, type=requests.ResumeRequest)
            return 202, requests.ResumeAnswer([wanted.kernel_id or KERNEL_ID])
        if (method, path) == ("POST", "/keep"):
            return self.keep(read(body, type=requests.KeepRequest))
        if (method, path) == ("PUT", f"/kernels/{KERNEL_ID}/policy"):
            return self.change_policy(read(body, type=requests.PolicyRequest))
        return None

    def park(self, wish: requests.ReleaseRequest) -> tuple[int, Any]:
        """Begin, or refuse as the real server does."""
        if self.refusal is None:
            text = "7.4 GB move to host memory as soon as the cell has ended. Nothing is lost."
            return 202, wire.ReleaseModel(
                "1", "park", wish.kernel_id, "running", 1.0, None, None, None, message("ASKED", text)
            )
        code, reason, remedy = self.refusal
        text = f"Cannot park: {reason} {remedy}"
        values = {"reason": reason, "remedy": remedy, "reason_code": code}
        refused = wire.MessageModel("CANNOT_PARK", "Cannot park: {reason} {remedy}", values, text)
        return 409, wire.ErrorAnswer(refused, text)

    def keep(self, wish: requests.KeepRequest) -> tuple[int, Any]:
        """Keep within the bound."""
        if not wish.seconds:
            return 200, requests.KeepAnswer(None, message("KEPT_NO_LONGER", "No longer kept."))
        until = time.time() + min(wish.seconds, self.keep_limit_s)
        at = time.strftime("%H:%M", time.localtime(until))
        return 200, requests.KeepAnswer(until, message("KEPT", f"Kept for you until {at}."))

    def change_policy(self, wish: requests.PolicyRequest) -> tuple[int, Any]:
        """Change what is given, or go back."""
        given = {name: value for name, value in msgspec.to_builtins(wish).items() if name != "reset"}
        fresh = wire.PolicyModel(600, "configuration")
        self.policy = fresh if wish.reset else msgspec.structs.replace(self.policy, **given, source="owner")
        return 200, self.policy

    def release(self, wish: requests.ReleaseRequest) -> tuple[int, Any]:
        """Announce what is lost, and begin once exactly that is confirmed."""
        cost = self.announced[0]
        if wish.confirm == _digest(cost):
            return 202, {"message": {"text": "Ending train.ipynb…"}}
        if len(self.announced) > 1:
            self.announced.pop(0)
        return 409, wire.ErrorAnswer(message("CONFIRM_LOSS", cost), cost, _digest(cost))

    def push(self, frame: wire.KernelView | str) -> None:
        """Send one frame to everybody who watches."""
        text = frame if isinstance(frame, str) else msgspec.json.encode(frame).decode()
        self._loop.call_soon_threadsafe(lambda: [w.write_message(text) for w in self._watchers])

    def drop_watchers(self) -> None:
        """Close every stream, as a restarting server does."""
        self._loop.call_soon_threadsafe(lambda: [w.close() for w in list(self._watchers)])

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    async def _serve(self) -> None:
        self._loop, self._ended, self._watchers = asyncio.get_running_loop(), asyncio.Event(), set[Any]()
        application = Application([(r".*/stream", _Stream), (r".*", _Api)], fake=self)
        server = HTTPServer(application)
        sockets = [bind_unix_socket(str(self.socket))] if self.socket else bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        self._port = 0 if self.socket else sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        for watcher in list(self._watchers):
            watcher.close()
        server.stop()
        await server.close_all_connections()


class _Checked(RequestHandler):
    async def prepare(self) -> None:
        fake = self.settings["fake"]
        body = json.loads(self.request.body) if self.request.body else None
        seen = Seen(
            self.request.method or "", self.request.path, self.request.headers.get("X-Gpushare-Kernel-Token"), body
        )
        fake.seen.append(seen)
        fake.on_request(seen)
        if fake.hangs:
            await fake._ended.wait()
        if fake.refuses or seen.token != TOKEN:
            self.set_status(403)
            self.finish({"error": {"code": "FORBIDDEN"}, "message": "You may not do this."})


class _Api(_Checked):
    def get(self) -> None:
        fake, path = self.settings["fake"], self.request.path.removeprefix(BASE)
        default = (200, fake.view) if path == f"/kernels/{KERNEL_ID}" else (404, {"message": "No such thing."})
        default = fake.wished(self.request.method or "", path, self.request.body) or default
        if fake.announced and (self.request.method, path) == ("POST", "/releases"):
            default = fake.release(msgspec.json.decode(self.request.body, type=requests.ReleaseRequest))
        status, body = fake.answers.get((self.request.method, path), default)
        self.set_status(status)
        if 300 <= status < 400:
            self.set_header("Location", f"{BASE}/login")
        self.finish(body if isinstance(body, bytes) else msgspec.json.encode(body))

    post = put = get


class _Stream(WebSocketHandler, _Checked):
    def open(self) -> None:
        fake = self.settings["fake"]
        fake._watchers.add(self)
        self.write_message(
            fake.view.decode() if isinstance(fake.view, bytes) else msgspec.json.encode(fake.view).decode()
        )

    def on_close(self) -> None:
        self.settings["fake"]._watchers.discard(self)


def _digest(text: str) -> str:
    return f"stands for {text!r}"


def reading(value: int | None, reason: str = "", attribution: Attribution = Attribution.EXACT) -> wire.ReadingModel:
    """A reading; not available where there is no value."""
    return wire.ReadingModel(value, attribution if value is not None else Attribution.UNAVAILABLE, reason)


def message(code: str, text: str) -> wire.MessageModel:
    """A sentence as it travels."""
    return wire.MessageModel(code, text, {}, text)


def device(**changes: Any) -> wire.DeviceModel:
    """A device with 7.4 GB of ours, 10 GB of others."""
    whole = wire.DeviceModel(
        uuid="GPU-0", index=0, host="here", kind="a100", name="A100-SXM4-40GB", is_mig=False, total=42 * GB, usable=40 * GB,
        used=reading(17_400_000_000), utilisation=reading(62), mine=reading(7_400_000_000), others=reading(10 * GB),
        other_holders=2,
    )  # fmt: skip
    return msgspec.structs.replace(whole, **changes)


def kernel(**changes: Any) -> wire.KernelModel:
    """This kernel's row: 6.1 GB, 61 %."""
    row = wire.KernelModel(
        id=KERNEL_ID, name="python3", path="train.ipynb", execution_state="busy", busy_since=1.0, idle_since=None,
        running="%gpushare", memory=reading(6_100_000_000), utilisation=reading(61), processes=1,
        levels=["free_cache", "end_kernel"], note=None,
    )  # fmt: skip
    return msgspec.structs.replace(row, **changes)


def parking(status: wire.ParkStatus = "running", **changes: Any) -> wire.ParkingModel:
    """How it is with parking this kernel: possible, 7.4 GB in about 2 s, and by itself after ten minutes."""
    said = changes.pop("message", message("PARKABLE", "7.4 GB can be parked in about 2 s. Nothing is lost."))
    known: dict[str, Any] = {
        "since": 1000.0,
        "memory": 7_400_000_000,
        "expected_s": 2.1,
        "policy": wire.PolicyModel(600, "configuration"),
    }
    return wire.ParkingModel(status=status, message=said, **(known | changes))


def view(**changes: Any) -> wire.KernelView:
    """What a kernel sees of a session that holds 7.4 GB of half an A100."""
    share = wire.ShareModel(
        "0.5..1", "½ GPU guaranteed, up to 1", "configuration", ["GPU-0"], 20 * GB, 40 * GB, "shared"
    )
    whole = wire.KernelView(
        at=1000.0, simulated=False, driver=wire.DriverModel("nvidia", DriverState.READY, "580.65", ""), share=share,
        memory=reading(7_400_000_000), utilisation=reading(62), state=message("ACTIVE", "Active. train.ipynb is running a cell."),
        devices=[device()], kernel=kernel(), releases=[],
    )  # fmt: skip
    return msgspec.structs.replace(whole, **changes)
