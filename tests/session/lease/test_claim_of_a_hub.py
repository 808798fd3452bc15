"""A server that a hub started joins the claim that the hub holds for it, and asks as itself when that is over."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.client import BROKER, TOKEN, Pauses
from jupyter_gpushare.session.lease.joining import Joining
from jupyter_gpushare.session.lease.session import CLAIM
from jupyter_gpushare.session.lease.settings import LeaseSettings
from tests.broker.service.bench import Bench, processes_of, until
from tests.broker.service.hub_town import HubTown, session

if TYPE_CHECKING:
    from pathlib import Path

    from tests.session.lease.conftest import Kept

KEY = "hub:ana/"


@pytest.fixture(name="gpushare_options")
def _gpushare_options(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A session that is told what its claim is called."""
    monkeypatch.setenv(CLAIM, KEY)
    return {"broker": f"unix:{kept.socket}"}


async def test_a_server_asks_under_the_name_that_its_hub_gave(kept: Kept, start_kernel: Any, until: Any) -> None:
    """So it finds what the hub holds for it, and the hub finds what to end after it."""
    await start_kernel()

    def key() -> str:
        assert kept.broker is not None
        return next((lease.key for lease in kept.broker.books.leases.values()), "")

    await until(lambda: key() == KEY)


async def test_the_hubs_token_is_for_one_lease_and_the_servers_own_for_the_next(directory: Path) -> None:
    """It joins the claim that is held for it; when that has ended it may claim again, as its person."""
    bench = Bench(directory / "hub")
    town = HubTown(bench)
    await bench.start()
    held = (await town.start("hub:ana%2F")).claim
    environ = {BROKER: town.url, TOKEN: held.token, "JUPYTERHUB_API_TOKEN": "ana"}
    joining = Joining(
        LeaseSettings(retry_s=0.1),
        claim=lambda: session(KEY),
        processes=lambda: processes_of(os.getpid()),
        on_lease=lambda _lease: None,
        on_change=lambda: None,
        on_refused=lambda _error: None,
        is_resident=lambda: False,
        environ=environ,
        pauses=Pauses(0.01, 0.05, 10.0),
        log=logging.getLogger("test"),
    )
    joining.start()
    try:
        await until(lambda: joining.holding is not None and joining.holding.lease is not None)
        assert joining.holding is not None
        assert joining.holding.lease is not None
        assert joining.holding.lease.id == held.lease.id
        joining.holding.did("running", joining.holding.lease.epoch)
        await until(lambda: bench.lease(held.lease.id).status == "running")
        joining.holding.want("ended")
        ending = await joining.holding.until(lambda lease: lease.status in ("yielding", "ended"))
        joining.holding.did("released", ending.epoch)
        await until(lambda: held.lease.id not in bench.broker.books.leases)
        joining.want()
        await until(lambda: [each.person for each in bench.broker.books.leases.values()] == ["ana"])
    finally:
        await joining.stop()
        await bench.close()
