"""A session finds the user's own broker when one comes, and needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from traitlets import TraitError

from jupyter_gpushare.broker import places
from jupyter_gpushare.session.extension import GpuShare
from tests.session.lease.conftest import Kept

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_gpushare.devices.simulated.machine import Machine


@pytest.fixture(name="kept")
def _kept(
    directory: Path, machine: Machine, jp_asyncio_loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kept]:
    """A broker where the user's own one is looked for; not started yet."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    monkeypatch.setattr(places, "machine_socket", lambda: directory / "no-machine.sock")
    kept = Kept(directory / "gpushare", machine, jp_asyncio_loop)
    yield kept
    jp_asyncio_loop.run_until_complete(kept.stop())


@pytest.fixture(name="gpushare_options")
def _gpushare_options(kept: Kept) -> dict[str, Any]:
    """The default."""
    return {"broker": "auto"}


async def test_a_broker_that_comes_later_is_joined(kept: Kept, api: Any, start_kernel: Any, until: Any) -> None:
    """Without a broker everything is as before, kernels included; once one runs the session has its lease there."""
    await start_kernel()
    shown = await api("session")
    assert shown["lease"] is None
    assert shown["share"]["source"] == "configuration"
    await kept.start()
    await until(lambda: kept.status() == "running")
    assert (await api("session"))["share"]["source"] == "broker"


async def test_without_a_broker_no_other_share_can_be_asked_for(api: Any) -> None:
    """People read who decides instead."""
    with pytest.raises(Exception, match="409"):
        await api("request", body={"share": "0.25"})


def test_a_wrong_address_is_refused_with_a_right_one() -> None:
    """A typing error in the configuration names the setting and shows what to write."""
    with pytest.raises(TraitError, match=r"c\.GpuShare\.broker: .*write off, auto, start"):
        GpuShare(broker="hub.example.org")
