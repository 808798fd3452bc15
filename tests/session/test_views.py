"""What is shown of a sample, to whom, and how well each number is known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPRequest

from jupyter_gpushare.devices.device import DeviceUse, Reading
from jupyter_gpushare.session.history import History
from tests.session.conftest import API
from tests.session.fake_source import GIB, FakeSource


class NoListSource(FakeSource):
    """A driver that gives totals but cannot list processes, as in some containers."""

    def read(self) -> list[DeviceUse]:
        reason = "no list in this container"
        self.reads += 1
        return [DeviceUse(each.uuid, Reading.exact(7 * GIB), Reading.exact(5), None, reason) for each in self.all]


@pytest.mark.parametrize(("source", "share"), [(NoListSource(), "1")])
async def test_a_whole_devices_total_stands_for_the_session(api: Any, start_kernel: Any) -> None:
    """Without a process list a session with a whole device shows the device's total, and says that it is that."""
    await start_kernel()
    snapshot = await api("session")
    assert (snapshot["memory"]["value"], snapshot["memory"]["attribution"]) == (7 * GIB, "device_total")
    assert snapshot["kernels"][0]["memory"]["value"] is None
    assert "7.5 GB" in snapshot["state"]["text"]


@pytest.mark.parametrize("source", [NoListSource()])
async def test_a_fraction_without_a_list_is_unknown_until_the_kernel_counts(
    api: Any, session: Any, start_kernel: Any
) -> None:
    """The device's total is never taken for a fraction's use; what the kernel counted is, and says so."""
    kernel_id = await start_kernel()
    before = await api("session")
    assert before["memory"] == {"value": None, "attribution": "unavailable", "reason": "no list in this container"}
    assert session.take_report(kernel_id, 2 * GIB)
    (row,) = (await api("session"))["kernels"]
    assert (row["memory"]["value"], row["memory"]["attribution"]) == (2 * GIB, "in_kernel")


async def test_reports_are_not_wanted_where_the_driver_tells(api: Any, session: Any, start_kernel: Any) -> None:
    """Where the driver's own figures can be had the kernel is told to stop counting."""
    kernel_id = await start_kernel()
    await api("session")
    assert not session.take_report(kernel_id, 2 * GIB)


async def test_a_kernel_never_learns_another_notebooks_name(
    api: Any, ended: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """Neither a running cell nor a release of another notebook shows in a kernel's own view."""
    mine, other = await start_kernel("mine.ipynb"), await start_kernel("secret-merger.ipynb")
    source.hold(session.kernels.pid(mine), GIB)
    source.hold(session.kernels.pid(other), GIB)
    await api("session")
    await ended("end_kernel", other)
    text = json.dumps(await api("kernels", mine))
    assert "secret" not in text
    assert (await api("kernels", mine))["state"][
        "text"
    ] == "No cell is running; 1.1 GB are still held. Release gives them back."


async def test_a_kernels_view_is_read_after_it_was_asked_for(
    api: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """A cell that asks what it has just allocated is never answered from before."""
    kernel_id = await start_kernel()
    await api("session")
    source.hold(session.kernels.pid(kernel_id), 4 * GIB)
    assert (await api("kernels", kernel_id))["kernel"]["memory"]["value"] == 4 * GIB


@pytest.mark.parametrize(
    ("share", "words"),
    [("64GiB", "64GiB guaranteed; the GPU has 41.9 GB usable"), ("2x0.5", "this server sees 1 such GPUs")],
)
async def test_a_share_that_does_not_fit_is_said(api: Any, words: str) -> None:
    """A share larger than what is here is not called ready."""
    state = (await api("session"))["state"]
    assert state["code"] == "SHARE_DOES_NOT_FIT"
    assert words in state["text"]


async def test_a_running_cell_is_more_than_an_ended_release(
    api: Any, ended: Any, start_kernel: Any, client_of: Any, session: Any, until: Any
) -> None:
    """The box does not go on telling of an ended kernel while another notebook works."""
    first, second = await start_kernel("a.ipynb"), await start_kernel("b.ipynb")
    await ended("end_kernel", first)
    assert (await api("session"))["state"]["code"] == "RELEASED"
    client_of(second).execute("import threading; threading.Event().wait(60)")
    await until(lambda: session.kernels.get(second).cells)
    assert (await api("session"))["state"]["text"] == "Active. b.ipynb is running a cell."


async def test_a_browser_from_elsewhere_cannot_release(
    origin: str, jp_serverapp: Any, jp_base_url: str, jp_auth_header: Any, start_kernel: Any
) -> None:
    """A cookie alone, without the page's XSRF token, releases nothing, with an invented kernel token neither."""
    kernel_id = await start_kernel()
    base = f"http://{origin}{jp_base_url}"
    login = await AsyncHTTPClient().fetch(
        HTTPRequest(f"{base}login?token={jp_serverapp.identity_provider.token}", follow_redirects=False),
        raise_error=False,
    )
    cookies = "; ".join(cookie.split(";")[0] for cookie in login.headers.get_list("Set-Cookie"))
    body = json.dumps({"level": "free_cache", "kernel_id": kernel_id})
    for extra in ({}, {"X-Gpushare-Kernel-Token": "invented"}):
        request = HTTPRequest(
            f"{base}{'/'.join(API)}/releases", method="POST", body=body, headers={"Cookie": cookies, **extra}
        )
        assert (await AsyncHTTPClient().fetch(request, raise_error=False)).code == 403


def test_history_keeps_an_hour_and_not_more() -> None:
    """Points are thinned to the interval, forgotten after the length, and survive a clock that was set back."""
    history = History(length_s=100, interval_s=10)
    for at in (0.0, 1.0, 10.0, 50.0, 104.0):
        history.add(at, Reading.exact(1), Reading.exact(2))
    assert history.model().at == [10.0, 50.0, 104.0]
    history.add(20.0, Reading.exact(1), Reading.exact(2))
    assert history.model().at[-1] == 20.0
