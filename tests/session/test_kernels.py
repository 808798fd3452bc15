"""What a kernel is doing, as its messages tell it: hostile ones, several cells at once, deaths and restarts."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from tests.session.conftest import API
from tests.session.fake_source import GIB

WAIT = "import threading; threading.Event().wait(60)"


def send(stream: Any, manager: Any, kind: str, content: Any, *, parent: Any = None, topic: bytes = b"") -> None:
    """Hand a message to the server as if it had come from the kernel's IOPub socket."""
    session = manager.session
    # As JSON in ASCII, so that even what is no valid Unicode gets through, as it does from a kernel.
    message = session.msg(kind, content=json.dumps(content).encode(), parent=parent)
    stream._recv_callback([topic or f"kernel.x.{kind}".encode(), *session.serialize(message)])


async def test_hostile_messages_do_not_stall_jupyters_own_tracking(
    jp_serverapp: Any, start_kernel: Any, client_of: Any, until: Any
) -> None:
    """Whatever a kernel sends, Jupyter goes on knowing whether it is busy."""
    kernel_id = await start_kernel()
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    stream = manager._activity_stream
    request = manager.session.msg("execute_request")["header"]
    openings: list[Any] = [{"data": None}, {"data": []}, {"data": {"state": 5}}, {}, {"comm_id": 5}]
    inputs: list[Any] = [{"code": 5}, {}, []]
    for content in openings:
        send(stream, manager, "comm_open", content, topic=f"comm-{content}".encode())
    for content in inputs:
        send(stream, manager, "execute_input", content, parent=request)
        send(stream, manager, "execute_input", content, parent={"msg_type": "execute_request", "msg_id": None})
    client_of(kernel_id).execute("1 + 1")
    await until(lambda: manager.execution_state == "busy" or manager.last_activity)
    await until(lambda: manager.execution_state == "idle")


async def test_a_lone_surrogate_breaks_no_answer(api: Any, jp_serverapp: Any, session: Any, start_kernel: Any) -> None:
    """Text that is no valid Unicode is replaced, not sent on to break every frame."""
    kernel_id = await start_kernel()
    session.kernels.get(kernel_id).path = "x"
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    parent = manager.session.msg("execute_request")["header"]
    send(manager._activity_stream, manager, "execute_input", {"code": "print('\ud800')"}, parent=parent)
    (row,) = (await api("session"))["kernels"]
    assert row["running"] == "print('?')"


async def test_the_end_of_one_cell_is_not_the_end_of_another(
    jp_serverapp: Any, session: Any, start_kernel: Any
) -> None:
    """A subshell's idle leaves the main shell's running cell busy, and named."""
    kernel_id = await start_kernel()
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    main, side = (manager.session.msg("execute_request")["header"] for _ in range(2))
    stream = manager._activity_stream
    for parent, code in ((main, "model.fit()"), (side, "1 + 1")):
        send(stream, manager, "status", {"execution_state": "busy"}, parent=parent)
        send(stream, manager, "execute_input", {"code": code}, parent=parent)
    send(stream, manager, "status", {"execution_state": "idle"}, parent=side)
    kernel = session.kernels.get(kernel_id)
    assert kernel.running == "model.fit()"
    send(stream, manager, "status", {"execution_state": "idle"}, parent=main)
    assert kernel.busy_since is None


async def test_asking_us_is_not_running_a_cell(jp_serverapp: Any, session: Any, start_kernel: Any) -> None:
    """`%gpushare` is not told that it is itself the running cell; a cell that does more is."""
    kernel_id = await start_kernel()
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    for code, is_busy in (("%gpushare\n", False), ("%gpushare release --kernel", False), ("%gpushare\ntrain()", True)):
        parent = manager.session.msg("execute_request")["header"]
        send(manager._activity_stream, manager, "status", {"execution_state": "busy"}, parent=parent)
        send(manager._activity_stream, manager, "execute_input", {"code": code}, parent=parent)
        assert bool(session.kernels.get(kernel_id).cells) is is_busy


async def test_a_crashed_kernel_runs_nothing(
    jp_serverapp: Any, session: Any, start_kernel: Any, client_of: Any, until: Any
) -> None:
    """After a crash and the automatic restart the dead process's cell is not shown as running."""
    kernel_id = await start_kernel()
    client_of(kernel_id).execute(WAIT)
    await until(lambda: session.kernels.get(kernel_id).running)
    dead, manager = session.kernels.pid(kernel_id), jp_serverapp.kernel_manager.get_kernel(kernel_id)
    os.kill(dead, signal.SIGKILL)
    await until(lambda: not session.kernels.get(kernel_id).cells)
    # jupyter_client (8.10) cannot shut a kernel down in the middle of its restart, which the end of the test does.
    await until(lambda: session.kernels.pid(kernel_id) not in (None, dead) and manager.ready.done())


async def test_a_token_dies_with_its_kernel(jp_serverapp: Any, session: Any, start_kernel: Any) -> None:
    """As soon as a kernel has ended nobody can speak for it, and what it reported is forgotten."""
    kernel_id = await start_kernel()
    token = next(token for token, owner in session.tokens._kernels.items() if owner == kernel_id)
    session._reports[kernel_id] = GIB
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id)
    assert session.tokens.kernel_of(token) is None
    assert session._reports == {}


async def test_a_renamed_notebook_is_renamed_here(api: Any, jp_serverapp: Any, start_kernel: Any) -> None:
    """The row follows the notebook's name."""
    await start_kernel("before.ipynb")
    (model,) = await jp_serverapp.session_manager.list_sessions()
    await jp_serverapp.session_manager.update_session(model["id"], path="after.ipynb")
    (row,) = (await api("session"))["kernels"]
    assert row["path"] == "after.ipynb"


async def test_a_watcher_that_does_not_read_costs_no_memory(jp_ws_fetch: Any, session: Any, until: Any) -> None:
    """While an earlier frame is still on its way to a stalled tab, newer ones are dropped, not piled up."""
    socket = await jp_ws_fetch(*API, "stream")
    (watcher,) = session._watchers
    sent: list[str] = []

    class Stalled:
        def done(self) -> bool:
            return False

    await socket.read_message()
    watcher._written = Stalled()
    watcher.write_message = sent.append
    reads = session.meter._source.reads
    await until(lambda: session.meter._source.reads > reads + 3)
    assert sent == []
    socket.close()
