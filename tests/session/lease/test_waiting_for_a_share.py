"""A session that comes when everything is taken: it waits in line, and its kernels start without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.session.test_provisioner import evaluate

if TYPE_CHECKING:
    from tests.session.lease.conftest import Kept, Others


@pytest.fixture(name="gpushare_options")
def _gpushare_options(kept: Kept, others: Others, jp_asyncio_loop: Any) -> dict[str, Any]:
    """As in the other tests, when others have every device already."""
    assert kept.broker is not None
    for _ in kept.broker.books.devices:
        jp_asyncio_loop.run_until_complete(others.hold("1"))
    return {"broker": f"unix:{kept.socket}"}


async def test_it_waits_in_line_and_goes_on_without_a_gpu(
    kept: Kept, others: Others, api: Any, start_kernel: Any, client_of: Any, until: Any, session: Any
) -> None:
    """The place in line is shown, kernels start without a GPU and say why, and the share is taken when it is free."""
    await until(lambda: kept.status() == "queued")
    shown = await until(lambda: _waits(api))
    assert shown["lease"]["status"] == "queued"
    assert shown["lease"]["place"] == 1
    assert shown["state"]["text"].startswith("Waiting: 1st in line")
    kernel_id = await start_kernel()
    visible = "__import__('os').environ.get('CUDA_VISIBLE_DEVICES')"
    assert await evaluate(client_of(kernel_id), visible) == ""
    notices = (await api("session"))["notices"]
    assert [notice["message"]["code"] for notice in notices] == ["NO_SHARE_YET"]
    await others._holdings[0].end()
    await until(lambda: kept.status() == "running")
    other = await start_kernel("b.ipynb")
    assert await evaluate(client_of(other), visible) == kept.lease().grants[0].device


async def _waits(api: Any) -> Any:
    shown = await api("session")
    return shown if shown["lease"]["place"] else None
