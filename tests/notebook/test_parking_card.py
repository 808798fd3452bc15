"""What a card says of parking: the same facts as the server's, in words that fit a notebook."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from jupyter_gpushare.notebook.card import card_of
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.notebook.view import decode_view
from jupyter_gpushare.session import wire
from tests.notebook.fake_server import kernel, message, parking, reading, view

AT = time.mktime((2026, 11, 20, 14, 2, 0, 0, 0, -1))
CLOCK = "14:02"


def shown(status: wire.ParkStatus = "running", **changes: Any) -> list[str]:
    """The lines of the card of a notebook with that parking."""
    row = kernel(parking=parking(status, **changes), memory=reading(0 if status == "parked" else 6_100_000_000))
    return text_of(card_of(decode_view(msgspec.json.encode(view(kernel=row))))).splitlines()


def row(lines: list[str], name: str) -> str:
    """The row called *name*."""
    return next(line for line in lines if line.startswith(name)).removeprefix(name).strip()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "possible: 7.4 GB in about 2.1 s · by itself after 10 min idle"),
        ({"memory": None, "policy": None}, "possible"),
        ({"policy": wire.PolicyModel(None, "owner")}, "possible: 7.4 GB in about 2.1 s · never by itself"),
        ({"kept_until": AT}, f"possible: 7.4 GB in about 2.1 s · kept until {CLOCK}"),
        ({"status": "counting_down", "parks_at": AT}, f"possible: 7.4 GB in about 2.1 s · by itself at {CLOCK}"),
        ({"status": "asked"}, "when this cell has ended"),
        ({"status": "parked", "since": AT}, f"parked since {CLOCK}"),
        ({"refusal": message("CELL_RUNNING", "…")}, "after the cell · by itself after 10 min idle"),
        ({"refusal": message("MIG_DEVICE", "…")}, "not possible now"),
    ],
)
def test_the_row_says_what_would_happen_and_when(changes: dict[str, Any], words: str) -> None:
    """One row answers whether it can be parked, at what cost, and when that happens by itself."""
    assert row(shown(**changes), "Parking") == words


def test_a_parked_notebook_says_so_instead_of_what_it_holds_on_the_gpu() -> None:
    """Its memory is neither zero nor on the GPU: it is parked, in the server's own sentence."""
    said = message("PARKED", "7.4 GB safe in host memory since 14:02. Run any cell and it returns (about 2 s).")
    lines = shown("parked", message=said)
    assert lines[2] == f"❄ {said.text}"
    assert row(lines, "This notebook") == "7.4 GB parked · 61 %"


def test_why_not_stands_with_its_remedy() -> None:
    """Whoever wants to park reads why it is refused and what helps, before asking."""
    why, remedy = message("MPS_CLIENT", "This kernel is an MPS client."), message("R", "Restart it without MPS.")
    assert "Cannot park: This kernel is an MPS client. Restart it without MPS." in shown(refusal=why, remedy=remedy)


def test_what_is_not_guaranteed_is_said() -> None:
    """A caution of the server reaches the notebook."""
    assert "Not guaranteed: Others use the GPU." in shown(
        caution=message("FOREIGN_PROCESSES", "Not guaranteed: Others use the GPU.")
    )


def test_what_a_running_cell_prevents_needs_no_explanation() -> None:
    """That a cell is running is no trouble: no line of the card complains about it."""
    assert not [line for line in shown(refusal=message("CELL_RUNNING", "A cell is running.")) if "Cannot" in line]


def test_a_server_of_before_parking_shows_the_card_of_before() -> None:
    """Nothing is said of parking where the server says nothing."""
    assert "Parking" not in text_of(card_of(decode_view(msgspec.json.encode(view()))))


def test_what_was_handed_back_today_is_told() -> None:
    """The good that came of it is on the card."""
    frame = msgspec.json.encode(msgspec.to_builtins(view()) | {"type": "kernel_view", "handed_back_s": 11520.0})
    assert "Handed back today: 3 h 12 min of GPU time." in text_of(card_of(decode_view(frame)))


def test_a_template_with_odd_braces_is_shown_and_not_run() -> None:
    """A countdown's template is a server's text: braces in it neither fail nor reach into objects."""
    said = wire.MessageModel("COUNTING_DOWN", "{0.__class__} {left} {idle} {", {"idle": "{left}"}, "text")
    card = card_of(
        decode_view(
            msgspec.json.encode(view(kernel=kernel(parking=parking("counting_down", message=said, parks_at=AT))))
        )
    )
    assert card.state is not None
    assert card.state.countdown is not None
    assert (card.state.countdown.before, card.state.countdown.after) == ("{0.__class__} ", " {left} {")
