"""A server that was started without a GPU, as a hub's spawn page offers: it claims nothing until somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.session.own_share import choose_share
from tests.session.test_provisioner import evaluate

if TYPE_CHECKING:
    from tests.session.lease.conftest import Kept

VISIBLE = "__import__('os').environ.get('CUDA_VISIBLE_DEVICES')"


@pytest.fixture(name="share")
def _share() -> str:
    """Nothing is configured: the hub says it."""
    return ""


@pytest.fixture(name="gpushare_options")
def _gpushare_options(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """As in the other tests, when no GPU was picked."""
    monkeypatch.setenv("GPUSHARE_SHARE", "none")
    return {"broker": f"unix:{kept.socket}"}


async def test_it_holds_nothing_until_a_share_is_asked_for(
    kept: Kept, api: Any, jp_fetch: Any, start_kernel: Any, client_of: Any, until: Any
) -> None:
    """No lease, no device and no nagging at first; a share that is asked for later is claimed and given as any other."""
    shown = await api("session")
    assert shown["share"]["text"] == "none"
    assert shown["share"]["devices"] == []
    assert shown["state"]["code"] == "NO_GPU"
    assert "%gpushare request" in shown["state"]["text"]
    kernel_id = await start_kernel()
    assert await evaluate(client_of(kernel_id), VISIBLE) == ""
    shown = await api("session")
    assert shown["notices"] == []
    assert kept.lease() is None

    answer = await jp_fetch("gpushare/api/v1/request", method="POST", body='{"share": "0.5"}', raise_error=False)
    assert answer.code == 409
    assert b"0.5 is being asked for" in answer.body
    await until(lambda: kept.status() == "running")
    assert str(kept.lease().share) == "0.5"
    other = await start_kernel("b.ipynb")
    assert await evaluate(client_of(other), VISIBLE) == kept.lease().grants[0].device


def test_none_is_not_a_wrong_share() -> None:
    """The hub's word for no GPU must not become a whole GPU, as a share that cannot be read does."""
    own = choose_share("", {"GPUSHARE_SHARE": "none"})
    assert own.is_none
    assert own.devices(()) == []
