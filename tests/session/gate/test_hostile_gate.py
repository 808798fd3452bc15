"""The gate when things are taken from under it, or too much is put before it."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

from tests.session.gate.test_gate import closed

if TYPE_CHECKING:
    import pytest


async def test_a_directory_that_was_cleaned_away_is_made_again(gates: Any, start_kernel: Any) -> None:
    """Temporary directories are cleaned of what has long been empty; parking must not end with that."""
    kernel_id = await start_kernel()
    gate = gates.of(kernel_id)
    shutil.rmtree(gates._directory)
    await gate.close()
    assert gates._flag_path(kernel_id).exists()
    gate.open()


async def test_what_nobody_can_mean_to_send_is_aborted(
    gates: Any, start_kernel: Any, open_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that sends in a loop for hours takes a bounded part of the server's memory, and hears what became of it."""
    monkeypatch.setattr("jupyter_gpushare.session.gate.gate._MOST_HELD", 3)
    kernel_id = await start_kernel()
    page = await open_page(kernel_id)
    gate = await closed(gates, kernel_id)
    cells = [page.execute(f"print({number})") for number in range(5)]
    for cell in cells[3:]:
        assert (await page.reply(cell))["status"] == "aborted"
    assert gate.held == 3
    gate.open()
    async with asyncio.timeout(20):
        assert [await page.printed(cell) for cell in cells[:3]] == ["0\n", "1\n", "2\n"]
