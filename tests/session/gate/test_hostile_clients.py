"""Clients that code inside the server makes, several on one kernel, and none of them mixes with our own requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.session.gate.test_gate import closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(name="client_of")
def _client_of(jp_serverapp: Any) -> Iterator[Callable[[str], Any]]:
    """Makes a client inside the server, its channels running."""
    clients: list[Any] = []

    def client_of(kernel_id: str) -> Any:
        client = jp_serverapp.kernel_manager.get_kernel(kernel_id).client()
        client.start_channels()
        clients.append(client)
        return client

    yield client_of
    for client in clients:
        client.stop_channels()


async def test_two_clients_of_one_kernel_lose_nothing(gates: Any, start_kernel: Any, client_of: Any) -> None:
    """Jupyter gives all clients of one kernel manager one routing id, and a kernel hears only the newest of them."""
    kernel_id = await start_kernel()
    first, second = client_of(kernel_id), client_of(kernel_id)
    await first.wait_for_ready(timeout=60)
    await second.wait_for_ready(timeout=60)
    for turn in range(3):
        gate = await closed(gates, kernel_id)
        cells = [client.execute(f"ran = {turn}") for client in (first, second)]
        assert gate.held == 2
        gate.open()
        for client, cell in zip((first, second), cells, strict=True):
            async with asyncio.timeout(20):
                while (await client.get_shell_msg(timeout=20))["parent_header"]["msg_id"] != cell:
                    pass


async def test_the_barriers_requests_have_ids_of_their_own(
    gates: Any, start_kernel: Any, client_of: Any, jp_serverapp: Any
) -> None:
    """A status of the barrier's must not end the wait of whoever awaits a cell of the same id."""
    kernel_id = await start_kernel()
    client = client_of(kernel_id)
    await client.wait_for_ready(timeout=60)
    parents: list[str] = []
    stream = jp_serverapp.kernel_manager.get_kernel(kernel_id)._activity_stream
    track = stream._recv_callback

    def receive(frames: list[Any]) -> None:
        parents.append(client.session.deserialize(client.session.feed_identities(frames)[1])["parent_header"]["msg_id"])
        track(frames)

    stream.on_recv(receive)
    gate = await closed(gates, kernel_id)
    gate.open()
    async with asyncio.timeout(20):
        while not parents:  # noqa: ASYNC110  # what a test waits for has no event of its own
            await asyncio.sleep(0.01)
    manager = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    assert not [parent for parent in parents if parent.startswith((manager.session.session, client.session.session))]
