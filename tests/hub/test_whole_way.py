"""The ways from a spawn page to a share that the demo's story does not go: waiting first, none at first, parked at last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.hub.plan import Person
from jupyter_gpushare.demo.hub.staging import ADMIN, ANA, BO
from jupyter_gpushare.demo.hub.visitor import Form, is_wait
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from jupyter_gpushare.devices.simulated.source import SimulatedSource

from .staged_hub import LIGHT, QUICK_POOL, staged, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.demo.hub.visitor import Visitor

    from .staged_hub import StagedHub

pytestmark = pytest.mark.hub

CPU: Final = "cpu-only"
_POLICY: Final = (
    f'[broker]\nadmins = ["{ADMIN}"]\n'
    '[projects.team-a]\nquota = 1\nmembers = ["@team-a"]\n[projects.team-b]\nquota = 1\nmembers = ["@team-b"]\n'
    + QUICK_POOL
)
_WHO: Final = (Person(ANA, ("team-a",)), Person(BO, ("team-b",)), Person(CPU), Person(ADMIN, is_admin=True))
_SOME_MEMORY: Final = """\
from jupyter_gpushare.devices.simulated import cuda
kept = cuda.allocate("1GiB")"""


@pytest.fixture(scope="module")
def small() -> Iterator[StagedHub]:
    """One GPU which two teams may both have whole, and a hub that starts one server at a time; all of them light."""
    traits = {"Spawner.cmd": LIGHT, "JupyterHub.concurrent_spawn_limit": 1, "JupyterHub.allow_named_servers": True}
    with staged(_POLICY, devices=[DeviceSpec()], who=_WHO, traits=traits) as site:
        site.start()
        yield site


@pytest.fixture(scope="module")
def real() -> Iterator[StagedHub]:
    """The same with real servers."""
    with staged(_POLICY, devices=[DeviceSpec()], who=_WHO, idle_timeout_s=None) as site:
        site.start()
        yield site


async def _leases_of(site: StagedHub, person: str) -> list[LeaseModel]:
    async with site.broker() as broker:
        return [lease for lease in await broker.leases() if lease.person == person]


async def _only(site: StagedHub, person: str, status: str) -> LeaseModel | None:
    found = await _leases_of(site, person)
    return found[0] if [lease.status for lease in found] == [status] else None


async def _has_none(site: StagedHub, person: str) -> bool:
    return not await _leases_of(site, person)


async def _run(site: StagedHub, visitor: Visitor, share: str) -> LeaseModel:
    await visitor.spawn(share)
    await visitor.until_ready()
    lease: LeaseModel = await until("its lease", lambda: _only(site, visitor.name, "running"))
    return lease


async def _go_and_wait(site: StagedHub, visitor: Visitor, share: str) -> tuple[str, Form]:
    """Pick a share that nobody can have now: the page's address, and the page."""
    answer = await visitor.submit(await visitor.spawn_page(), share=share)
    assert is_wait(answer), f"HTTP {answer.status_code}: {Form(answer.text).text[:500]}"
    address = answer.headers["Location"]
    page = Form((await visitor.client.get(address)).raise_for_status().text, "/wait/")
    assert await _only(site, visitor.name, "queued") is not None
    return address, page


async def test_who_waits_takes_no_slot_and_keeps_the_place_over_a_reload(small: StagedHub) -> None:
    """Waiting happens on a page: others start meanwhile, a reload changes nothing, and the turn starts the server."""
    async with small.visitors(ANA, BO, CPU) as (ana, bo, cpu):
        await _run(small, bo, "1")
        address, page = await _go_and_wait(small, ana, "0.5")
        assert "1st in line" in page.text, page.text
        assert await ana.server() is None
        waiting = await _only(small, ANA, "queued")
        await cpu.spawn("none")
        await cpu.until_ready()
        assert not await ana.turn(address)
        again = await _only(small, ANA, "queued")
        assert waiting is not None
        assert again is not None
        assert again.id == waiting.id
        assert again.submitted == waiting.submitted, "the place in line is the same"

        await bo.stop_server()
        await ana.until("her turn", lambda: ana.turn(address))
        await ana.until_ready()
        lease: Any = await until("her lease", lambda: _only(small, ANA, "running"))
        assert lease.id == waiting.id
        for visitor in (ana, cpu):
            await visitor.stop_server()
        await until("nothing is left", lambda: _has_none(small, ANA))


async def test_cancel_gives_the_place_up(small: StagedHub) -> None:
    """The button on the wait page leaves nothing behind, and nothing starts later."""
    async with small.visitors(ANA, BO) as (ana, bo):
        await _run(small, bo, "1")
        _, page = await _go_and_wait(small, ana, "1")
        assert page.action
        (await ana.client.post(page.action, data=page.fields)).raise_for_status()
        assert await _leases_of(small, ANA) == []
        assert await ana.server() is None
        await bo.stop_server()
        await until("nothing is left", lambda: _has_none(small, BO))


async def test_each_named_server_has_a_share_of_its_own(small: StagedHub) -> None:
    """A second server of the same person is another claim; each ends with its own server."""
    async with small.visitors(ANA) as (ana,):
        await _run(small, ana, "0.25")
        await ana.spawn("0.5", "second")
        await ana.until_ready("second")

        async def both() -> dict[str, str] | None:
            shares = {lease.share: lease.id for lease in await _leases_of(small, ANA) if lease.status == "running"}
            return shares if len(shares) == 2 else None

        shares = await until("both leases", both)
        assert set(shares) == {"0.25", "0.5"}
        await ana.stop_server("second")
        lease = await until("one lease", lambda: _only(small, ANA, "running"))
        assert lease.id == shares["0.25"]
        await ana.stop_server()
        await until("nothing is left", lambda: _has_none(small, ANA))


async def test_a_server_without_a_gpu_takes_a_share_later_and_gives_it_back_parked(real: StagedHub) -> None:
    """No GPU is picked, a share is asked for from Lab, a notebook is parked, and the stopped server leaves nothing."""
    async with real.visitors(ANA) as (ana,):
        await ana.spawn("none")
        await ana.until_ready()
        server = ana.front_end()
        assert await _leases_of(real, ANA) == []
        assert (await server.session()).lease is None
        answer = await server.request("POST", "gpushare/api/v1/request", {"share": "0.5"})
        assert "0.5 is being asked for" in answer.message
        lease = await until("her lease", lambda: _only(real, ANA, "running"))
        assert lease.share == "0.5"
        assert lease.project == "team-a"

        cells = await Cells.open(server, "later.ipynb")
        outcome = await cells.run(_SOME_MEMORY)
        assert not outcome.error
        wish = {"level": "park", "kernel_id": cells.kernel_id, "confirm": ""}
        assert (await server.request("POST", "gpushare/api/v1/releases", wish)).code == 202
        await until("it is parked", lambda: _only(real, ANA, "parked"))
        cells.close()
        await ana.stop_server()
        await until("nothing is left", lambda: _has_none(real, ANA))
    source = SimulatedSource(real.workspace.machine)
    try:
        assert not source.read()[0].processes
    finally:
        source.close()
