"""The overview of a large site: how long its page takes, and what one open page receives, through a real hub."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.broker.hub_wire import ClaimAnswer, ClaimRequest
from jupyter_gpushare.demo.hub.plan import Person
from jupyter_gpushare.demo.hub.running import SERVICE, DemoHub
from jupyter_gpushare.demo.hub.staging import ADMIN, plan_of
from jupyter_gpushare.demo.light_holder import LightHolder
from jupyter_gpushare.demo.machine import create_machine
from jupyter_gpushare.demo.processes import end_processes
from jupyter_gpushare.demo.workspace import Workspace
from jupyter_gpushare.devices.simulated.machine import DeviceSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.broker.client import Holding
    from jupyter_gpushare.demo.hub.visitor import Visitor

__all__ = ["Overview", "measure"]

_DEADLINE_S: Final = 120.0
_PER_HOST: Final = 8
_TEAMS: Final = 12
_SHARE: Final = "0.09"
_JOBS_A_DEVICE: Final = 1
_JOB: Final = "0.1"
_AT_ONCE: Final = 25
_PARKED_BYTES: Final = 1 << 28
_SETTLING_S: Final = 5.0
_BETWEEN_S: Final = 1.0


@dataclass(slots=True)
class Overview:
    """What was measured: pages in seconds, and for each second of the stream the bytes that came."""

    devices: int
    sessions: int
    jobs: int
    moves_per_s: float
    page_s: list[float] = field(default_factory=list)
    page_bytes: int = 0
    bytes_per_s: list[float] = field(default_factory=list)
    messages: int = 0

    def fullest(self, seconds: int) -> float:
        """The most bytes a second, averaged over so many *seconds* in a row."""
        spans = range(max(1, len(self.bytes_per_s) - seconds + 1))
        return max(sum(self.bytes_per_s[first : first + seconds]) for first in spans) / seconds


async def measure(devices: int, sessions: int, *, pages: int, seconds: float, moves_per_s: float) -> Overview:
    """Fill a hub's machine, ask for the overview, then listen to an open one while sessions park and come back."""
    found = Overview(devices, sessions, devices * _JOBS_A_DEVICE, moves_per_s)
    workspace = Workspace.create()
    try:
        async with AsyncExitStack() as stack:
            hub = await _start(workspace, devices, stack)
            visitor = await hub.sign_in(ADMIN)
            stack.push_async_callback(visitor.close)
            holdings = await _fill(hub, visitor, sessions, found.jobs)
            await asyncio.sleep(_SETTLING_S)
            moving = asyncio.create_task(_move(holdings, moves_per_s))
            for _ in range(pages):
                await asyncio.sleep(_BETWEEN_S)  # the books have changed since: each page is made anew
                began = time.monotonic()
                answer = (await visitor.page(f"{SERVICE}overview")).raise_for_status()
                found.page_s.append(time.monotonic() - began)
                found.page_bytes = len(answer.content)
            await _listen(visitor, seconds, found)
            moving.cancel()
    finally:
        await asyncio.to_thread(end_processes, workspace.root)
        workspace.remove()
    return found


async def _start(workspace: Workspace, devices: int, stack: AsyncExitStack) -> DemoHub:
    specs = [DeviceSpec(host=f"host-{number // _PER_HOST:03}") for number in range(devices)]
    create_machine(workspace, specs, copy_bytes_per_s=0)
    environment = workspace.environment(private_runtime=True)
    people = (Person(ADMIN, is_admin=True),)
    plan = plan_of(workspace, environment, _policy(devices), who=people)
    hub = DemoHub.begin(plan, environment, workspace.root / "hub", deadline_s=_DEADLINE_S)
    stack.push_async_callback(asyncio.to_thread, hub.end)
    await hub.wait()
    return hub


def _policy(devices: int) -> str:
    quota = -(-devices // _TEAMS)
    teams = "".join(f'[projects.team-{number:02}]\nquota = {quota}\nmembers = ["*"]\n' for number in range(_TEAMS))
    pool = '[pools.default]\nminimum_turn = "0s"\nplacement = "spread"\n'
    return f'[broker]\nadmins = ["{ADMIN}"]\n{teams}{pool}[hosts."*"]\nparking_budget = "4TiB"\n'


async def _fill(hub: DemoHub, visitor: Visitor, sessions: int, jobs: int) -> list[Holding]:
    """Each session is claimed for another person, and held with its own lease's token; the jobs are the admin's."""
    admin = BrokerClient(Endpoint.parse(hub.url, visitor.token))
    slots = asyncio.Semaphore(_AT_ONCE)

    async def session(number: int) -> Holding:
        person, project = f"person-{number:04}", f"team-{number % _TEAMS:02}"
        key = f"hub:{person}/"
        wish = ClaimRequest(share=_SHARE, project=project, person=person, groups=[], is_starting=True)
        async with slots:
            answer = await admin.request("PUT", f"claims/{quote(key, safe='')}", wish, ClaimAnswer)
            own = BrokerClient(Endpoint.parse(hub.url, answer.token))
            return await _held(LightHolder(key, "interactive", project, _SHARE).claim(own))

    async def job(number: int) -> Holding:
        async with slots:
            holder = LightHolder(f"job-{number:03}", "training", f"team-{number % _TEAMS:02}", _JOB)
            return await _held(holder.claim(admin))

    held = await asyncio.gather(*map(session, range(sessions)))
    await asyncio.gather(*map(job, range(jobs)))
    return held


async def _held(holding: Holding) -> Holding:
    await asyncio.wait_for(holding.until(lambda lease: lease.status == "running"), _DEADLINE_S)
    return holding


async def _move(holdings: Sequence[Holding], moves_per_s: float) -> None:
    """Some park and some come back, at random."""
    choose = random.Random(1)  # noqa: S311  # a simulation
    while True:
        holding = choose.choice(holdings)
        if holding.lease is not None:
            holding.want("running" if holding.lease.target == "parked" else "parked", _PARKED_BYTES)
        await asyncio.sleep(1 / moves_per_s)


async def _listen(visitor: Visitor, seconds: float, found: Overview) -> None:
    """What an open page receives, second by second."""
    cookies = visitor.client.cookies
    secret = cookies.get("_xsrf", path=SERVICE) or ""
    address = f"{visitor.url.replace('http', 'ws', 1)}{SERVICE}live/overview?{urlencode({'_xsrf': secret})}"
    sent = "; ".join(f"{each.name}={each.value}" for each in cookies.jar if SERVICE.startswith(each.path))
    request = HTTPRequest(address, headers={"Cookie": sent, "Origin": visitor.url})
    connection = await websocket_connect(request, max_message_size=1 << 24)
    began, received = time.monotonic(), [0.0] * int(seconds)
    try:
        while (left := began + len(received) - time.monotonic()) > 0:
            try:
                message = await asyncio.wait_for(connection.read_message(), left)
            except TimeoutError:
                break
            if message is None:
                raise RuntimeError(f"the page's stream was closed: {connection.close_reason}")
            at = int(time.monotonic() - began)
            if at < len(received):
                received[at] += len(message)
                found.messages += 1
    finally:
        connection.close()
    sys.stdout.write(f"{found.messages} messages in {seconds:.0f} s\n")
    found.bytes_per_s = received
