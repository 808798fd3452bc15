"""A real JupyterHub with its proxy and real servers: what nobody uses is stopped by the service's own rounds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from jupyter_gpushare.demo.hub.plan import Person
from jupyter_gpushare.demo.hub.staging import ADMIN, ANA, BO
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from tests.hub.staged_hub import QUICK_POOL, staged, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.demo.hub.visitor import Visitor
    from tests.hub.staged_hub import StagedHub

pytestmark = pytest.mark.hub

CPU: Final = "cpu-only"
_POLICY: Final = f"""\
[broker]
admins = ["{ADMIN}"]

[projects.team-a]
quota = 2
members = ["@team-a"]

[culling]
stop_after = "25s"
warning = "5s"
check_every = "10s"

{QUICK_POOL}"""
_WHO: Final = (Person(ANA, ("team-a",)), Person(BO, ("team-a",)), Person(CPU), Person(ADMIN, is_admin=True))


@pytest.fixture(scope="module", name="hub")
def _hub() -> Iterator[StagedHub]:
    with staged(_POLICY, devices=[DeviceSpec(), DeviceSpec()], who=_WHO, idle_timeout_s=None) as site:
        site.start()
        yield site


async def _is_gone(visitor: Visitor) -> bool:
    record = await visitor.server()
    return record is None or not (record["ready"] or record["pending"])


async def _own(visitor: Visitor, verb: str, path: str, **arguments: Any) -> Any:
    """What *visitor*'s own server answers."""
    headers = {"Authorization": f"token {visitor.token}"}
    url = f"/user/{visitor.name}/gpushare/api/v1/{path}"
    answer = await visitor.client.request(verb, url, headers=headers, **arguments)
    return answer.raise_for_status().json() if answer.status_code != 503 else None


async def _warnings(visitor: Visitor) -> list[Any]:
    said = await _own(visitor, "GET", "session")
    found: list[Any] = said["culling"]["warnings"] if said and said["culling"] else []
    return found


async def test_what_nobody_uses_is_stopped_and_what_is_kept_stays(hub: StagedHub) -> None:
    """One with a share and one without, each after its own warning; whoever presses Keep stays."""
    async with hub.visitors(ANA, BO, CPU, ADMIN) as (ana, bo, cpu, admin):
        for visitor, share in ((ana, "0.5"), (bo, "0.5"), (cpu, "none")):
            await visitor.spawn(share)
        for visitor in (ana, bo, cpu):
            await visitor.until_ready()

        async def is_offered() -> bool:
            said = await _own(bo, "GET", "session")
            return bool(said and said["culling"] is not None)

        await until("the session knows of culling", is_offered)
        kept = await _own(bo, "POST", "culling/keep", json={"seconds": 3600})
        assert kept["message"]["code"] == "KEPT_FROM_CULLING", kept

        for visitor in (ana, cpu):
            warning = (await until(f"{visitor.name}'s warning", partial(_warnings, visitor)))[0]
            assert (warning["what"], warning["message"]["code"]) == ("server", "SERVER_STOPS_IDLE")
        await until("the end of a server with a share", lambda: _is_gone(ana))
        await until("the end of a server without", lambda: _is_gone(cpu))
        assert not await _is_gone(bo)
        answer = await admin.client.get(
            "/services/gpushare/api/v1/audit?verb=loss", headers={"Authorization": f"Bearer {admin.token}"}
        )
        lines = answer.raise_for_status().json()["entries"]
        assert [(line["person"], line["details"]["loss"], line["by"]) for line in lines] == [
            (ANA, "server_stopped_while_idle", "culler")
        ]
        await bo.stop_server()
