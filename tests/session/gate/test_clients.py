"""Code inside the server that runs cells through ``kernel_manager.client()`` meets the gate too."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.session.kernel_messages import request_free_cache
from tests.session.gate.test_gate import closed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@pytest.fixture(name="client_of")
def _client_of(jp_serverapp: Any) -> Callable[..., Any]:
    """A client made inside the server, as nbclient makes one, for one block."""

    @contextlib.asynccontextmanager
    async def client_of(kernel_id: str, **options: Any) -> AsyncIterator[Any]:
        client = jp_serverapp.kernel_manager.get_kernel(kernel_id).client(**options)
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=60)
            yield client
        finally:
            client.stop_channels()

    return client_of


async def test_a_cell_run_by_the_server_wakes_and_runs(
    gates: Any, woken: Any, start_kernel: Any, client_of: Any, until: Any
) -> None:
    """Server-side execution waits for the GPU state like a page's, and then goes on as if nothing had been."""
    kernel_id = await start_kernel()
    async with client_of(kernel_id) as client:
        await client.execute_interactive("ran = []", timeout=30)
        gate = await closed(gates, kernel_id)
        for number in range(5):
            client.execute(f"ran.append({number})")
        last = asyncio.ensure_future(client.execute_interactive("assert ran == [0, 1, 2, 3, 4]", timeout=30))
        await until(lambda: gate.held == 6)
        assert woken == [kernel_id] * 6
        gate.open()
        assert (await last)["content"]["status"] == "ok"


async def test_what_is_sent_as_raw_frames_is_held_too(gates: Any, start_kernel: Any, client_of: Any) -> None:
    """A client that serializes by itself is no way around the gate."""
    kernel_id = await start_kernel()
    async with client_of(kernel_id) as client:
        gate = await closed(gates, kernel_id)
        content = {"code": "print(1)", "silent": False, "store_history": False, "user_expressions": {}}
        message = client.session.msg("execute_request", content)
        frames = client.session.serialize(message)[2:]  # without delimiter and signature
        client.session.send_raw(client.shell_channel.socket, frames)
        assert gate.held == 1
        gate.open()
        reply = await client.get_shell_msg(timeout=30)
        assert reply["parent_header"]["msg_id"] == message["header"]["msg_id"]


async def test_a_clients_interrupted_cell_is_answered(
    gates: Any, jp_serverapp: Any, start_kernel: Any, client_of: Any
) -> None:
    """The code that waits for a held cell hears of the interrupt while the kernel is still closed."""
    kernel_id = await start_kernel()
    async with client_of(kernel_id) as client:
        gate = await closed(gates, kernel_id)
        request = client.execute("print('ran')")
        assert gate.held == 1
        await jp_serverapp.kernel_manager.interrupt_kernel(kernel_id)
        reply = await client.get_shell_msg(timeout=30)
        assert reply["parent_header"]["msg_id"] == request
        assert reply["content"]["status"] == "aborted"
        assert not gate.is_open


async def test_a_client_that_has_left_loses_nothing(gates: Any, start_kernel: Any, client_of: Any, until: Any) -> None:
    """A cell runs although the code that sent it has closed its client."""
    kernel_id = await start_kernel()
    gate, ran = await closed(gates, kernel_id), gates._directory / "ran"
    async with client_of(kernel_id) as client:
        client.execute(f"open({str(ran)!r}, 'w')")
        assert gate.held == 1
    gate.open()
    await until(ran.exists)


async def test_our_own_questions_pass(
    gates: Any, woken: Any, jp_serverapp: Any, start_kernel: Any, client_of: Any
) -> None:
    """Between closing the gate and parking the kernel is still asked to free what nobody uses."""
    kernel_id = await start_kernel()
    gate = await closed(gates, kernel_id)
    kernel = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    assert (await request_free_cache(kernel, collect=False, timeout_s=20, closing=gate.closing)).troubles == []
    late = await request_free_cache(kernel, collect=False, timeout_s=20)
    assert late.troubles == ["it is parked, and holds no GPU memory"]
    assert (gate.held, woken) == (0, [])


async def test_a_client_without_an_answer_waits_quietly(
    gates: Any, woken: Any, start_kernel: Any, client_of: Any
) -> None:
    """A completion asked for inside the server wakes nobody, and is answered when the gate opens."""
    kernel_id = await start_kernel()
    async with client_of(kernel_id) as client:
        gate = await closed(gates, kernel_id)
        client.complete("pri", 3)
        assert (gate.held, woken) == (0, [])
        gate.open()
        assert (await client.get_shell_msg(timeout=30))["content"]["matches"]


async def test_a_session_that_is_used_again_is_held_once(
    gates: Any, jp_serverapp: Any, start_kernel: Any, client_of: Any
) -> None:
    """A client that takes over another's message session is held too, and each message goes out once."""
    kernel_id = await start_kernel()
    async with client_of(kernel_id) as first:
        await first.execute_interactive("shared = []", timeout=30)
    async with client_of(kernel_id, session=first.session) as second:
        gate = await closed(gates, kernel_id)
        second.execute("shared.append(2)")
        assert gate.held == 1
        gate.open()
        reply = await second.execute_interactive("assert shared == [2]", timeout=30)
        assert reply["content"]["status"] == "ok"
