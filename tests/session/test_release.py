"""Giving memory back: attested by the device, announced before anything is lost, and true when nothing fell."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY
from tornado.httpclient import HTTPClientError

from tests.session.conftest import refusal
from tests.session.fake_source import GIB


async def refused(api: Any, body: dict[str, Any]) -> dict[str, Any]:
    """The error that a release gets, with its status."""
    with pytest.raises(HTTPClientError) as caught:
        await api("releases", body=body)
    error: dict[str, Any] = refusal(caught.value)["error"]
    return error | {"status": caught.value.code}


async def test_ending_a_kernel_is_announced_first(api: Any, jp_serverapp: Any, start_kernel: Any) -> None:
    """Without the owner's confirmation nothing ends, and the answer says what would be lost."""
    kernel_id = await start_kernel("train.ipynb")
    await api("session")
    error = await refused(api, {"level": "end_kernel", "kernel_id": kernel_id})
    assert (error["status"], error["code"]) == (409, "CONFIRM_LOSS")
    assert "Every variable of train.ipynb will be lost" in error["text"]
    assert kernel_id in jp_serverapp.kernel_manager


async def test_an_ended_kernel_is_attested_by_the_device(
    api: Any, ended: Any, jp_serverapp: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """The release says how many bytes the device shows free, and the loss is counted and audited."""
    kernel_id = await start_kernel("train.ipynb")
    source.hold(session.kernels.pid(kernel_id), 6 * GIB)
    await api("session")
    count = {"loss": "kernel_ended_by_owner"}
    before = REGISTRY.get_sample_value("gpushare_losses_total", count) or 0
    release = await ended({"level": "end_kernel", "kernel_id": kernel_id, "confirm": True})
    assert (release["status"], release["freed"], release["loss"]) == ("released", 6 * GIB, "kernel_ended_by_owner")
    assert release["message"]["text"] == "train.ipynb ended; 6.4 GB given back."
    assert kernel_id not in jp_serverapp.kernel_manager
    assert await jp_serverapp.session_manager.list_sessions() == []
    assert REGISTRY.get_sample_value("gpushare_losses_total", count) == before + 1
    assert (await api("session"))["state"]["code"] == "RELEASED"


async def test_memory_that_stays_is_not_called_released(
    api: Any, ended: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """When a child of the ended kernel goes on holding memory, the release failed and names the process."""
    kernel_id = await start_kernel("train.ipynb")
    kernel_pid = session.kernels.pid(kernel_id)
    source.hold(kernel_pid, GIB)
    await api("session")
    source.read = lambda: super(type(source), source).read()  # the device keeps listing the dead process
    release = await ended({"level": "end_kernel", "kernel_id": kernel_id, "confirm": True})
    assert (release["status"], release["freed"]) == ("failed", 0)
    assert str(kernel_pid) in release["message"]["text"]
    assert (await api("session"))["state"]["code"] == "CANNOT_RELEASE"


async def test_a_busy_kernel_is_never_released_without_saying_what_runs(
    api: Any, start_kernel: Any, client_of: Any, until: Any, session: Any
) -> None:
    """Both freeing the cache and ending name the running cell and wait for the owner's word."""
    kernel_id = await start_kernel("train.ipynb")
    client = client_of(kernel_id)
    client.execute("import threading; event = threading.Event()\nevent.wait(60)")
    await until(lambda: session.kernels.get(kernel_id).running)
    for level in ("free_cache", "end_kernel"):
        error = await refused(api, {"level": level, "kernel_id": kernel_id})
        assert (error["status"], error["code"]) == (409, "KERNEL_BUSY")
        assert "import threading; event = threading.Event()" in error["text"]
        assert "train.ipynb has been running a cell since" in error["text"]
    assert (await api("session"))["state"]["text"] == "Active. train.ipynb is running a cell."


async def test_end_all_ends_those_that_hold_and_no_others(
    api: Any, ended: Any, jp_serverapp: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """Kernels without GPU memory survive "end all GPU kernels"."""
    holding, other = await start_kernel("a.ipynb"), await start_kernel("b.ipynb")
    source.hold(session.kernels.pid(holding), 2 * GIB)
    await api("session")
    error = await refused(api, {"level": "end_all"})
    assert "a.ipynb" in error["text"]
    assert "b.ipynb" not in error["text"]
    release = await ended({"level": "end_all", "confirm": True})
    assert (release["status"], release["freed"], release["loss"]) == ("released", 2 * GIB, "all_kernels_ended_by_owner")
    assert holding not in jp_serverapp.kernel_manager
    assert other in jp_serverapp.kernel_manager


async def test_a_kernel_that_dies_meanwhile_is_released(
    api: Any, ended: Any, jp_serverapp: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """A kernel that ends by itself while we end it is no error: the device attests that its memory is free."""
    kernel_id = await start_kernel()
    source.hold(session.kernels.pid(kernel_id), GIB)
    await api("session")
    end = session.kernels.end

    async def end_twice(which: str) -> None:
        await jp_serverapp.kernel_manager.shutdown_kernel(which, now=True)
        await end(which)

    session.kernels.end = end_twice
    release = await ended({"level": "end_kernel", "kernel_id": kernel_id, "confirm": True})
    assert (release["status"], release["freed"]) == ("released", GIB)


async def test_a_fault_of_ours_ends_the_release(api: Any, ended: Any, session: Any, start_kernel: Any) -> None:
    """A release never hangs in "running", whatever goes wrong inside."""
    kernel_id = await start_kernel()

    async def fail(which: str) -> None:
        raise OSError(which)

    session.kernels.end = fail
    release = await ended({"level": "end_kernel", "kernel_id": kernel_id, "confirm": True})
    assert (release["status"], release["message"]["code"]) == ("failed", "RELEASE_FAILED")


async def test_end_all_with_nothing_held_says_so(api: Any, start_kernel: Any) -> None:
    """There is a true sentence for a release that has nothing to do."""
    await start_kernel()
    await api("session")
    error = await refused(api, {"level": "end_all", "confirm": True})
    assert (error["status"], error["code"]) == (409, "CANNOT_RELEASE")
    assert "nothing to end" in error["text"]
