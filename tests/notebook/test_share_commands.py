"""Another share asked for from a cell, and the line about the share in the status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.notebook import commands, share_commands
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.session import requests, wire
from tests.notebook.fake_server import FakeServer, message, view

if TYPE_CHECKING:
    import pytest

LENT = "Your share is lent to training (llama of team-b). Nothing is lost: any cell calls it back."


def lease(text: str = LENT, policy: wire.MessageModel | None = None) -> wire.LeaseView:
    """A lease that is lent."""
    return wire.LeaseView("joined", 1.0, "team-a", "parked", message("LENT_TO_TRAINING", text), policy=policy)


def test_another_share_is_asked_for(server: FakeServer) -> None:
    """The wish goes to the server as it was written, and its answer is shown with what has to be restarted."""
    changed = requests.ShareAnswer(
        view().share, message("SHARE_CHANGED", "Your share is now ¼ GPU. Restart: a.ipynb."), ["a.ipynb"]
    )
    server.answers["POST", "/request"] = 200, changed
    text = text_of(share_commands.request("0.25..0.8"))
    assert "✓ Your share is now ¼ GPU. Restart: a.ipynb." in text
    assert "save what you need first" in text
    assert [seen.body for seen in server.seen] == [{"share": "0.25..0.8"}]


def test_a_refused_share_says_why_and_that_nothing_changed(server: FakeServer) -> None:
    """People keep what they have, and read the broker's reason."""
    said = message("SHARE_REFUSED", "You keep your share; 1 cannot be had now: team-a has 1 GPU for notebooks.")
    server.answers["POST", "/request"] = 409, wire.ErrorAnswer(said, said.text)
    text = text_of(share_commands.request("1"))
    assert "! You keep your share; 1 cannot be had now: team-a has 1 GPU for notebooks." in text
    assert "Nothing was changed." in text


def test_without_a_server_no_share_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In plain IPython people read that there is nobody to ask."""
    monkeypatch.delenv("GPUSHARE_SERVER_URL", raising=False)
    assert "server" in text_of(share_commands.request("0.5"))


def test_the_status_says_how_it_is_with_the_lease(server: FakeServer) -> None:
    """Who uses what was lent stands in the status, once."""
    server.view = view(lease=lease())
    assert text_of(commands.status([])).count(LENT) == 1
    server.view = view(lease=lease(), state=message("LENT_TO_TRAINING", LENT))
    assert text_of(commands.status([])).count(LENT) == 1


def test_the_status_says_what_the_pool_decides(server: FakeServer) -> None:
    """What an admin set for everybody is no secret, and not the server's doing."""
    policy = message("SET_BY_POOL", "Set by pool class: isolation caps.")
    server.view = view(lease=lease(policy=policy))
    assert "Set by pool class: isolation caps." in text_of(commands.status([]))
