"""A real server with real kernels, at a real broker of a hub: what is left idle is warned of, kept, and ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.service import Broker
from jupyter_gpushare.broker.settings import Settings
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.hub.culling.service import CullingService
from tests.session.conftest import _begun  # noqa: F401  # a server here, in spite of this folder's own
from tests.session.lease.conftest import Kept, _directory, _gpushare_options  # noqa: F401  # fixtures
from tests.session.parking.conftest import (  # noqa: F401  # fixtures
    HOLD,
    _machine,
    _page_of,
    _parking_of,
    _run,
    _source,
    jp_server_config,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_gpushare.devices.simulated.machine import Machine

FILE = """
[projects.default]
quota = "unlimited"

[culling]
warning = "1s"
"""


class HubsBroker(Kept):
    """A hub's broker with culling, for sessions of this machine's user."""

    def __init__(self, directory: Path, machine: Machine, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(directory, machine, loop)
        self.file = directory / "gpushare.toml"
        self.file.write_text(FILE)
        self.machine_path = machine.path

    async def start(self) -> None:
        """Listen."""
        state = self.socket.parent / "state"
        settings = Settings(
            mode="hub", runtime=state, state=state, ledger="memory", socket=self.socket, configuration=self.file
        )
        source = SimulatedSource(self.machine_path)
        self.broker = Broker(
            settings, ledger=self._ledger, source=source, routes=lambda broker: CullingService(broker).routes()
        )
        await self.broker.start()

    async def want(self, line: str) -> None:
        """Have the admin add *line* to the file's culling."""
        assert self.broker is not None
        self.file.write_text(self.file.read_text() + f"{line}\n")
        await self.broker.reload()


@pytest.fixture(name="kept")
def _kept(directory: Path, machine: Machine, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[HubsBroker]:
    kept = HubsBroker(directory, machine, jp_asyncio_loop)
    jp_asyncio_loop.run_until_complete(kept.start())
    yield kept
    jp_asyncio_loop.run_until_complete(kept.stop())


@pytest.fixture(name="warnings")
def _warnings(api: Any, session: Any) -> Any:
    """What the server's pages are told that ends by itself, looked at anew."""

    async def warnings() -> list[Any]:
        session.culling._stir.set()
        culling = (await api("session"))["culling"]
        found: list[Any] = [] if culling is None else culling["warnings"]
        return found

    return warnings


async def test_an_idle_kernel_is_warned_of_and_ended(
    kept: HubsBroker, api: Any, start_kernel: Any, run: Any, session: Any, until: Any, warnings: Any, caplog: Any
) -> None:
    """From the admin's file through the hub's service to the kernel's end, in the audit and told to people."""
    await until(lambda: kept.status() == "running")
    kernel_id = await start_kernel("left.ipynb")
    await run(kernel_id, HOLD)
    await kept.want('end_kernels_after = "2s"')
    warned = (await until(warnings))[0]
    assert (warned["what"], warned["kernel_id"], warned["can_keep"]) == ("kernel", kernel_id, True)
    assert "left.ipynb" in warned["message"]["text"]
    await until(lambda: session.kernels.get(kernel_id) is None)

    async def told() -> Any:
        return [each for each in (await api("session"))["notices"] if each["message"]["code"] == "KERNEL_ENDED"]

    assert (await until(told))[0]["kind"] == "loss"
    broker = kept.broker
    assert broker is not None

    async def audited() -> Any:
        lines = await broker.ask_ledger(lambda ledger: ledger.audit(where={"verb": "loss"}))
        return [line.entry.details for line in lines]

    assert (await until(audited))[0]["loss"] == "kernel_ended_while_idle"
    assert "kernel_ended_while_idle" in caplog.text


async def test_what_is_kept_stays(
    kept: HubsBroker, api: Any, start_kernel: Any, run: Any, session: Any, until: Any, warnings: Any
) -> None:
    """Keep is heard by the hub's service; another kernel that is left ends meanwhile."""
    kernel_id, other = await start_kernel("kept.ipynb"), await start_kernel("other.ipynb")
    for each in (kernel_id, other):
        await run(each, HOLD)
    await until(lambda: kept.status() == "running")
    await kept.want('end_kernels_after = "5s"')

    async def is_offered() -> bool:
        await warnings()
        return session.culling.view() is not None

    await until(is_offered)
    answer = await api("culling", "keep", body={"seconds": 3600, "kernel_id": kernel_id})
    assert answer["message"]["code"] == "KEPT_FROM_CULLING"

    async def other_is_gone() -> bool:
        await warnings()
        return session.kernels.get(other) is None

    await until(other_is_gone)
    assert session.kernels.get(kernel_id) is not None


async def test_the_servers_stop_is_shown_and_put_off(
    kept: HubsBroker, api: Any, start_kernel: Any, session: Any, until: Any, warnings: Any
) -> None:
    """A whole server that nobody uses is warned of; whoever keeps it sees nothing of it any more."""
    await start_kernel("left.ipynb")
    await until(lambda: kept.status() == "running")
    await kept.want('stop_after = "3s"')
    warned = (await until(warnings))[0]
    assert (warned["what"], warned["kernel_id"]) == ("server", None)
    assert warned["message"]["code"] == "SERVER_STOPS_IDLE"
    await api("culling", "keep", body={"seconds": 3600})
    assert await warnings() == []
    assert (await api("session"))["culling"]["kept_until"] is not None


async def test_the_admins_park_after_parks(
    kept: HubsBroker, start_kernel: Any, run: Any, parking_of: Any, until: Any, warnings: Any
) -> None:
    """The first step of culling is the session's own: its timeout is what the admin's file says."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await until(lambda: kept.status() == "running")
    assert (await parking_of(kernel_id))["policy"]["idle_timeout_s"] == 600
    await kept.want('park_after = "2s"')

    async def is_parked() -> bool:
        await warnings()
        return bool((await parking_of(kernel_id))["status"] == "parked")

    await until(is_parked)
    policy = (await parking_of(kernel_id))["policy"]
    assert json.dumps(policy, sort_keys=True) == json.dumps(
        {
            "idle_timeout_s": 2.0,
            "source": "pool",
            "pool": "default",
            "allow_background_work": False,
            "allow_foreign": False,
        },
        sort_keys=True,
    )
