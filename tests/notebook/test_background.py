"""What runs in a kernel besides its cells: seen in real kernels, told apart by where the code comes from."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import KernelManager

from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.notebook import background
from tests.notebook.fake_server import FakeServer
from tests.notebook.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S = 30
PERIODIC = """
from tornado.ioloop import PeriodicCallback
def tick(): pass
task = PeriodicCallback(tick, 600000)
task.start()
task.cancel = task.stop
"""
TORNADO_TIMER = """
import types
from tornado.ioloop import IOLoop
def tick(): pass
handle = IOLoop.current().call_later(600, tick)
task = types.SimpleNamespace(cancel=lambda: IOLoop.current().remove_timeout(handle))
"""


class Kernel:
    """One kernel that is asked what goes on in it."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def run(self, code: str) -> None:
        """Run a cell, which must not fail."""
        reply = self.client.execute_interactive(code, timeout=DEADLINE_S)
        assert reply["content"]["status"] == "ok", reply["content"]

    def probe(self) -> dict[str, Any]:
        """The reply's content."""
        message = self.client.session.msg("gpushare_probe_request", {"since": None})
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=DEADLINE_S)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                assert reply["msg_type"] == "gpushare_probe_reply"
                return dict(reply["content"])


@pytest.fixture(name="kernel")
def _kernel(tmp_path: Any) -> Iterator[Kernel]:
    Machine.create(tmp_path / "gpus")
    with FakeServer() as server:
        manager = KernelManager(kernel_name="python3")
        extra = {**server.environment, "GPUSHARE_SIMULATED_MACHINE": str(tmp_path / "gpus")}
        extra["GPUSHARE_GATE_FILE"] = str(tmp_path / "closed")
        manager.start_kernel(env={**os.environ, **extra}, extra_arguments=["--ext=jupyter_gpushare"])
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield Kernel(client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()


def test_a_fresh_kernel_has_none(kernel: Kernel) -> None:
    """No false alarm: not from ipykernel, a subshell, the debugger, our own threads, tqdm or a resting pool."""
    assert kernel.probe() == {
        "status": "ok", "gated": True, "threads": [], "tasks": [], "frameworks": [], "features": [],
    }  # fmt: skip
    kernel.run("from jupyter_gpushare.devices.simulated import cuda; kept = cuda.allocate('1GiB')\n%gpushare")
    kernel.run("import asyncio; from jupyter_gpushare import GpuShareWidget; GpuShareWidget()")
    kernel.run("await asyncio.get_running_loop().run_in_executor(None, sum, [1])")
    kernel.run("from concurrent.futures import ThreadPoolExecutor as P; pool = P(2); list(pool.map(abs, range(9)))")
    for kind, content in (
        ("create_subshell_request", {}),
        ("debug_request", {"type": "request", "seq": 1, "command": "initialize", "arguments": {}}),
    ):
        kernel.client.control_channel.send(kernel.client.session.msg(kind, content))
        kernel.client.get_control_msg(timeout=DEADLINE_S)
    found = kernel.probe()
    assert (found["threads"], found["tasks"]) == ([], [])
    assert found["frameworks"] == ["jupyter_gpushare.devices.simulated.cuda"]


@pytest.mark.parametrize(
    ("code", "name", "origin"),
    [
        ("t = threading.Thread(target=stop.wait, name='loader'); t.start()", "loader", "threading"),
        ("def work(): stop.wait()\nt = threading.Thread(target=work, name='mine'); t.start()", "mine", "__main__"),
        ("threading.Timer(600, print).start()", "Thread", "builtins"),
        ("class T(threading.Thread):\n def run(self): stop.wait()\nT(name='sub').start()", "sub", "__main__"),
        (
            "from concurrent.futures import ThreadPoolExecutor as P\nP(1, 'busy').submit(stop.wait)",
            "busy_0",
            "concurrent.futures.thread",
        ),
        # Named like one of ours, and not ours.
        (
            "def work(): stop.wait()\nthreading.Thread(target=work, name='gpushare-report').start()",
            "gpushare-report",
            "__main__",
        ),
    ],
    ids=["library function", "function", "timer", "subclass", "busy pool", "in disguise"],
)
def test_a_users_thread_is_found(kernel: Kernel, code: str, name: str, origin: str) -> None:
    """A live thread of the user's is told with its origin, and no longer once it has ended."""
    kernel.run("import threading; stop = threading.Event()")
    kernel.run(code)
    (found,) = kernel.probe()["threads"]
    assert found["name"].startswith(name)
    assert found["origin"] == origin
    kernel.run("stop.set()\nfor t in threading.enumerate():\n    if isinstance(t, threading.Timer): t.cancel()")
    until(lambda: kernel.probe()["threads"] == [], "the end of the thread")


@pytest.mark.parametrize(
    ("code", "name", "origin"),
    [
        ("async def poll():\n    await asyncio.sleep(600)\ntask = asyncio.create_task(poll())", "poll", "__main__"),
        ("task = asyncio.create_task(asyncio.Event().wait())", "Event.wait", "asyncio.locks"),
        ("def tick(): pass\ntask = asyncio.get_running_loop().call_later(600, tick)", "tick", "__main__"),
        (
            PERIODIC,
            "tick",
            "__main__",
        ),
        (
            TORNADO_TIMER,
            "tick",
            "__main__",
        ),
    ],
    ids=["task", "library task", "timer", "periodic", "tornado timer"],
)
def test_a_users_task_is_found(kernel: Kernel, code: str, name: str, origin: str) -> None:
    """A pending task or timer is told with its origin, and no longer once it is cancelled."""
    kernel.run("import asyncio\n" + code)
    assert kernel.probe()["tasks"] == [{"name": name, "origin": origin}]
    kernel.run("task.cancel()")
    # A task that is cancelled lives on until its loop comes by and throws the cancellation into it.
    until(lambda: kernel.probe()["tasks"] == [], "the end of the task")


def test_a_task_of_another_loop_is_found(kernel: Kernel) -> None:
    """An event loop in a thread of the user's is seen with its tasks."""
    kernel.run(
        "import asyncio, threading\nloop = asyncio.new_event_loop()\n"
        "threading.Thread(target=loop.run_forever, name='loop').start()\n"
        "async def far():\n    await asyncio.sleep(600)\n"
        "future = asyncio.run_coroutine_threadsafe(far(), loop)\n"
        "import time\nwhile not asyncio.all_tasks(loop): time.sleep(0.01)"
    )
    found = kernel.probe()
    assert [each["name"] for each in found["threads"]] == ["loop"]
    assert found["tasks"] == [{"name": "far", "origin": "__main__"}]
    kernel.run("future.cancel(); loop.call_soon_threadsafe(loop.stop)")


def test_names_from_the_user_are_kept_short_and_sendable(kernel: Kernel) -> None:
    """A thread's name may be anything; it neither floods nor breaks the answer."""
    kernel.run(
        "import threading; stop = threading.Event()\n"
        "for _ in range(80): threading.Thread(target=stop.wait, name='\\ud800' * 5000).start()"
    )
    found = kernel.probe()["threads"]
    kernel.run("stop.set()")
    assert len(found) == 50
    assert {each["name"] for each in found} == {"?" * 80}


def test_what_cannot_be_looked_at_is_an_error_not_a_silence(kernel: Kernel) -> None:
    """A user's object that raises when it is looked at does not pass for an idle kernel."""
    kernel.run(
        "import threading; stop = threading.Event()\n"
        "class Odd(threading.Thread):\n"
        "    def run(self): stop.wait()\n"
        "    name = property(lambda self: 1 / 0, lambda self, value: None)\n"
        "    __str__ = __repr__ = lambda self: 'odd'\n"
        "odd = Odd(); odd.start()"
    )
    found = kernel.probe()
    kernel.run("stop.set(); odd.join()")
    assert (found["status"], found["evalue"]) == ("error", "ZeroDivisionError: division by zero")


def test_nccl_is_named(kernel: Kernel) -> None:
    """A process group of NCCL is told, without importing anything."""
    kernel.run(
        "import sys, types\n"
        "group = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, "
        "get_backend=lambda: 'cpu:gloo,cuda:nccl')\n"
        "sys.modules['torch.distributed'] = group"
    )
    assert kernel.probe()["features"] == ["nccl"]
    kernel.run("group.is_initialized = lambda: False")
    assert kernel.probe()["features"] == []


def test_a_loop_that_closes_is_no_work() -> None:
    """Asyncio's own way of closing a loop, as after each of our requests, is not taken for the user's task."""
    loop = asyncio.new_event_loop()
    closing = loop.create_task(loop.shutdown_default_executor())
    agens = loop.create_task(loop.shutdown_asyncgens())
    try:
        assert not [task for task in background.tasks() if task["origin"].startswith("asyncio")]
        loop.run_until_complete(asyncio.gather(closing, agens))
    finally:
        loop.close()
