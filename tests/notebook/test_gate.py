"""A real ipykernel whose flag file says that its gate is closed, and clients that go past every server."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import KernelManager

from tests.notebook.fake_server import KERNEL_ID, FakeServer
from tests.notebook.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_client.blocking.client import BlockingKernelClient

WAKE = "POST", f"/kernels/{KERNEL_ID}/wake"
DEADLINE_S = 30
#: How long something is watched that must not happen: many times what it would take.
STILL_S = 0.3


class Kernel:
    """One kernel with its flag file and its server."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient, server: FakeServer, flag: Path) -> None:
        self.manager, self.client, self.server, self.flag = manager, client, server, flag
        self._closings = 0

    @contextmanager
    def closed(self) -> Iterator[None]:
        """The gate is closed inside the block."""
        self._closings += 1
        self.flag.parent.mkdir(exist_ok=True)
        self._write(interrupts=0)
        try:
            yield
        finally:
            self.flag.unlink(missing_ok=True)

    def interrupt(self) -> None:
        """As the server says it to what is held here."""
        self._write(interrupts=1)

    def _write(self, interrupts: int) -> None:
        """As the server writes it: nobody reads half of it."""
        unfinished = self.flag.with_suffix(".new")
        unfinished.write_text(f"{self._closings} {interrupts}")
        unfinished.replace(self.flag)

    def run(self, code: str) -> str:
        """What a cell printed."""
        printed: list[str] = []
        self.client.execute_interactive(
            code, timeout=DEADLINE_S, output_hook=lambda m: printed.append(m["content"].get("text", ""))
        )
        return "".join(printed)

    def reply(self, request: str) -> dict[str, Any]:
        """The reply's content on the shell channel."""
        while True:
            message = self.client.get_shell_msg(timeout=DEADLINE_S)
            if message["parent_header"].get("msg_id") == request:
                return dict(message["content"])

    def control(self, kind: str, content: dict[str, Any] | None = None) -> str:
        """Send a request on the control channel; its id."""
        message = self.client.session.msg(kind, content or {})
        self.client.control_channel.send(message)
        return str(message["header"]["msg_id"])

    def control_reply(self, request: str) -> dict[str, Any]:
        """The reply's content on the control channel."""
        while True:
            message = self.client.get_control_msg(timeout=DEADLINE_S)
            if message["parent_header"].get("msg_id") == request:
                return dict(message["content"])

    def woken(self) -> int:
        """How often the server was told that something is held."""
        return sum(seen.path.endswith("/wake") for seen in self.server.seen)


@pytest.fixture(scope="module", name="shared")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    flag = tmp_path_factory.mktemp("gates") / "here" / "kernel.closed"
    with FakeServer() as server:
        server.answers[WAKE] = 200, {}
        manager = KernelManager(kernel_name="python3")
        extra = {**server.environment, "GPUSHARE_GATE_FILE": str(flag)}
        manager.start_kernel(env={**os.environ, **extra}, extra_arguments=["--ext=jupyter_gpushare"])
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield Kernel(manager, client, server, flag)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()


@pytest.fixture
def kernel(shared: Kernel) -> Kernel:
    """The module's kernel, nothing run and nobody told."""
    shared.run("ran = []")
    shared.server.seen.clear()
    return shared


def test_a_cell_waits_until_the_flag_is_gone(kernel: Kernel) -> None:
    """A cell of a console does not run while the GPU state is away, and the server hears of it once."""
    with kernel.closed():
        request = kernel.client.execute("ran.append(1)")
        until(lambda: kernel.woken() == 1, "the wake-up")
        time.sleep(STILL_S)
        assert kernel.woken() == 1
        assert not kernel.client.shell_channel.msg_ready()
    assert kernel.reply(request)["status"] == "ok"
    assert kernel.run("print(ran)") == "[1]\n"


def test_a_server_that_fails_is_told_again(kernel: Kernel) -> None:
    """A cell does not wait for ever because the server was too busy to listen."""
    kernel.server.answers[WAKE] = 500, {}
    try:
        with kernel.closed():
            request = kernel.client.execute("1")
            until(lambda: kernel.woken() == 1, "the first try")
            kernel.server.answers[WAKE] = 200, {}
            until(lambda: kernel.woken() == 2, "the second try")
    finally:
        kernel.server.answers[WAKE] = 200, {}
    assert kernel.reply(request)["status"] == "ok"


def test_a_moment_of_openness_is_not_missed(kernel: Kernel) -> None:
    """A gate that opens and closes between two looks is a new closing: the server is told once more."""
    with kernel.closed():
        request = kernel.client.execute("1")
        until(lambda: kernel.woken() == 1, "the wake-up")
        kernel.flag.write_text("1000 1")
        until(lambda: kernel.woken() == 2, "the second one")
        assert not kernel.client.shell_channel.msg_ready()
    assert kernel.reply(request)["status"] == "ok"


def test_an_interrupt_aborts_what_is_held(kernel: Kernel) -> None:
    """A held cell that its owner interrupts is answered and never runs; what comes later is held."""
    with kernel.closed():
        request = kernel.client.execute("ran.append('aborted')")
        until(lambda: kernel.woken() == 1, "the wake-up")
        kernel.interrupt()
        assert kernel.reply(request) == {"status": "aborted"}
        later = kernel.client.execute("ran.append('later')")
    assert kernel.reply(later)["status"] == "ok"
    assert kernel.run("print(ran)") == "['later']\n"


def test_what_knows_nothing_is_answered(kernel: Kernel) -> None:
    """Completion, help and completeness are answered at once, without a look at the user's objects."""
    kernel.run("class Spy:\n def __dir__(self): ran.append('looked')\nspy = Spy()")
    with kernel.closed():
        assert kernel.client.complete("spy.", 4, reply=True, timeout=DEADLINE_S)["content"]["matches"] == []
        assert kernel.client.inspect("spy", 3, reply=True, timeout=DEADLINE_S)["content"]["found"] is False
        assert kernel.reply(kernel.client.is_complete("if True:")) == {"status": "unknown"}
        for kind in ("complete_request", "inspect_request"):
            request = kernel.control(kind, {"code": "spy.", "cursor_pos": 4})
            assert kernel.control_reply(request)["status"] == "ok"
    assert kernel.woken() == 0
    assert kernel.run("print(ran)") == "[]\n"


def test_what_harms_nothing_passes(kernel: Kernel) -> None:
    """What a new client asks first is answered from a parked kernel."""
    with kernel.closed():
        assert kernel.client.kernel_info(reply=True, timeout=DEADLINE_S)["content"]["status"] == "ok"
        assert kernel.client.comm_info(reply=True, timeout=DEADLINE_S)["content"]["status"] == "ok"
        assert kernel.client.history(reply=True, timeout=DEADLINE_S)["content"]["status"] == "ok"
        assert kernel.control_reply(kernel.control("kernel_info_request"))["status"] == "ok"
    assert kernel.woken() == 0


def test_the_control_channel_is_no_way_in(kernel: Kernel) -> None:
    """Cells and the debugger wait there too, in their order, while the channel goes on for everything else."""
    ask = {"type": "request", "seq": 1, "command": "evaluate", "arguments": {"expression": "ran.append('debugged')"}}
    switch_on = {"type": "request", "seq": 3, "command": "initialize", "arguments": {}}
    with kernel.closed():
        cell = kernel.control("execute_request", {"code": "ran.append('control')", "silent": True})
        started = kernel.control("debug_request", switch_on)
        assert kernel.control_reply(kernel.control("debug_request", ask))["success"] is False
        until(lambda: kernel.woken() > 0, "the wake-up")
        assert kernel.control_reply(kernel.control("list_subshell_request"))["status"] == "ok"
        info = kernel.control("debug_request", {"type": "request", "seq": 2, "command": "debugInfo"})
        assert kernel.control_reply(info)["success"] is True
        time.sleep(STILL_S)
        assert not kernel.client.control_channel.msg_ready()
    assert kernel.control_reply(cell)["status"] == "ok"
    assert kernel.control_reply(started)["success"] is True
    assert kernel.run("print(ran)") == "['control']\n"


def test_a_subshell_waits_too(kernel: Kernel) -> None:
    """A cell in a subshell, which has a thread of its own, is held like one in the main shell."""
    side = kernel.control_reply(kernel.control("create_subshell_request"))["subshell_id"]
    with kernel.closed():
        content = {"code": "ran.append('side')", "silent": False, "store_history": False}
        message = kernel.client.session.msg("execute_request", content)
        message["header"]["subshell_id"] = side
        kernel.client.shell_channel.send(message)
        until(lambda: kernel.woken() == 1, "the wake-up")
        time.sleep(STILL_S)
        assert not kernel.client.shell_channel.msg_ready()
        assert kernel.client.kernel_info(reply=True, timeout=DEADLINE_S)["content"]["status"] == "ok"
    assert kernel.reply(message["header"]["msg_id"])["status"] == "ok"
    assert kernel.run("print(ran)") == "['side']\n"


def test_a_flag_whose_directory_is_gone_is_no_flag(kernel: Kernel) -> None:
    """If the server is gone with all it had, nobody would ever open the gate: it is open."""
    with kernel.closed():
        request = kernel.client.execute("1")
        until(lambda: kernel.woken() == 1, "the wake-up")
        shutil.rmtree(kernel.flag.parent)
        assert kernel.reply(request)["status"] == "ok"
    assert kernel.run("print(1)") == "1\n"


def test_another_check_is_asked_as_well(kernel: Kernel) -> None:
    """Whoever stood before the handlers already still does, asynchronous or not; leaving gives its place back."""
    code = (
        "import asyncio\n"
        "kernel = get_ipython().kernel\n"
        "%unload_ext jupyter_gpushare\n"
        "async def theirs(stream, message, idents):\n"
        "    ran.append(message['header']['msg_type'])\n"
        "    return True\n"
        "kernel.should_handle = theirs\n"
        "%load_ext jupyter_gpushare\n"
        "print(kernel.should_handle is theirs)"
    )
    assert kernel.run(code) == "False\n"
    with kernel.closed():
        request = kernel.client.execute("ran.append('cell')")
        until(lambda: kernel.woken() == 1, "the wake-up")
    kernel.reply(request)
    assert kernel.run("print(ran)") == "['execute_request', 'cell', 'execute_request']\n"
    undo = "%unload_ext jupyter_gpushare\nprint(kernel.should_handle is theirs)\ndel kernel.should_handle"
    assert kernel.run(undo + "\n%load_ext jupyter_gpushare") == "True\n"
