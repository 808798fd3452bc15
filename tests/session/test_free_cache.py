"""Freeing cached memory end to end: a real kernel, its allocator on the simulated machine, the device's word."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from tests.session.conftest import refusal
from tests.session.fake_source import GIB

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="source")
def _source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedSource:
    Machine.create(tmp_path / "machine")
    monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", str(tmp_path / "machine"))
    return SimulatedSource(tmp_path / "machine")


@pytest.fixture(name="run")
def _run(client_of: Any, session: Any, until: Any) -> Any:
    """Run one cell in a kernel and wait for its reply, and until the server has seen its end."""

    async def run(kernel_id: str, code: str) -> None:
        client, kernel, started = client_of(kernel_id), session.kernels.get(kernel_id), time.time()
        msg_id = client.execute(code)
        while (reply := await client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != msg_id:
            continue
        assert reply["content"]["status"] == "ok", reply["content"]
        await until(lambda: (kernel.idle_since or 0) >= started)

    return run


ALLOCATE = """
from jupyter_gpushare.devices.simulated import cuda
kept, dropped = cuda.allocate("3GiB"), cuda.allocate("2GiB")
dropped.free()
"""


async def test_what_is_cached_falls_and_what_is_used_stays(
    api: Any, session: Any, start_kernel: Any, run: Any, ended: Any
) -> None:
    """The device attests that the cached part is free; the variables of the notebook are untouched."""
    kernel_id = await start_kernel("eda.ipynb")
    await run(kernel_id, ALLOCATE)
    before = (await api("session"))["memory"]["value"]
    assert before > 5 * GIB
    done = await ended("free_cache", kernel_id)
    assert (done["status"], done["freed"], done["loss"]) == ("released", 2 * GIB, None)
    assert done["message"]["code"] == "FREED"
    assert done["message"]["text"].startswith("2.1 GB given back. ")
    assert (await api("session"))["memory"]["value"] == before - 2 * GIB
    await run(kernel_id, "kept.write(b'alive'); assert kept.read(size=5) == b'alive'")


async def test_nothing_to_free_is_said(api: Any, start_kernel: Any, run: Any, ended: Any) -> None:
    """When everything is in use, the release does not pretend."""
    kernel_id = await start_kernel()
    await run(kernel_id, "from jupyter_gpushare.devices.simulated import cuda; kept = cuda.allocate('1GiB')")
    done = await ended("free_cache", kernel_id)
    assert (done["status"], done["freed"], done["message"]["code"]) == ("failed", 0, "NOTHING_FELL")
    assert (await api("session"))["state"]["code"] == "CANNOT_RELEASE"


async def test_a_kernel_that_does_not_answer(start_kernel: Any, run: Any, ended: Any) -> None:
    """A kernel whose part of ours is gone fails the release with a sentence, after a deadline."""
    kernel_id = await start_kernel("eda.ipynb")
    await run(kernel_id, "get_ipython().run_line_magic('unload_ext', 'jupyter_gpushare')")
    done = await ended("free_cache", kernel_id)
    assert done["status"] == "failed"
    assert "eda.ipynb did not answer" in done["message"]["text"]


async def test_freeing_is_not_the_users_activity(
    jp_serverapp: Any, session: Any, start_kernel: Any, run: Any, until: Any, ended: Any
) -> None:
    """Our message on the control channel leaves the kernel's last activity and its state alone."""
    kernel_id = await start_kernel()
    await run(kernel_id, ALLOCATE)
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    await until(lambda: session.kernels.get(kernel_id).busy_since is None and manager.execution_state == "idle")
    before = manager.last_activity
    assert (await ended("free_cache", kernel_id))["status"] == "released"
    assert (manager.last_activity, manager.execution_state) == (before, "idle")


async def test_the_widgets_updates_are_not_the_users_activity(
    jp_serverapp: Any, start_kernel: Any, run: Any, until: Any
) -> None:
    """A live widget of ours must not keep an idle kernel from being culled; another widget's messages still count."""
    kernel_id = await start_kernel()
    await run(
        kernel_id,
        "import jupyter_gpushare, ipywidgets\nw = jupyter_gpushare.GpuShareWidget(); text = ipywidgets.Text()",
    )
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    await until(lambda: manager.execution_state == "idle")
    update = (
        "import threading\n"
        "def send():\n    {which}.comm.send({{'method': 'update', 'state': {{}}, 'buffer_paths': []}})\n"
        "timer = threading.Timer(0.5, send); timer.start()"
    )
    topics = record_topics(manager)
    for which, counts in (("w", False), ("text", True)):
        await run(kernel_id, update.format(which=which))
        await until(lambda: manager.execution_state == "idle")
        before = manager.last_activity
        topics.clear()
        await until(lambda: any(topic.startswith(b"comm-") for topic in topics))
        assert (manager.last_activity != before) is counts


def record_topics(manager: Any) -> list[bytes]:
    """The topics of the messages that the server has taken from a kernel's stream, filled as they come."""
    topics: list[bytes] = []
    taken = manager._activity_stream._recv_callback

    def take(frames: list[Any]) -> None:
        taken(frames)
        topics.append(bytes(frames[0]))

    manager._activity_stream.on_recv(take)
    return topics


async def test_an_unloaded_part_is_told_apart_from_an_unknown_kernel(api: Any) -> None:
    """Freeing the cache of a kernel that is not there is a 404, not a time-out."""
    with pytest.raises(HTTPClientError) as caught:
        await api("releases", body={"level": "free_cache", "kernel_id": "nobody"})
    assert refusal(caught.value)["error"]["code"] == "UNKNOWN_KERNEL"
