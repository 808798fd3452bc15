"""Giving memory back: attested by the device, announced before anything is lost, and true when nothing fell."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.devices.device import Driver, DriverState
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.extension import LOSS_SCHEMA_ID
from jupyter_gpushare.session.kernels import Cell
from jupyter_gpushare.session.release import Release
from jupyter_gpushare.session.release_sentences import NOTHING_TO_END, Verdict
from jupyter_gpushare.session.requests import ReleaseRequest
from tests.session.conftest import refusal
from tests.session.fake_source import GIB, HangingSource


async def refused(api: Any, body: dict[str, Any]) -> dict[str, Any]:
    """The error that a release gets, with its status."""
    with pytest.raises(HTTPClientError) as caught:
        await api("releases", body=body)
    body = refusal(caught.value)
    error: dict[str, Any] = body["error"]
    return error | {"status": caught.value.code, "confirm": body["confirm"]}


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
    release = await ended("end_kernel", kernel_id)
    assert (release["status"], release["freed"], release["loss"]) == ("released", 6 * GIB, "kernel_ended_by_owner")
    assert (release["message"]["code"], release["message"]["text"]) == (
        "ENDED",
        "train.ipynb ended; 6.4 GB given back.",
    )
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
    release = await ended("end_kernel", kernel_id)
    assert (release["status"], release["freed"], release["message"]["code"]) == ("failed", 0, "STILL_HELD")
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
    release = await ended("end_all")
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
    release = await ended("end_kernel", kernel_id)
    assert (release["status"], release["freed"]) == ("released", GIB)


async def test_a_fault_of_ours_ends_the_release(api: Any, ended: Any, session: Any, start_kernel: Any) -> None:
    """A release never hangs in "running", whatever goes wrong inside."""
    kernel_id = await start_kernel()

    async def fail(which: str) -> None:
        raise OSError(which)

    session.kernels.end = fail
    release = await ended("end_kernel", kernel_id)
    assert (release["status"], release["message"]["code"]) == ("failed", "RELEASE_FAILED")


async def test_end_all_with_nothing_held_says_so(api: Any, start_kernel: Any) -> None:
    """There is a true sentence for a release that has nothing to do."""
    await start_kernel()
    await api("session")
    error = await refused(api, {"level": "end_all"})
    assert (error["status"], error["code"], error["text"]) == (409, "CANNOT_RELEASE", NOTHING_TO_END.text)


async def test_the_owners_word_is_for_what_was_announced(
    api: Any, jp_serverapp: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """A kernel that begins to hold memory after the announcement is not ended by the word given before."""
    first, second = await start_kernel("a.ipynb"), await start_kernel("b.ipynb")
    source.hold(session.kernels.pid(first), GIB)
    await api("session")
    announced = await refused(api, {"level": "end_all"})
    source.hold(session.kernels.pid(second), GIB)
    await session._read_now()
    again = await refused(api, {"level": "end_all", "confirm": announced["confirm"]})
    assert "b.ipynb" in again["text"]
    assert again["confirm"] != announced["confirm"]
    assert {first, second} <= set(jp_serverapp.kernel_manager.list_kernel_ids())


async def test_a_cell_that_starts_after_the_announcement_is_announced(
    api: Any, start_kernel: Any, client_of: Any, until: Any, session: Any
) -> None:
    """Confirming the end of an idle kernel does not end a cell that began meanwhile; it is named first."""
    kernel_id = await start_kernel("train.ipynb")
    announced = await refused(api, {"level": "end_kernel", "kernel_id": kernel_id})
    client_of(kernel_id).execute("import threading; threading.Event().wait(60)")
    await until(lambda: session.kernels.get(kernel_id).running)
    again = await refused(api, {"level": "end_kernel", "kernel_id": kernel_id, "confirm": announced["confirm"]})
    assert again["code"] == "KERNEL_BUSY"
    assert "threading.Event().wait(60)" in again["text"]


async def test_a_cell_that_starts_while_a_release_waits_its_turn_is_spared(
    api: Any, release: Any, start_kernel: Any, session: Any, until: Any
) -> None:
    """Between the owner's word and the act a cell may begin: then nothing is ended, and that is said."""
    kernel_id = await start_kernel()
    await session.releases._turn.acquire()
    begun = await release("end_kernel", kernel_id)
    session.kernels.get(kernel_id).cells["later"] = Cell(0, "model.fit()")
    session.releases._turn.release()

    async def final() -> Any:
        now = await api("releases", begun["id"])
        return now if now["status"] != "running" else None

    done = await until(final)
    assert (done["status"], done["message"]["code"], done["loss"]) == ("failed", "CHANGED_MEANWHILE", None)
    assert session.kernels.get(kernel_id) is not None


async def test_two_tabs_end_one_kernel_once(
    api: Any, release: Any, source: Any, session: Any, start_kernel: Any, until: Any
) -> None:
    """The second of two tabs is told that the kernel had ended; one loss is counted, not two."""
    kernel_id = await start_kernel("train.ipynb")
    source.hold(session.kernels.pid(kernel_id), GIB)
    await api("session")
    count = {"loss": "kernel_ended_by_owner"}
    before = REGISTRY.get_sample_value("gpushare_losses_total", count) or 0
    both = [await release("end_kernel", kernel_id) for _ in range(2)]

    async def ended() -> Any:
        now = [await api("releases", each["id"]) for each in both]
        return now if all(each["status"] != "running" for each in now) else None

    first, second = await until(ended)
    assert (first["status"], second["message"]["code"], second["loss"]) == ("released", "ALREADY_ENDED", None)
    assert REGISTRY.get_sample_value("gpushare_losses_total", count) == before + 1


async def test_an_unreadable_device_is_no_proof(
    api: Any, ended: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """When the driver is lost while a kernel ends, nothing is claimed about its memory."""
    kernel_id = await start_kernel()
    source.hold(session.kernels.pid(kernel_id), GIB)
    await api("session")
    end = session.kernels.end

    async def end_and_lose(which: str) -> None:
        await end(which)
        source.state = Driver("nvidia", DriverState.LOST, reason="XID 79")

    session.kernels.end = end_and_lose
    done = await ended("end_kernel", kernel_id)
    assert (done["status"], done["freed"], done["message"]["code"]) == ("released", None, "ENDED_UNKNOWN")


@pytest.mark.parametrize(("source", "gpushare_options"), [(HangingSource(), {"release_deadline_s": 1.0})])
async def test_a_driver_that_hangs_does_not_hold_up_a_release(ended: Any, start_kernel: Any, session: Any) -> None:
    """The kernel ends though the device cannot be asked, and that is what is said."""
    kernel_id = await start_kernel()
    done = await ended("end_kernel", kernel_id)
    assert (done["status"], done["freed"], done["message"]["code"]) == ("released", None, "ENDED_UNKNOWN")
    assert session.kernels.get(kernel_id) is None


async def test_a_kernel_that_dies_while_its_cache_is_freed(
    api: Any, ended: Any, jp_serverapp: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """Memory that fell because the kernel died is not sold as a freed cache."""
    kernel_id = await start_kernel("eda.ipynb")
    source.hold(session.kernels.pid(kernel_id), GIB)
    await api("session")

    async def die(kernel: Any) -> list[str]:
        await jp_serverapp.kernel_manager.shutdown_kernel(kernel.id, now=True)
        return []

    session.releases._free_cache = die
    done = await ended("free_cache", kernel_id)
    assert (done["status"], done["freed"], done["message"]["code"]) == ("failed", None, "ALREADY_ENDED")


async def test_a_kernel_with_a_notebook_and_a_console_ends(
    api: Any, ended: Any, jp_serverapp: Any, start_kernel: Any, session: Any
) -> None:
    """Two sessions on one kernel are one ending, under the notebook's name."""
    kernel_id = await start_kernel("train.ipynb")
    await jp_serverapp.session_manager.create_session(
        path="console-1", name="c", type="console", kernel_id=kernel_id, kernel_name="python3"
    )
    done = await ended("end_kernel", kernel_id)
    assert (done["status"], done["message"]["values"]["notebooks"]) == ("released", "train.ipynb")
    assert await jp_serverapp.session_manager.list_sessions() == []


async def test_a_loss_is_audited_before_it_happens(ended: Any, jp_serverapp: Any, start_kernel: Any) -> None:
    """Whoever listens to the server's events hears of a loss while the kernel still lives."""
    kernel_id = await start_kernel()
    heard: list[tuple[Any, bool]] = []

    async def listen(logger: Any, schema_id: str, data: Any) -> None:
        heard.append(({key: data[key] for key in ("loss", "kernel_ids")}, kernel_id in jp_serverapp.kernel_manager))

    jp_serverapp.event_logger.add_listener(schema_id=LOSS_SCHEMA_ID, listener=listen)
    await ended("end_kernel", kernel_id)
    assert heard == [({"loss": "kernel_ended_by_owner", "kernel_ids": [kernel_id]}, True)]


async def test_old_releases_are_forgotten(api: Any, session: Any, start_kernel: Any, release: Any) -> None:
    """A server that runs for months keeps the newest releases only, and a frame carries only recent ones."""
    kernel_id = await start_kernel()
    for number in range(60):
        old = Release(f"{number:04x}", ReleaseRequest("free_cache", kernel_id), [], 0, Message("OLD", "old"))
        old.finish(Verdict("released", old.message, 0))
        old.ended = 0
        session.releases._known[old.id] = old
    await release("free_cache", kernel_id)
    assert len((await api("releases"))["releases"]) == 50
    assert len((await api("session"))["releases"]) == 1


async def test_stopping_the_server_ends_a_release_that_waits(release: Any, session: Any, start_kernel: Any) -> None:
    """No release is left "running" by a server that has gone."""
    kernel_id = await start_kernel()
    await session.releases._turn.acquire()
    begun = await release("end_kernel", kernel_id)
    assert (begun["status"], begun["message"]["code"]) == ("running", "RELEASING")
    await session.releases.stop()
    ended = session.releases.get(begun["id"])
    assert (ended.status, ended.message.code) == ("failed", "RELEASE_STOPPED")
