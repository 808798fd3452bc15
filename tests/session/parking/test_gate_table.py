"""The gate's whole table before a kernel that is really parked: what passes, what is answered, what waits, what wakes."""

from __future__ import annotations

from typing import Any

import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient

from jupyter_gpushare.notebook import gate as inside
from jupyter_gpushare.session.gate import treatment
from jupyter_gpushare.session.gate.answers import empty_answer, reply_type
from jupyter_gpushare.session.gate.treatment import Treatment
from tests.session.parking.conftest import CHECK, HOLD
from tests.session.parking.preflight_row import STAYS, child

PASS, ANSWER, HOLDS, WAKES = Treatment
Row = tuple[str, str]  # the channel, and the message's type or the debugger's command
CELL = {"code": CHECK, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
NOBODY = "no such comm"
#: By treatment: each row of the table with a content that means something to the kernel.
QUIET: dict[Treatment, dict[Row, dict[str, Any]]] = {
    PASS: {
        ("shell", "kernel_info_request"): {},
        ("shell", "comm_info_request"): {},
        ("shell", "connect_request"): {},
        ("shell", "history_request"): {"hist_access_type": "tail", "n": 1, "output": False, "raw": True},
        ("control", "kernel_info_request"): {},
        ("control", "connect_request"): {},
        ("control", "interrupt_request"): {},
        ("control", "usage_request"): {},
        ("control", "create_subshell_request"): {},
        ("control", "list_subshell_request"): {},
        ("control", "delete_subshell_request"): {"subshell_id": "no such subshell"},
        ("debug", "debugInfo"): {},
        ("stdin", "input_reply"): {"value": "nobody asked"},
    },
    ANSWER: {
        ("shell", "complete_request"): {"code": "weights.", "cursor_pos": 8},
        ("shell", "inspect_request"): {"code": "weights", "cursor_pos": 7, "detail_level": 0},
        ("shell", "is_complete_request"): {"code": "if weights:"},
        ("debug", "evaluate"): {"expression": "weights.checksum()"},
        ("debug", "inspectVariables"): {},
        ("debug", "richInspectVariables"): {"variableName": "weights"},
        ("debug", "variables"): {"variablesReference": 1},
        ("debug", "modules"): {},
        ("debug", "scopes"): {"frameId": 1},
        ("debug", "source"): {"source": {"path": "nowhere"}},
        ("debug", "stackTrace"): {"threadId": 1},
    },
    HOLDS: {
        ("shell", "comm_close"): {"comm_id": NOBODY, "data": {}},
        ("debug", "dumpCell"): {"code": "weights"},
        ("debug", "setBreakpoints"): {"source": {"path": "nowhere"}, "breakpoints": []},
        ("debug", "setExceptionBreakpoints"): {"filters": []},
    },
}
#: What is not in the table is of unknown effect, or the owner's wish.
WAKING: dict[Row, dict[str, Any]] = {
    ("shell", "execute_request"): CELL,
    ("control", "execute_request"): CELL,
    ("shell", "comm_msg"): {"comm_id": "a click", "data": {"method": "custom", "content": {}}},
    ("debug", "initialize"): {"adapterID": "", "clientID": "", "linesStartAt1": True},
}


class Sends:
    """Sends rows of the table from a page, and knows what became of them."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.sent: dict[Row, tuple[str, dict[str, Any]]] = {}

    def __call__(self, row: Row, content: dict[str, Any]) -> str:
        channel, kind = row
        if channel == "debug":
            content = {"type": "request", "seq": len(self.sent) + 1, "command": kind, "arguments": content}
            channel, kind = "control", "debug_request"
        self.sent[row] = self.page.send(kind, content, channel), content
        return self.sent[row][0]

    def reply(self, row: Row) -> Any:
        """What came in answer to that row, None while nothing did."""
        kind = "debug_request" if row[0] == "debug" else row[1]
        replies = self.page.answers(self.sent[row][0], reply_type(kind))
        return replies[0] if replies else None


@pytest.fixture(name="parked")
def _parked(park: Any, session: Any, machine: Any) -> Any:
    """Parks a kernel, and gives what shows that it still is."""

    async def parked(kernel_id: str) -> Any:
        assert (released := await park(kernel_id))["status"] == "released", released
        record = session.parking.parkings.of(kernel_id)
        parks = record.parks

        def still() -> bool:
            return (record.status, record.target, record.parks) == ("parked", "parked", parks) and bool(
                machine.occupancy.parked()
            )

        assert still()
        return still

    return parked


async def test_every_quiet_row_leaves_a_kernel_parked(
    start_kernel: Any, run: Any, page_of: Any, until: Any, session: Any, parked: Any
) -> None:
    """Lab's own traffic, the debugger's at each Tab included, is dealt with by its row and takes no GPU back."""
    kernel_id = await start_kernel()
    assert (await run(kernel_id, HOLD))["status"] == "ok"
    send = Sends(await page_of(kernel_id))
    send(("debug", "initialize"), WAKING["debug", "initialize"])
    assert (await until(lambda: send.reply(("debug", "initialize"))))["success"] is True
    still = await parked(kernel_id)
    gate = session.parking.gates.of(kernel_id)
    for row, content in QUIET[PASS].items():
        send(row, content)
        if row[0] != "stdin":
            reply = await until(lambda row=row: send.reply(row))
            assert reply.get("success", row[1] != "debugInfo"), (row, reply)
            assert still(), row
    for row, content in QUIET[ANSWER].items():
        send(row, content)
        kind = "debug_request" if row[0] == "debug" else row[1]
        assert await until(lambda row=row: send.reply(row)) == empty_answer(kind, send.sent[row][1]), row
    for row, content in QUIET[HOLDS].items():
        send(row, content)
    await until(lambda: len(gate._queue) == len(QUIET[HOLDS]))
    assert not any(send.reply(row) for row in QUIET[HOLDS])
    assert (still(), gate.held) == (True, 0)
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    for row in (row for row in QUIET[HOLDS] if row[0] == "debug"):
        assert (await until(lambda row=row: send.reply(row)))["command"] == row[1]


async def test_every_waking_row_brings_a_kernel_back(
    start_kernel: Any, run: Any, page_of: Any, until: Any, session: Any, parked: Any
) -> None:
    """A cell on either channel, a click and switching the debugger on wait, wake, and then do their work."""
    kernel_id = await start_kernel()
    open_comm = "from comm import get_comm_manager\nclicks = []\n"
    take = "get_comm_manager().register_target('clicks', lambda comm, _: comm.on_msg(clicks.append))"
    assert (await run(kernel_id, f"{HOLD}{open_comm}{take}"))["status"] == "ok"
    send = Sends(await page_of(kernel_id))
    send.page.send("comm_open", {"comm_id": "a click", "target_name": "clicks", "data": {}})
    record = session.parking.parkings.of(kernel_id)
    for row, content in WAKING.items():
        await run(kernel_id, "pass")
        await parked(kernel_id)
        send(row, content)
        if row[1] != "comm_msg":
            reply = await until(lambda row=row: send.reply(row))
            assert "ok" in (reply.get("status"), reply.get("success") and "ok"), (row, reply)
        await until(lambda: record.status == "running")
        assert (await run(kernel_id, CHECK))["status"] == "ok", row
    assert (await run(kernel_id, "assert len(clicks) == 1"))["status"] == "ok"
    assert record.parks == len(WAKING)


async def test_an_interrupt_from_a_page_reaches_no_parked_child(
    start_kernel: Any, run: Any, page_of: Any, until: Any, parked: Any
) -> None:
    """Nothing runs that could be interrupted, and a signal would end a child whose GPU state is away, for nothing."""
    kernel_id = await start_kernel()
    assert (reply := await run(kernel_id, HOLD + child(STAYS)))["status"] == "ok", reply
    still = await parked(kernel_id)
    page = await page_of(kernel_id)
    asked = page.send("interrupt_request", {}, "control")
    assert (await until(lambda: page.answers(asked, "interrupt_reply"))) == [{"status": "ok"}]
    assert still()
    alive = f"{CHECK}\nimport time; time.sleep(0.2)\nassert child.poll() is None, child.returncode"
    assert (reply := await run(kernel_id, alive))["status"] == "ok", reply


async def test_a_client_that_bypasses_the_server_meets_the_same_rows(
    start_kernel: Any, run: Any, until: Any, session: Any, parked: Any, jp_serverapp: Any
) -> None:
    """A console on the kernel's own ports: the debugger's looks are answered and wake nothing; switching it on does."""
    kernel_id = await start_kernel()
    assert (await run(kernel_id, HOLD))["status"] == "ok"
    client = AsyncKernelClient(connection_file=jp_serverapp.kernel_manager.get_kernel(kernel_id).connection_file)
    client.load_connection_file()
    client.start_channels()

    async def debug(command: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        content = {"type": "request", "seq": 1, "command": command, "arguments": arguments}
        client.control_channel.send(client.session.msg("debug_request", content))
        return content, (await client.get_control_msg(timeout=30))["content"]

    try:
        await client.wait_for_ready(timeout=60)
        still = await parked(kernel_id)
        for (channel, command), arguments in QUIET[ANSWER].items():
            if channel == "debug":
                asked, reply = await debug(command, arguments)
                assert reply == empty_answer("debug_request", asked), command
        assert (await debug("debugInfo", {}))[1]["success"] is True
        assert still()
        assert (await debug("initialize", WAKING["debug", "initialize"]))[1]["success"] is True
        await until(lambda: session.parking.parkings.of(kernel_id).status == "running")
    finally:
        client.stop_channels()
    assert (await run(kernel_id, CHECK))["status"] == "ok"


def test_no_row_is_forgotten() -> None:
    """A row that is new in the gate's table, or is treated otherwise, fails here until a parked kernel was sent it."""
    table = {(channel, kind): how for channel, rows in treatment._TABLE.items() for kind, how in rows.items()}
    table |= {("debug", command): how for command, how in treatment._DEBUGGER.items()}
    assert {row: how for how, rows in QUIET.items() for row in rows} == table


def test_both_gates_have_one_table() -> None:
    """The gate inside the kernel passes and answers what the server's does: a client must not meet another one there."""
    passed = {kind for channel, kind in QUIET[PASS] if channel == "shell"}
    answered = {kind for channel, kind in QUIET[ANSWER] if channel == "shell"}
    looks = {command for channel, command in QUIET[ANSWER] if channel == "debug"}
    assert (set(inside._PASS), set(inside._EMPTY), set(inside._DEBUGGER_LOOKS)) == (passed, answered, looks)
