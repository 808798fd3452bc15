"""A real service on a simulated machine, a small hub, and the browsers and programs of people."""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec
from tornado.httpclient import HTTPRequest, HTTPResponse
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.simple_httpclient import SimpleAsyncHTTPClient
from tornado.websocket import websocket_connect

from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.memory_ledger import MemoryBooks, MemoryLedger
from jupyter_gpushare.broker.settings import Settings
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.hub.service.application import HubService
from jupyter_gpushare.hub.service.environment import HubEnvironment
from jupyter_gpushare.hub.wait_link import WaitLink
from jupyter_gpushare.quantity import Memory
from tests.broker.service.bench import SESSION, processes_of

from .fake_hub import SERVICE_TOKEN, FakeHub

if TYPE_CHECKING:
    from pathlib import Path

    from tornado.websocket import WebSocketClientConnection

    from jupyter_gpushare.broker import wire
    from jupyter_gpushare.broker.client import Holding

HUB_TOKEN = "h" * 40
GIB = 1 << 30
SMALL = DeviceSpec(total=Memory(4 * GIB))
POLICY = """
[broker]
admins = ["root-admin", "@gpu-admins"]

[projects.team-a]
quota = "2"
person_limit = "1"
members = ["ana", "ben", "@team-a"]
owners = ["cy"]

[projects.team-b]
quota = "2"
members = ["bo"]
"""


async def close(socket: WebSocketClientConnection) -> None:
    """Say goodbye, and wait until the other side has: a socket that is left open is a warning in the next test."""
    socket.close()
    while await socket.read_message() is not None:
        pass


@dataclass
class Answer:
    """What a browser or a program was answered."""

    status: int
    text: str
    headers: Any
    url: str

    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.text)


class Browser:
    """Cookies, hidden fields, redirects: what a browser does. *mode*: as which kind of request it says it comes."""

    def __init__(self, bench: ServiceBench, name: str) -> None:
        self.name = name
        self.cookies: dict[str, str] = {}
        self._bench = bench

    async def get(self, path: str, *, follow: bool = True, **headers: str) -> Answer:
        """Visit a page of the service; being sent to sign in and back on the way."""
        url, headers = urljoin(self._bench.url, path), {"Sec-Fetch-Mode": "navigate", **headers}
        for _ in range(8):
            self._bench.hub.signed_in = self.name
            answer = await self._bench.fetch("GET", url, self._with_cookies(headers))
            self._take(answer)
            if answer.status not in (302, 303) or not follow:
                return answer
            url = urljoin(url, answer.headers["Location"])
            if urlsplit(url).path.startswith(f"{self._bench.base}hub/api"):
                url = f"http://127.0.0.1:{self._bench.hub.port}{urlsplit(url).path}?{urlsplit(url).query}"
            elif not urlsplit(url).path.startswith(f"{self._bench.base}services/"):
                return replace(answer, url=url)
            else:
                url = urljoin(self._bench.url, f"{urlsplit(url).path}?{urlsplit(url).query}")
        raise AssertionError(f"{url}: redirects without end")

    async def xsrf(self) -> str:
        """What the forms on a page carry."""
        page = await self.get("sessions")
        found = re.search(r'name="_xsrf" value="([0-9a-f]+)"', page.text) or re.search(
            r'data-xsrf="([0-9a-f]+)"', page.text
        )
        if found:
            return found[1]
        sitting = self._sitting()
        assert sitting is not None
        return sitting

    def _sitting(self) -> str | None:
        headers = HTTPHeaders(self._with_cookies({}))
        request = HTTPServerRequest(headers=headers, start_line=RequestStartLine("GET", "/", "HTTP/1.1"))
        sitting = self._bench.service.identity.sitting(request)
        return None if sitting is None else sitting.xsrf

    async def post(self, path: str, follow: bool = False, **fields: str) -> Answer:  # noqa: FBT001, FBT002
        """Send a form from a page of the service."""
        if "_xsrf" not in fields:
            fields["_xsrf"] = await self.xsrf()
        headers = {
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Site": "same-origin",
            "Origin": self._bench.origin,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        url = urljoin(self._bench.url, path)
        answer = await self._bench.fetch("POST", url, self._with_cookies(headers), urlencode(fields))
        self._take(answer)
        return await self.get(answer.headers["Location"]) if follow and answer.status == 303 else answer

    async def socket(self, path: str, **headers: str) -> WebSocketClientConnection:
        """The WebSocket of an open page."""
        url = urljoin(self._bench.url, path).replace("http", "ws", 1)
        fetch = {"Sec-Fetch-Mode": "websocket", "Sec-Fetch-Site": "same-origin", "Origin": self._bench.origin}
        return await websocket_connect(HTTPRequest(url, headers=self._with_cookies({**fetch, **headers})))

    def _with_cookies(self, headers: dict[str, str]) -> dict[str, str]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {**headers, "Cookie": cookies} if cookies else headers

    def _take(self, answer: Answer) -> None:
        for line in answer.headers.get_list("Set-Cookie"):
            name, _, rest = line.partition("=")
            value = rest.partition(";")[0].strip('"')
            if value:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)


class ServiceBench:
    """One service, which may be stopped and started again on the same books.

    Attributes:
        hub: the hub beside it.
        service: what runs.
    """

    def __init__(self, directory: Path, prefix: str = "/services/gpushare/") -> None:
        self.directory = directory
        self.prefix = prefix
        self.base = prefix.removesuffix("services/gpushare/")
        self.hub = FakeHub(base=self.base)
        self.machine = Machine.create(directory / "machine", (SMALL, SMALL))
        self.books = MemoryBooks()
        self.policy = POLICY
        self.options: dict[str, Any] = {}
        self.commit_s = 20.0
        self._service: HubService | None = None
        self._holdings: list[Holding] = []
        self._client: SimpleAsyncHTTPClient | None = None

    @property
    def service(self) -> HubService:
        """The service that runs."""
        assert self._service is not None
        return self._service

    @property
    def origin(self) -> str:
        """Where browsers reach it."""
        return self.service.broker.addresses[0]

    @property
    def url(self) -> str:
        """Its prefix."""
        return f"{self.origin}{self.prefix}"

    @property
    def client(self) -> SimpleAsyncHTTPClient:
        """Asks as anybody."""
        if self._client is None:
            self._client = SimpleAsyncHTTPClient(force_instance=True, max_clients=200)
        return self._client

    async def start(self) -> HubService:
        """Start the hub and the service."""
        if not self.hub.port:
            self.hub.start()
        policy = self.directory / "gpushare.toml"
        policy.write_text(self.policy)
        environ = {**os.environ, "GPUSHARE_SIMULATED_MACHINE": str(self.machine.path)}
        settings = Settings.hub(environ, state=self.directory / "state", port=0, ledger="memory", configuration=policy)
        settings = replace(settings, commit_s=self.commit_s)
        environment = HubEnvironment(
            name="gpushare",
            prefix=self.prefix,
            base_url=self.base,
            api_url=self.hub.url,
            api_token=SERVICE_TOKEN,
            client_id="service-gpushare",
            port=0,
            hub_token=HUB_TOKEN,
        )
        options: dict[str, Any] = {
            "ledger": MemoryLedger(self.books),
            "source": SimulatedSource(self.machine.path, environ),
        }
        self._service = HubService(environment, settings, **(options | self.options))
        await self._service.start()
        return self._service

    async def stop(self) -> None:
        """Stop the service as one is asked to."""
        if self._service is not None:
            await self._service.stop()
            self._service = None

    async def close(self) -> None:
        """End everything."""
        for holding in self._holdings:
            await holding.close()
        if self._client is not None:
            self._client.close()
        await self.stop()
        await self.hub.stop()
        self.machine.close()

    def browser(self, name: str) -> Browser:
        """A browser whose person is logged in at the hub as *name*."""
        self.hub.user(name)
        return Browser(self, name)

    async def fetch(self, verb: str, url: str, headers: dict[str, str], body: str | None = None) -> Answer:
        """One request, redirects not followed."""
        request = HTTPRequest(
            urljoin(self.url, url),
            verb,
            headers=headers,
            body=body,
            follow_redirects=False,
            allow_nonstandard_methods=True,
            request_timeout=60,
        )
        found: HTTPResponse = await self.client.fetch(request, raise_error=False)
        text = found.body.decode("utf-8", "replace") if found.body else ""
        return Answer(found.code, text, found.headers, found.effective_url)

    def wait_link(self, person: str = "ana", **more: Any) -> str:
        """The address of the page on which *person* waits, as the hub's hook writes it."""
        said: dict[str, Any] = {
            "person": person,
            "server": "",
            "share": "1",
            "project": "team-a",
            "fields": {"share": ["1"]},
            "made": time.time(),
        }
        return WaitLink(**(said | more)).url(self.prefix, HUB_TOKEN)

    async def ask(self, verb: str, path: str, token: str = "", body: Any = None) -> Answer:
        """Ask the broker's interface with a token."""
        headers = {"Authorization": f"token {token}"} if token else {}
        text = None if body is None else msgspec.json.encode(body).decode()
        return await self.fetch(verb, f"api/v1/{path}", headers, text)

    async def running(self, person: str, project: str, key: str = "lab", share: str = "0.5") -> wire.LeaseModel:
        """A notebook server of *person* with a share that runs."""
        token = self.hub.token_of(person, "custom:gpushare:write")
        endpoint = Endpoint.parse(self.url, token)
        claim = msgspec.structs.replace(SESSION, key=key, project=project, share=share, name=f"{person}'s notebook")
        holding = BrokerClient(endpoint, 30.0, Pauses(0.01, 0.05, 10.0)).hold(claim, processes_of(os.getpid()))
        self._holdings.append(holding)
        lease = await asyncio.wait_for(holding.granted(), 60)
        holding.did("running", lease.epoch)
        return await asyncio.wait_for(holding.until(lambda each: each.status == "running"), 60)
