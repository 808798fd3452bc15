"""After the barrier nothing runs: shown on real kernels, with cells sent at the worst moment."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient

from jupyter_gpushare.session.gate.gate import BarrierFailed
from tests.session.gate.test_gate import closed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

ROUNDS = 100  # `make soak` has thousands


@pytest.fixture(name="console")
def _console(jp_serverapp: Any) -> Iterator[Callable[[str], Awaitable[AsyncKernelClient]]]:
    """A client from the connection file, as ``jupyter console --existing`` is; the server does not see it."""
    clients: list[AsyncKernelClient] = []

    async def console(kernel_id: str) -> AsyncKernelClient:
        client = AsyncKernelClient()
        client.load_connection_file(jp_serverapp.kernel_manager.get_kernel(kernel_id).connection_file)
        client.start_channels()
        clients.append(client)
        await client.wait_for_ready(timeout=60)
        return client

    yield console
    for client in clients:
        client.stop_channels()


async def test_the_barrier_waits_for_a_cell_that_is_running(gates: Any, start_kernel: Any, open_page: Any) -> None:
    """A cell that got through before the gate closed ends before the barrier does."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    cell = page.execute("print('begun', flush=True)\nimport time; time.sleep(0.5)\nprint('ended')")
    await page.until(lambda: page.answers(cell, "stream"))
    gate = gates.of(kernel_id)
    await gate.close()
    began = time.monotonic()
    await gate.barrier(20)
    assert time.monotonic() - began > 0.2
    assert await page.printed(cell) == "begun\nended\n"
    assert gate.is_settled
    assert gate.kernel_info["implementation"] == "ipython"


async def test_the_barrier_waits_for_a_subshell(gates: Any, start_kernel: Any, open_page: Any) -> None:
    """A cell in a subshell is waited for like one in the main shell; one that is sent later is held."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    side = (await page.reply(page.send("create_subshell_request", {}, channel="control")))["subshell_id"]
    cell = page.execute("print('begun', flush=True)\nimport time; time.sleep(0.5)\nprint('ended')", subshell_id=side)
    await page.until(lambda: page.answers(cell, "stream"))
    gate = gates.of(kernel_id)
    await gate.close()
    held = page.execute("print('later')", subshell_id=side)
    began = time.monotonic()
    await gate.barrier(20)
    assert time.monotonic() - began > 0.2
    assert await page.printed(cell) == "begun\nended\n"
    gate.open()
    assert await page.printed(held) == "later\n"


async def test_a_kernel_that_does_not_answer_fails_the_barrier(
    gates: Any, start_kernel: Any, open_page: Any, jp_serverapp: Any
) -> None:
    """A long cell is not waited for for ever, and the gate says so; it goes on."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    cell = page.execute("import time\nfor _ in range(100): time.sleep(0.02)")
    await page.until(lambda: page.states(cell) == ["busy"])
    gate = gates.of(kernel_id)
    await gate.close()
    with pytest.raises(BarrierFailed, match=r"did not answer within 0\.2 s"):
        await gate.barrier(0.2)
    assert not gate.is_settled
    gate.open()
    assert (await page.reply(cell))["status"] == "ok"


async def test_opening_ends_a_barrier(gates: Any, start_kernel: Any, open_page: Any) -> None:
    """A park that is called off does not wait for the kernel."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    cell = page.execute("import time; time.sleep(1)")
    await page.until(lambda: page.states(cell) == ["busy"])
    gate = gates.of(kernel_id)
    await gate.close()
    barrier = asyncio.ensure_future(gate.barrier(30))
    await asyncio.sleep(0)
    gate.open()
    with pytest.raises(BarrierFailed, match="opened"):
        await barrier
    with pytest.raises(BarrierFailed, match="is open"):
        await gate.barrier(1)
    await page.reply(cell)


async def test_a_console_is_held_inside_the_kernel_and_wakes(
    gates: Any, woken: Any, start_kernel: Any, open_page: Any, console: Any, until: Any
) -> None:
    """A client that goes past the server waits too, the server hears of it, and an interrupt aborts its cell."""
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    await page.reply(page.execute("ran = []"))
    client = await console(kernel_id)
    gate = await closed(gates, kernel_id)
    aborted = client.execute("ran.append('aborted')")
    await until(lambda: woken == [kernel_id])
    gate.abort()
    reply = await client.get_shell_msg(timeout=30)
    assert (reply["parent_header"]["msg_id"], reply["content"]["status"]) == (aborted, "aborted")
    client.execute("ran.append('held')")
    await until(lambda: woken == [kernel_id] * 2)
    gate.open()
    assert (await client.get_shell_msg(timeout=30))["content"]["status"] == "ok"
    assert await page.printed(page.execute("print(ran)")) == "['held']\n"


async def test_a_message_inside_the_kernel_ends_the_barrier(
    gates: Any, woken: Any, start_kernel: Any, console: Any, until: Any
) -> None:
    """A cell of a console that comes between closing and the barrier is not waited for: it waits for us."""
    kernel_id = await start_kernel()
    gate, client = gates.of(kernel_id), await console(kernel_id)
    await gate.close()
    client.execute("1")

    async def arrived() -> bool:
        """On a slow machine a first barrier may hold before it is there."""
        try:
            await gate.barrier(20)
        except BarrierFailed as failed:
            return "arrived in the kernel" in str(failed)
        return False

    await until(arrived)
    assert woken == [kernel_id]
    assert gate.held == 1
    with pytest.raises(BarrierFailed, match="arrived in the kernel"):
        await gate.barrier(20)
    gate.open()
    assert gate.held == 0
    assert (await client.get_shell_msg(timeout=30))["content"]["status"] == "ok"


async def test_nothing_ever_runs_behind_the_barrier(
    gates: Any, start_kernel: Any, open_page: Any, console: Any, tmp_path: Path
) -> None:
    """Cells from a page, a subshell and a console, sent at random moments of a close: none runs once the barrier held.

    Each cell notes its beginning and its end in a file; between the barrier and the opening the file stands still.
    """
    kernel_id = await start_kernel()
    page, client, journal = await open_page(kernel_id), await console(kernel_id), tmp_path / "journal"
    journal.touch()
    side = (await page.reply(page.send("create_subshell_request", {}, channel="control")))["subshell_id"]
    await page.reply(page.execute(f"import os; j = os.open({str(journal)!r}, os.O_WRONLY | os.O_APPEND)"))
    note = "os.write(j, b'<'); os.write(j, b'>')"
    choice, gate, settled, sent = random.Random(7), gates.of(kernel_id), 0, 0  # noqa: S311  # repeatable
    senders: list[Callable[[], str]] = [
        lambda: page.execute(note),
        lambda: page.execute(note, subshell_id=side),
        lambda: client.execute(note, store_history=False),
    ]
    rounds = 0
    # How many closes are called off is a matter of the load: it goes on until enough of them have held.
    while rounds < ROUNDS or settled <= ROUNDS / 2:
        rounds += 1
        # A console's cell that comes too late for the close calls it off; in most rounds there is none.
        now = choice.choices((senders[:2], senders), (3, 1))[0]
        for sender in choice.sample(now, choice.randint(0, len(now))):
            sender()
            sent += 1
        await asyncio.sleep(choice.choice((0, 0.0005, 0.002, 0.006)))
        await gate.close()
        if choice.random() < 0.7:
            choice.choice(now)()
            sent += 1
        try:
            await gate.barrier(20)
        except BarrierFailed:
            gate.open()
            await asyncio.sleep(0.05)  # the kernel looks at its flag every 20 ms
            continue
        settled += 1
        before = journal.stat().st_size
        await asyncio.sleep(0.004)
        assert journal.stat().st_size == before
        gate.open()
    await page.until(lambda: journal.stat().st_size == 2 * sent)
