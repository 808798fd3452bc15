"""Drivers that are missing, lost, slow or lying: the server goes on and says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from traitlets import TraitError

from jupyter_gpushare.devices.device import Driver, DriverState
from jupyter_gpushare.session.extension import GpuShare
from tests.session.conftest import API
from tests.session.fake_source import GIB, FakeSource, HangingSource, RaisingSource, device

if TYPE_CHECKING:
    from collections.abc import Callable


def absent(vendor: str) -> FakeSource:
    """No driver."""
    source = FakeSource()
    source.state = Driver(vendor, DriverState.ABSENT, reason="Install the driver.")
    return source


def lost() -> FakeSource:
    """A driver that worked and stopped."""
    source = FakeSource()
    source.state = Driver("nvidia", DriverState.LOST, reason="The GPU fell off the bus.")
    return source


def none_visible() -> FakeSource:
    """A driver that shows nothing."""
    source = FakeSource()
    source.all = []
    return source


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        pytest.param(absent("none"), "NO_GPU", "Install the driver.", id="no driver library"),
        pytest.param(absent("nvidia"), "NO_DRIVER", "Install the driver.", id="driver not loaded"),
        pytest.param(lost(), "DRIVER_LOST", "The GPU fell off the bus.", id="lost in mid-run"),
        pytest.param(none_visible(), "NO_GPU", "may not see a device", id="no device visible"),
        pytest.param(FakeSource([device(is_mig=True)]), "MIG_WITHOUT_UTILISATION", "does not report it", id="MIG"),
    ],
)
async def test_each_trouble_has_its_sentence(api: Any, code: str, words: str) -> None:
    """The state box names the trouble and what to do, and unknown numbers are null, not zero."""
    snapshot = await api("session")
    assert snapshot["state"]["code"] == code
    assert words in snapshot["state"]["text"]
    assert snapshot["utilisation"]["value"] in (None, 0)
    assert all(d["utilisation"]["value"] is None for d in snapshot["devices"])


@pytest.mark.parametrize("source", [FakeSource([device(i) for i in range(64)])], ids=["64 devices"])
async def test_many_devices(api: Any) -> None:
    """A host with 64 devices shows them all, in order."""
    assert [d["index"] for d in (await api("devices"))["devices"]] == list(range(64))


@pytest.mark.parametrize("share", ["0.5@h100"])
async def test_a_share_of_a_kind_that_is_not_here(api: Any) -> None:
    """A share for another kind of GPU says which kinds there are."""
    snapshot = await api("session")
    assert snapshot["share"]["request"] is None
    assert "½ GPU guaranteed on h100; there is a100" in snapshot["state"]["text"]


@pytest.mark.parametrize(("source", "gpushare_options"), [(HangingSource(), {"driver_deadline_s": 1.0})])
async def test_a_driver_that_hangs_blocks_nothing(
    api: Any, jp_fetch: Any, jp_ws_fetch: Any, source: HangingSource, session: Any
) -> None:
    """While a driver call hangs the server answers at once, first "reading", then that the driver is lost."""
    socket = await jp_ws_fetch(*API, "stream")
    assert json.loads(await socket.read_message())["state"]["code"] == "READING"
    assert source.hanging.wait(30)
    assert (await jp_fetch("api", "status")).code == 200
    snapshot = await api("session")
    assert snapshot["state"]["code"] == "DRIVER_LOST"
    assert "has not returned" in snapshot["state"]["text"]
    assert snapshot["memory"]["value"] is None
    source.let_go.set()
    while json.loads(await socket.read_message())["state"]["code"] != "NOTHING_HELD":
        continue
    assert session.is_running
    socket.close()


@pytest.mark.parametrize("source", [RaisingSource()])
async def test_a_driver_that_raises_kills_nothing(
    api: Any, source: RaisingSource, session: Any, start_kernel: Callable[..., Any]
) -> None:
    """A source that breaks its contract is survived; the next good reading is shown."""
    kernel_id = await start_kernel()
    source.broken.set()
    await api("session")
    source.broken.clear()
    source.hold(session.kernels.pid(kernel_id), GIB)
    assert (await api("session"))["memory"]["value"] == GIB


@pytest.mark.parametrize("share", [""])
async def test_a_strangers_share_in_the_environment(monkeypatch: Any, jp_configurable_serverapp: Any) -> None:
    """A broken GPUSHARE_SHARE is logged with the right form, and the notebooks still start."""
    monkeypatch.setenv("GPUSHARE_SHARE", "half a gpu; rm -rf /")
    app = jp_configurable_serverapp()
    session = app.web_app.settings["jupyter_gpushare"].session
    assert str(session._own.share) == "1"
    assert session._own.source == "default"


@pytest.mark.parametrize("options", [{"interval_s": float("nan")}, {"history_s": float("inf")}])
def test_a_wrong_number_of_seconds_is_named(options: dict[str, float]) -> None:
    """A time that is no number is refused with the setting's name, instead of failing somewhere inside."""
    with pytest.raises(TraitError, match=r"c\.GpuShare\.\w+_s: .* is no number of seconds"):
        GpuShare(**options)


def test_one_wrong_value_does_not_undo_the_others(jp_serverapp: Any) -> None:
    """Jupyter Server goes on with defaults after a wrong value: then nothing of ours may run, as `off` may be among it."""
    jp_serverapp.config.GpuShare.parking = "off"
    jp_serverapp.config.GpuShare.host_memory_budget = "a lot"
    extension = GpuShare()
    with pytest.raises(TraitError, match="host_memory_budget"):
        extension._link_jupyter_server_extension(jp_serverapp)
    with pytest.raises(TraitError, match="host_memory_budget"):
        extension.initialize_settings()
    assert extension.session is None


async def test_an_extension_that_failed_to_load_can_be_stopped() -> None:
    """A wrong configuration must not keep the server from ending."""
    await GpuShare().stop_extension()
