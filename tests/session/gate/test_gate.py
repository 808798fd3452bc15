"""The gate before a real kernel, as a page sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.session.gate.conftest import V1, frame_of

if TYPE_CHECKING:
    from jupyter_gpushare.session.gate.gate import Gate

both_protocols = pytest.mark.parametrize("protocol", [V1, ""], ids=["v1", "legacy"])


async def closed(gates: Any, kernel_id: str) -> Gate:
    """The gate of an idle kernel, closed as for a park."""
    gate: Gate = gates.of(kernel_id)
    await gate.close()
    await gate.barrier(20)
    return gate


@both_protocols
async def test_fifty_cells_wait_and_run_in_order(gates: Any, woken: Any, start_kernel: Any, open_page: Any) -> None:
    """Cells that were sent while the gate was closed run when it opens, in the order of the keys pressed."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    await page.reply(page.execute("ran = []"))
    gate = await closed(gates, kernel_id)
    cells = [page.execute(f"ran.append({number}); print(ran[-1])") for number in range(50)]
    await page.until(lambda: gate.held == 50)
    assert woken == [kernel_id] * 50
    await page.until(lambda: page.states(cells[-1]) == ["busy"])
    assert not page.answers(cells[0], "execute_reply")
    gate.open()
    assert await page.printed(page.execute("print(ran == list(range(50)))")) == "True\n"
    assert [await page.printed(cell) for cell in cells] == [f"{number}\n" for number in range(50)]


async def test_an_open_gate_changes_nothing(gates: Any, woken: Any, start_kernel: Any, open_page: Any) -> None:
    """Before a park nobody notices the gate: no state is made up, nothing wakes."""
    page = await open_page(await start_kernel())
    cell = page.execute("print(1)")
    assert await page.printed(cell) == "1\n"
    assert page.states(cell) == ["busy", "idle"]
    assert woken == []


@both_protocols
async def test_an_interrupt_aborts_held_cells(gates: Any, jp_serverapp: Any, start_kernel: Any, open_page: Any) -> None:
    """Cells that are interrupted while they wait are answered at once, and never run."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    cells = [page.execute("print('ran')") for _ in range(3)]
    click = page.send("comm_msg", {"comm_id": "c", "data": {"method": "custom", "content": {}}})
    await page.until(lambda: gate.held == 4)
    await jp_serverapp.kernel_manager.interrupt_kernel(kernel_id)
    assert [(await page.reply(cell))["status"] for cell in cells] == ["aborted"] * 3
    assert gate.held == 1
    gate.open()
    await page.until(lambda: page.states(click)[-1:] == ["idle"])
    assert await page.printed(page.execute("print('after')")) == "after\n"
    assert not any(page.answers(cell, "stream") for cell in cells)


async def test_an_interrupt_reaches_a_cell_that_runs_on_behind_the_closed_gate(
    gates: Any, jp_serverapp: Any, start_kernel: Any, open_page: Any
) -> None:
    """Until the barrier has shown that nothing runs, the owner can stop what does."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    cell = page.execute("print('begun', flush=True)\nimport time\nwhile True: time.sleep(0.01)")
    await page.until(lambda: page.answers(cell, "stream"))
    await gates.of(kernel_id).close()
    await jp_serverapp.kernel_manager.interrupt_kernel(kernel_id)
    assert (await page.reply(cell))["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("bare", [False, True], ids=["with our part", "without"])
async def test_a_restart_drops_what_is_held(
    gates: Any, jp_serverapp: Any, start_kernel: Any, open_page: Any, *, bare: bool
) -> None:
    """A new process begins with nothing, and at once; the old one is ended plainly."""
    kernel_id = await start_kernel(bare=bare)
    page = await open_page(kernel_id)
    await page.reply(page.execute(f"import atexit; atexit.register(open, {str(gates._directory / 'left')!r}, 'w')"))
    gate = await closed(gates, kernel_id)
    page.execute("print('of the old process')")
    await page.until(lambda: gate.held)
    await jp_serverapp.kernel_manager.restart_kernel(kernel_id)
    assert gate.is_open
    # As Lab does: what the old page listens to connects anew in its own time, and until then it hears no broadcast.
    again = await open_page(kernel_id)
    assert await again.printed(again.execute("print('new')")) == "new\n"
    seen = [*page.seen, *again.seen]
    assert not [m for m in seen if m["msg_type"] == "stream" and "old" in m["content"]["text"]]
    assert not (gates._directory / "left").exists()


async def test_a_crash_drops_what_is_held(
    gates: Any, jp_serverapp: Any, start_kernel: Any, open_page: Any, pid_of: Any
) -> None:
    """Jupyter starts a crashed kernel anew; nothing stays closed before the new process."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    page.execute("print('of the old process')")
    await page.until(lambda: gate.held)
    os.kill(pid_of(kernel_id), signal.SIGKILL)
    await page.until(lambda: gate.is_open)
    assert gate.held == 0


@pytest.mark.parametrize("bare", [False, True], ids=["with our part", "without"])
async def test_a_shutdown_is_plain_and_forgets(
    gates: Any, jp_serverapp: Any, start_kernel: Any, open_page: Any, *, bare: bool
) -> None:
    """A kernel behind a closed gate does not run its own way out, and leaves no flag."""
    kernel_id = await start_kernel(bare=bare)
    page = await open_page(kernel_id)
    await page.reply(page.execute(f"import atexit; atexit.register(open, {str(gates._directory / 'left')!r}, 'w')"))
    gate = await closed(gates, kernel_id)
    page.execute("1")
    await page.until(lambda: gate.held)
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id)
    assert list(gates._directory.iterdir()) == []
    assert not gates.can_gate(kernel_id)
    with pytest.raises(KeyError):
        gates.of(kernel_id)


@both_protocols
@pytest.mark.parametrize("others", [0, 1], ids=["last page", "one of two"])
async def test_a_closed_tab_loses_nothing(
    gates: Any, start_kernel: Any, open_page: Any, others: int, until: Any
) -> None:
    """A held cell runs although its page has gone."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    remaining = [await open_page(kernel_id) for _ in range(others)]
    gate = await closed(gates, kernel_id)
    ran = gates._directory / "ran"
    for number in range(5):
        page.execute(f"with open({str(ran)!r}, 'a') as file: file.write('{number}')")
    await page.until(lambda: gate.held == 5)
    await page.close()
    assert gate.held == 5
    gate.open()
    await until(lambda: ran.exists() and ran.read_text() == "01234")
    assert [await other.printed(other.execute("print(1)")) for other in remaining] == ["1\n"] * others


async def test_a_reloaded_page_gets_its_cells_results(gates: Any, start_kernel: Any, open_page: Any) -> None:
    """A cell that waits during a reload of its page is answered there, and so is one that comes after."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    runs = page.execute("print('ran')")
    await page.until(lambda: gate.held == 1)
    await page.close()
    again = await open_page(kernel_id, page.session)
    later = again.execute("print('later')")
    await again.until(lambda: gate.held == 2)
    gate.open()
    assert await again.printed(runs) == "ran\n"
    assert await again.printed(later) == "later\n"


async def test_a_reloaded_page_hears_of_an_abort(gates: Any, start_kernel: Any, open_page: Any) -> None:
    """A cell that was sent before a reload and interrupted after it is answered on the new page."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    cell = page.execute("print('ran')")
    await page.until(lambda: gate.held == 1)
    await page.close()
    again = await open_page(kernel_id, page.session)
    gate.abort()
    assert (await again.reply(cell))["status"] == "aborted"


@both_protocols
async def test_a_page_that_loads_does_not_wake(gates: Any, woken: Any, start_kernel: Any, open_page: Any) -> None:
    """What Lab sends while it loads a notebook takes no GPU back, and the page shows an idle kernel."""
    kernel_id = await start_kernel()
    gate = await closed(gates, kernel_id)
    page = await open_page(kernel_id)
    info = page.send("kernel_info_request", {})
    history = page.send("history_request", {"hist_access_type": "tail", "n": 1, "output": False, "raw": True})
    page.send("comm_open", {"comm_id": "loading", "target_name": "jupyter.widget.control", "data": {}})
    page.send("comm_msg", {"comm_id": "loading", "data": {"method": "request_states"}})
    page.send("comm_msg", {"comm_id": "slider", "data": {"method": "request_state"}})
    page.send("comm_msg", {"comm_id": "slider", "data": {"method": "update", "state": {"_view_count": 1}}})
    page.send("comm_close", {"comm_id": "loading", "data": {}})
    page.send("debug_request", {"type": "request", "seq": 1, "command": "debugInfo"}, channel="control")
    comms = page.send("comm_info_request", {})
    assert (await page.reply(comms))["status"] == "ok"
    assert (await page.reply(history))["status"] == "ok"
    await page.until(lambda: page.states(info) == ["busy", "idle", "idle"])
    assert woken == []
    assert gate.held == 0


@both_protocols
async def test_completion_is_answered_empty(gates: Any, woken: Any, start_kernel: Any, open_page: Any) -> None:
    """Tab and hover get an answer at once, which knows nothing; a waiting cell's state is shown again after it."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    await page.reply(page.execute("class Spy:\n def __dir__(self): print('looked at')\nspy = Spy()"))
    await closed(gates, kernel_id)
    cell = page.execute("1")
    complete = page.send("complete_request", {"code": "spy.", "cursor_pos": 4})
    inspect = page.send("inspect_request", {"code": "spy", "cursor_pos": 3, "detail_level": 0})
    is_complete = page.send("is_complete_request", {"code": "if True:"})
    assert await page.reply(complete) == {
        "status": "ok", "matches": [], "cursor_start": 4, "cursor_end": 4, "metadata": {},
    }  # fmt: skip
    assert (await page.reply(inspect))["found"] is False
    ask = {"type": "request", "seq": 7, "command": "evaluate", "arguments": {"expression": "dir(spy)"}}
    debugger = await page.reply(page.send("debug_request", ask, channel="control"))
    assert (debugger["success"], debugger["request_seq"], debugger["command"]) == (False, 7, "evaluate")
    assert (await page.reply(is_complete))["status"] == "unknown"
    await page.until(lambda: page.states(cell) == ["busy"] * 5)
    assert woken == [kernel_id]


async def test_our_own_widget_wakes_nobody_but_the_users_does(
    gates: Any, woken: Any, start_kernel: Any, open_page: Any, until: Any
) -> None:
    """A page that shows our live card takes no GPU back; a click on the user's button does, and then works."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    code = (
        "from comm import create_comm\n"
        "own = create_comm('jupyter.widget', data={'state': {'_anywidget_id': 'jupyter_gpushare.x'}})\n"
        "user = create_comm('jupyter.widget', data={'state': {}})\n"
        "user.on_msg(lambda message: print('clicked'))\n"
        "print(own.comm_id, user.comm_id)"
    )
    own, user = (await page.printed(page.execute(code))).split()
    gate = gates.of(kernel_id)
    await until(lambda: own in gate._quiet_comms)
    await closed(gates, kernel_id)
    page.send("comm_msg", {"comm_id": own, "data": {"method": "custom", "content": {}}})
    click = page.send("comm_msg", {"comm_id": user, "data": {"method": "custom", "content": {}}})
    await page.until(lambda: woken)
    assert gate.held == 1
    gate.open()
    await page.until(lambda: page.states(click)[-1:] == ["idle"])
    assert page.answers(click, "stream")[0]["content"]["text"] == "clicked\n"


async def test_a_second_page_sees_that_a_cell_waits(gates: Any, start_kernel: Any, open_page: Any) -> None:
    """Every page of a kernel shows it busy as soon as one holds a cell."""
    kernel_id = await start_kernel()
    page, other = await open_page(kernel_id), await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    cell = page.execute("1")
    await other.until(lambda: other.states(cell) == ["busy"])
    gate.open()
    await other.until(lambda: other.states(cell)[-1] == "idle")


async def test_a_frozen_kernels_page_opens_at_once(
    gates: Any, jp_serverapp: Any, start_kernel: Any, open_page: Any, frozen: Any
) -> None:
    """A stopped kernel is answered for: its page opens and shows it idle; afterwards everything works."""
    kernel_id = await start_kernel()
    gate = await closed(gates, kernel_id)
    gate.answer_for_frozen(frozen=True)
    with frozen(kernel_id):
        page = await asyncio.wait_for(open_page(kernel_id), 10)
        info = page.send("kernel_info_request", {})
        assert (await page.reply(info))["implementation"] == "ipython"
        history = page.send("history_request", {"hist_access_type": "tail", "n": 1, "output": False, "raw": True})
        cell = page.execute("print('thawed')")
        await page.until(lambda: gate.held == 1)
    gate.open()
    assert await page.printed(cell) == "thawed\n"
    assert (await page.reply(history))["status"] == "ok"


async def test_another_extensions_connection_is_gated_too(
    gates: Any, woken: Any, jp_serverapp: Any, start_kernel: Any, open_page: Any
) -> None:
    """An extension that loads later and puts its own class there gets the gate before it, once."""
    from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

    class Theirs(ZMQChannelsWebsocketConnection):
        pass

    settings = jp_serverapp.web_app.settings
    settings["kernel_websocket_connection_class"] = Theirs
    gates.confirm_installed()
    first = settings["kernel_websocket_connection_class"]
    gates.confirm_installed()
    gates.install()
    assert settings["kernel_websocket_connection_class"] is first
    assert issubclass(first, Theirs)
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    cell = page.execute("print(1)")
    await page.until(lambda: gate.held == 1)
    gate.open()
    assert await page.printed(cell) == "1\n"


async def test_small_messages_leave_at_once(gates: Any, start_kernel: Any, open_page: Any) -> None:
    """Nagle's algorithm is off on every kernel's WebSocket: quick successive cells do not wait for it."""
    kernel_id = await start_kernel()
    await open_page(kernel_id)
    (connection,) = gates.of(kernel_id).pages
    socket_ = connection.websocket_handler.ws_connection.stream.socket
    assert socket_.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_garbage_is_no_way_around_the_gate(gates: Any, woken: Any, start_kernel: Any, open_page: Any) -> None:
    """A message whose parts make no sense is held like any of unknown effect, and harms nobody."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    garbage = [b"[]", b"{", b"5", b"null"]
    page.socket.write_message(frame_of(garbage, "shell"), binary=True)
    page.send("no_such_request", {})
    page.send("execute_request", {"code": "1"}, channel="control")
    await page.until(lambda: gate.held == 3)
    gate.open()
    assert await page.printed(page.execute("print(1)")) == "1\n"


async def test_what_the_server_does_not_allow_is_not_held(
    gates: Any, jp_serverapp: Any, start_kernel: Any, open_page: Any
) -> None:
    """An admin's list of allowed messages holds behind a closed gate too."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    jp_serverapp.kernel_manager.allowed_message_types = ["kernel_info_request"]
    page.execute("1")
    await page.reply(page.send("kernel_info_request", {}))
    assert gate.held == 0


async def test_an_ending_is_prepared(gates: Any, jp_serverapp: Any, start_kernel: Any) -> None:
    """Before a process ends, by whomever, its GPU state can be seen to; trouble there does not keep it alive."""
    told: list[str] = []

    async def before_end(kernel_id: str) -> bool:
        told.append(kernel_id)
        raise RuntimeError("no")

    gates._before_end = before_end
    kernel_id = await start_kernel()
    await jp_serverapp.kernel_manager.restart_kernel(kernel_id)
    await jp_serverapp.kernel_manager.shutdown_all()
    assert told == [kernel_id] * 2
    assert kernel_id not in jp_serverapp.kernel_manager


async def test_the_gate_needs_no_part_inside_the_kernel(
    gates: Any, woken: Any, start_kernel: Any, open_page: Any
) -> None:
    """A kernel without anything of ours in it is answered for and held by the server alone."""
    kernel_id = await start_kernel(bare=True)
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    cell = page.execute("print('ran')")
    await page.reply(page.send("kernel_info_request", {}))
    assert gate.held == 1
    assert woken == [kernel_id]
    assert not page.answers(cell, "stream")
    gate.open()
    assert await page.printed(cell) == "ran\n"
