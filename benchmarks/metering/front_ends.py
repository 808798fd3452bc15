"""How each extension's own front end asks its server, without a browser: what is sent, what is counted, when it began.

Run as a process of its own by `benchmarks.metering.watching`, so that its work never shows in a server's figures:
``python -m benchmarks.metering.front_ends FRONT_END URL TOKEN WATCHERS``. It prints one line of JSON when every watcher
has had its first sample, and one for each line on its standard input; it ends with that input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

__all__ = ["FRONT_ENDS", "main"]

_OUR_PERIOD_S: Final = 1.0
_RESOURCE_USAGE_PERIOD_S: Final = 5.0
_CHARTS: Final = ("gpu_resource", "gpu_utilization", "gpu_usage")
_CHARTS_APART_S: Final = 0.015
_TABS_APART_S: Final = 0.037


@dataclass(slots=True)
class Watcher(ABC):
    """One browser tab.

    Attributes:
        url: the server's address.
        token: the user's token.
        received: bytes of messages or bodies so far.
        first_sample_ms: from the moment of opening to the first numbers, None before.
    """

    url: str
    token: str
    received: int = 0
    first_sample_ms: float | None = None
    _sampled: asyncio.Event = field(default_factory=asyncio.Event)

    async def come(self, number: int) -> None:
        """Watch as the tab of that number: people do not open theirs in the same millisecond."""
        await asyncio.sleep(number * _TABS_APART_S)
        await self.watch()

    @abstractmethod
    async def watch(self) -> None:
        """Look until cancelled."""

    async def first_sample(self) -> float:
        """Milliseconds to the first sample, waited for."""
        await self._sampled.wait()
        assert self.first_sample_ms is not None
        return self.first_sample_ms

    def _note_sample(self, opened: float) -> None:
        if self.first_sample_ms is None:
            self.first_sample_ms = (time.perf_counter() - opened) * 1000
            self._sampled.set()

    async def _connect(self, path: str) -> WebSocketClientConnection:
        address = f"{self.url.replace('http', 'ws', 1)}{path}{'&' if '?' in path else '?'}token={self.token}"
        return await websocket_connect(address)

    async def _next(self, socket: WebSocketClientConnection) -> str:
        message = await socket.read_message()
        if message is None:
            raise ConnectionError("the server closed the WebSocket")
        self.received += len(message.encode() if isinstance(message, str) else message)
        return message if isinstance(message, str) else message.decode()


class GpuShareWatcher(Watcher):
    """Our sidebar: one WebSocket, about one frame a second."""

    async def watch(self) -> None:
        """Look; numbers older than a period are no sample."""
        opened, oldest = time.perf_counter(), time.time() - _OUR_PERIOD_S
        socket = await self._connect("gpushare/api/v1/stream?no_track_activity=1")
        while True:
            frame = await self._next(socket)
            if self.first_sample_ms is None:
                snapshot = json.loads(frame)
                if snapshot["devices"] and snapshot["at"] >= oldest:
                    self._note_sample(opened)


@dataclass(slots=True)
class NvdashboardWatcher(Watcher):
    """Three charts of jupyterlab-nvdashboard 0.15: GPU resources, utilisation and memory, a WebSocket each.

    Its front end answers ``{"status": "connected"}`` with its setting, once. JupyterLab restores its charts 10 to 26 ms
    apart, seen in Chromium, and so their readings stay. The sample is there when the last chart has one.
    """

    period_ms: int = 100

    async def watch(self) -> None:
        """Look at all three charts."""
        await asyncio.gather(*map(self._chart, range(len(_CHARTS)), _CHARTS))

    async def _chart(self, place: int, name: str) -> None:
        await asyncio.sleep(place * _CHARTS_APART_S)
        opened = time.perf_counter()
        socket = await self._connect(f"nvdashboard/{name}")
        if "status" not in json.loads(await self._next(socket)):
            raise ConnectionError(f"nvdashboard refused the chart {name}")
        await socket.write_message(json.dumps({"updateFrequency": self.period_ms, "isPaused": False}))
        await self._next(socket)
        if name == _CHARTS[-1]:
            self._note_sample(opened)
        while True:
            await self._next(socket)


class SlowNvdashboardWatcher(NvdashboardWatcher):
    """The same with its setting at one second."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token, period_ms=1000)


class ResourceUsageWatcher(Watcher):
    """The status bar of jupyter-resource-usage 1.3: a GET every 5 s. It shows no GPU."""

    async def watch(self) -> None:
        """Poll."""
        request = HTTPRequest(f"{self.url}api/metrics/v1", headers={"Authorization": f"token {self.token}"})
        while True:
            opened = time.perf_counter()
            answer = await AsyncHTTPClient().fetch(request)
            self.received += len(answer.body) + sum(
                len(f"{name}: {value}\r\n") for name, value in answer.headers.get_all()
            )
            self._note_sample(opened)
            await asyncio.sleep(_RESOURCE_USAGE_PERIOD_S)


FRONT_ENDS: Final[dict[str, type[Watcher]]] = {
    "jupyter_gpushare": GpuShareWatcher,
    "nvdashboard at 100 ms": NvdashboardWatcher,
    "nvdashboard at 1,000 ms": SlowNvdashboardWatcher,
    "resource-usage": ResourceUsageWatcher,
}


async def _serve(watchers: list[Watcher]) -> None:
    async with asyncio.TaskGroup() as group:
        watching = [group.create_task(watcher.come(number)) for number, watcher in enumerate(watchers)]
        print(json.dumps([await watcher.first_sample() for watcher in watchers]), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(sum(watcher.received for watcher in watchers)), flush=True)
        for task in watching:
            task.cancel()


async def main(front_end: str, url: str, token: str, count: str) -> None:
    """Watch with *count* tabs at once."""
    kind = FRONT_ENDS[front_end]
    await _serve([kind(url, token) for _ in range(int(count))])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
