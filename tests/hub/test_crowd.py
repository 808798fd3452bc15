"""Two hundred people start servers at once on sixteen GPUs: who runs, who waits, who is refused by whom, in words."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from jupyter_gpushare.demo.hub.plan import Person
from jupyter_gpushare.demo.hub.staging import ADMIN
from jupyter_gpushare.demo.hub.visitor import WAIT, Form
from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from jupyter_gpushare.quantity import Fraction

from .staged_hub import LIGHT, QUICK_POOL, staged, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import httpx

    from jupyter_gpushare.demo.broker import DemoBroker
    from jupyter_gpushare.demo.hub.visitor import Visitor

    from .staged_hub import StagedHub

pytestmark = pytest.mark.hub

_GPUS: Final = 16
_EACH: Final = 100
_TEAMS: Final = ("team-a", "team-b")
#: Of each team so many are inside its quota, in halves of a GPU: more than there is room for, together.
_INSIDE: Final = 24
_ROOM: Final = 2 * _GPUS
#: How many the hub itself lets begin at once.
_SLOTS: Final = 20
_POLICY: Final = (
    f'[broker]\nadmins = ["{ADMIN}"]\n'
    + "".join(f'[projects.{team}]\nquota = {_INSIDE // 2}\nmembers = ["@{team}"]\n' for team in _TEAMS)
    + QUICK_POOL
)
_TOO_MANY: Final = 429
_AT_ONCE: Final = 40
_LOOK_S: Final = 5.0
_SOONER: Final = 6


@dataclass
class Crowd:
    """What became of each, by name; *words* are one example of each kind of refusal, and *pages* where people wait."""

    ran: list[str] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    turned_away: Counter[str] = field(default_factory=Counter)
    words: dict[str, str] = field(default_factory=dict)

    async def start(self, visitor: Visitor) -> None:
        """Send the form, and again whenever the hub says that it has too much to do; stand in line where it says so."""
        form = await visitor.spawn_page()
        answer = await self._patiently(visitor, lambda: visitor.submit(form, share="0.5"))
        try:
            address = await visitor.wait_address(answer)
            while address:
                page = await self._patiently(visitor, partial(visitor.client.get, address))
                if Form(page.text, WAIT).action:
                    self.words["waiting"] = Form(page.text).text
                    self.pages[visitor.name] = address
                    return
                address = await visitor.wait_address(page)
        except ServerError as refusal:
            self.refused.append(visitor.name)
            self.words["us"] = str(refusal)
        else:
            self.ran.append(visitor.name)

    async def _patiently(self, visitor: Visitor, ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        while (answer := await ask()).status_code == _TOO_MANY:
            self.turned_away[visitor.name] += 1
            self.words["the hub"] = Form(answer.text).text
            # Sooner than the half to whole minute that the hub suggests, and as evenly spread.
            await asyncio.sleep(float(answer.headers["Retry-After"]) / _SOONER)
        return answer


@pytest.fixture(scope="module")
def site() -> Iterator[StagedHub]:
    """A hub for two hundred people, on a machine with sixteen GPUs; their servers are light ones."""
    crowd = tuple(Person(f"{team}-{number:03}", (team,)) for team in _TEAMS for number in range(_EACH))
    traits = {
        "Spawner.cmd": LIGHT,
        "JupyterHub.concurrent_spawn_limit": _SLOTS,
        "Spawner.start_timeout": 120,
        "Spawner.http_timeout": 120,
    }
    devices = [DeviceSpec(host=f"host-{number // 8}") for number in range(_GPUS)]
    who = (*crowd, Person(ADMIN, is_admin=True))
    with staged(_POLICY, devices=devices, who=who, traits=traits) as staged_hub:
        staged_hub.start()
        yield staged_hub


async def test_200_people_start_a_server_at_once(site: StagedHub) -> None:
    """As many run as there is room for, the others inside quota wait, the rest is refused: each in words.

    The hub's own limit turns people away without a trace; no device is over-booked; at the end no lease is left.
    """
    names = [person.name for person in site.plan.people if not person.is_admin]
    async with site.broker() as broker:
        people = await _sign_in(site, names)
        crowd = Crowd()
        watching = asyncio.create_task(_watch(broker))
        looking = asyncio.create_task(_look_again(people, crowd))
        try:
            await asyncio.gather(*(crowd.start(people[name]) for name in names))
            await _until_run(crowd, _ROOM)
            _tell(crowd)
            _check(crowd)
            await until("those who run have their leases", lambda: _running(broker, _ROOM))
            await _leave_and_follow(people, crowd, broker)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await _all_stop(people, crowd)
            await until("no lease is left", lambda: _is_empty(broker))
        finally:
            watching.cancel()
            looking.cancel()
            over_booked, lost, *_ = await asyncio.gather(watching, looking, return_exceptions=True)
            await asyncio.gather(*(visitor.close() for visitor in people.values()))
    for trouble in (over_booked, lost):
        assert not isinstance(trouble, Exception), trouble
    assert "Rolling back" not in site.hub.child.log.read_text(), "the hub lost what it had not committed"


def _check(crowd: Crowd) -> None:
    assert len(crowd.ran) == _ROOM
    assert 0 < len(crowd.pages) <= 2 * _INSIDE - _ROOM
    everybody = [*crowd.ran, *crowd.pages, *crowd.refused]
    assert len(everybody) == len(set(everybody)) == 2 * _EACH
    by_team = Counter(name.rpartition("-")[0] for name in [*crowd.ran, *crowd.pages])
    assert max(by_team.values()) <= _INSIDE, by_team
    assert crowd.turned_away, "the hub's own limit was never reached"
    assert "try again" in crowd.words["the hub"].lower()
    assert "has 12 GPU for notebooks" in crowd.words["us"], crowd.words["us"]
    assert "in line" in crowd.words["waiting"], crowd.words["waiting"]


def _tell(crowd: Crowd) -> None:
    lines = [
        f"{len(crowd.ran)} ran, {len(crowd.pages)} waited, {len(crowd.refused)} were refused by us",
        f"{len(crowd.turned_away)} were turned away by the hub, {crowd.turned_away.total()} times",
        *(f"{who}: {_said(text)}" for who, text in crowd.words.items()),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def _said(text: str) -> str:
    """The words themselves, without the page around them."""
    return re.sub(
        r".*(Error: |nothing here is a real GPU\. |Too Many Requests )|( How much GPU\?| Error The error).*", "", text
    )


async def _sign_in(site: StagedHub, names: list[str]) -> dict[str, Visitor]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> Visitor:
        async with slots:
            return await site.hub.sign_in(name)

    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


async def _watch(broker: DemoBroker) -> None:
    """Look again and again: the requests of the leases on a device always fit."""
    while True:
        booked: Counter[str] = Counter()
        for lease in await broker.leases():
            for grant in lease.grants:
                booked[grant.device] += Fraction.parse(grant.amount).millionths
        over = {device: amount for device, amount in booked.items() if amount > Fraction.PER_GPU}
        assert not over, f"over-booked: {over}"
        await asyncio.sleep(0.2)


async def _running(broker: DemoBroker, wanted: int) -> bool:
    return sum(lease.status == "running" for lease in await broker.leases()) == wanted


async def _is_empty(broker: DemoBroker) -> bool:
    return not await broker.leases()


async def _look_again(people: dict[str, Visitor], crowd: Crowd) -> None:
    """Those who wait look at their pages now and then: a page that nobody looks at for a minute loses its place."""
    while True:
        for name, address in list(crowd.pages.items()):
            try:
                started = await people[name].turn(address)
                if started:
                    await people[name].until_ready()
            except ServerError:  # on a slow machine, by who came later
                crowd.refused.append(name)
            else:
                if not started:
                    continue
                crowd.ran.append(name)
            del crowd.pages[name]
        await asyncio.sleep(_LOOK_S)


async def _until_run(crowd: Crowd, wanted: int) -> None:
    async def look() -> bool:
        return len(crowd.ran) == wanted

    await until(f"{wanted} servers run", look)


async def _leave_and_follow(people: dict[str, Visitor], crowd: Crowd, broker: DemoBroker) -> None:
    """Some stop: as many of those who wait get their shares, and their servers start from the page they wait on."""
    leaving, crowd.ran = crowd.ran[:4], crowd.ran[4:]
    await asyncio.gather(*(people[name].stop_server() for name in leaving))
    await _until_run(crowd, _ROOM)
    await until("they have their leases", lambda: _running(broker, _ROOM))


async def _all_stop(people: dict[str, Visitor], crowd: Crowd) -> None:
    for name, address in crowd.pages.items():
        page = await people[name].client.get(address)
        form = Form(page.text, WAIT)
        assert form.action, f"nobody can stop waiting here: {form.text[:300]}"
        await people[name].client.post(form.action, data=form.fields)
    await asyncio.gather(*(people[name].stop_server() for name in crowd.ran))
