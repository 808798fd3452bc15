"""What people see: the same words, figures and colours as HTML and as text, with nothing smuggled in."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from jupyter_gpushare.devices.device import Attribution
from jupyter_gpushare.notebook.card import UNKNOWN, Card, Figure, State, card_of, problem_card
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.notebook.markup import html_of
from jupyter_gpushare.notebook.view import decode_view
from tests.notebook.fake_server import GB, device, kernel, message, reading, view


def card(**changes: Any) -> Card:
    """The card of the fake view with *changes*, through the wire."""
    return card_of(decode_view(msgspec.json.encode(view(**changes))))


def words(html: str) -> str:
    """What a person reads of *html*."""
    body = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


def test_text_answers_how_much_what_happens_and_where() -> None:
    """One look gives the share, its state, this notebook's own row and whose memory is where."""
    assert text_of(card()).splitlines() == [
        "GPU share  7.4 GB",
        "37 % of share · ½ GPU guaranteed, up to 1 · A100 · compute 62 %",
        "● Active. train.ipynb is running a cell.",
        "This notebook  6.1 GB · 61 %",
        "GPU 0  A100-SXM4-40GB",
        "  ███████░░░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒··········",
        "  █ you 7.4 GB  ░ kept for you 12.6 GB  ▒ others 10.0 GB  · free 10.0 GB",
    ]


def test_html_and_text_say_the_same() -> None:
    """Every word and figure of the text is in the HTML."""
    html = words(html_of(card()))
    for piece in ["7.4 GB", "37 % of share", "½ GPU guaranteed, up to 1", "compute 62 %", "Active. train.ipynb", "6.1 GB", "61 %",
                  "GPU 0", "A100-SXM4-40GB", "you 7.4 GB", "kept for you 12.6 GB", "others 10.0 GB", "free 10.0 GB"]:  # fmt: skip
        assert piece in html


def test_unknown_is_a_dash_with_its_reason_and_never_zero() -> None:
    """A figure that is not available is never shown as 0, and says why: on hover in HTML, beside it in text."""
    why = "the driver reports host pids"
    unknown = card(memory=reading(None, why), kernel=kernel(memory=reading(None, why), utilisation=reading(None, why)))
    assert f'<span title="{why}">{UNKNOWN}</span>' in html_of(unknown)
    assert f"This notebook  {UNKNOWN} ({why}) · {UNKNOWN} ({why})" in text_of(unknown)
    assert "% of share" not in text_of(unknown)


def test_a_figure_from_inside_the_kernel_says_so() -> None:
    """How a number was found is there to read on hover."""
    row = kernel(memory=reading(3 * GB, attribution=Attribution.IN_KERNEL))
    assert '<span title="As the frameworks in the kernel count it.">3.0 GB</span>' in html_of(card(kernel=row))


def test_a_device_whose_use_cannot_be_told_apart_draws_no_bar() -> None:
    """Nobody's memory is drawn as somebody's when the driver does not say whose it is."""
    blurred = device(mine=reading(None, "no process list"), others=reading(None, "no process list"))
    shown = card(devices=[blurred])
    assert "17.4 GB in use, not known by whom: no process list" in text_of(shown)
    assert "jp-gpushare-bar" not in html_of(shown).split("</style>")[1]


@pytest.mark.parametrize(
    ("code", "role"),
    [
        ("ACTIVE", "mine"),
        ("HOLDING", "kept"),
        ("NOTHING_HELD", "free"),
        ("RELEASING", "changing"),
        ("RELEASED", "free"),
        ("CANNOT_RELEASE", "trouble"),
        ("NO_GPU", "free"),
        ("NO_DRIVER", "free"),
        ("DRIVER_LOST", "trouble"),
        ("SHARE_DOES_NOT_FIT", "trouble"),
        ("MIG_WITHOUT_UTILISATION", "mine"),
        ("COUNTING_DOWN", "changing"),
        ("ASKED", "changing"),
        ("PARKING", "changing"),
        ("PARKED", "parked"),
        ("WAITING_FOR_ROOM", "changing"),
        ("RESUMING", "mine"),
        ("RESUMED", "mine"),
        ("CANNOT_PARK", "trouble"),
        ("KEPT", "kept"),
        ("BUSY_BUT_QUIET", "kept"),
        ("OF_A_NEWER_SERVER", "free"),
    ],
)
def test_each_state_has_its_colour_and_an_icon(code: str, role: str) -> None:
    """A colour means one thing everywhere, and never stands alone."""
    shown = card(state=message(code, "How it is."))
    assert f'class="jp-gpushare-state jp-gpushare-{role}" role="status"' in html_of(shown)
    assert shown.state is not None
    assert shown.state.icon


def test_the_bar_never_overflows_when_readings_disagree() -> None:
    """Readings taken a moment apart may add up to more than the device: the bar still fits."""
    (bar,) = card(devices=[device(mine=reading(30 * GB), others=reading(20 * GB))]).bars
    assert [segment.role for segment in bar.segments] == ["mine", "others"]
    assert sum(segment.percent for segment in bar.segments) == pytest.approx(100)


@pytest.mark.parametrize(
    ("uuids", "titles", "note"),
    [
        (["GPU-0"], ["GPU 0"], None),
        (["GPU-0", "GPU-1"], ["GPU 0"], "+1 more GPU, not in your share"),
        (["GPU-2", "GPU-1", "GPU-0"], ["GPU 2"], "+2 more GPUs, not in your share"),
        (["GPU-1", "GPU-2"], [], "2 GPUs, not in your share"),
    ],
)
def test_devices_outside_the_share_are_counted(uuids: list[str], titles: list[str], note: str | None) -> None:
    """On a machine with 64 GPUs a cell shows mine, and says that there are others."""
    shown = card(devices=[device(uuid=uuid, index=index) for index, uuid in enumerate(uuids)])
    assert [bar.title for bar in shown.bars] == titles
    assert shown.notes == ((note,) if note else ())


def test_a_share_on_two_devices_keeps_its_part_on_each() -> None:
    """The server sums a share over its devices: each keeps half of it, not all."""
    share = msgspec.structs.replace(view().share, devices=["GPU-0", "GPU-1"], request=40 * GB)
    bars = card(share=share, devices=[device(), device(uuid="GPU-1", index=1)]).bars
    assert [bar.segments[1].text for bar in bars] == ["kept for you 12.6 GB"] * 2


def test_simulated_devices_are_called_so() -> None:
    """Nobody takes a simulated GPU for a real one."""
    assert "simulated: no real GPU" in text_of(card(simulated=True))


def test_what_comes_from_elsewhere_is_escaped() -> None:
    """A notebook's or device's name cannot bring markup into the page."""
    evil = '<img src=x onerror="alert(1)">'
    shown = card(
        state=message("ACTIVE", evil),
        devices=[device(name=evil, mine=reading(None, evil))],
        kernel=kernel(memory=reading(None, f'"{evil}'), note=message("N", evil)),
    )
    html = html_of(shown)
    assert "<img" not in html
    assert '"alert' not in html
    assert html.count("&lt;img") == 5


def test_a_name_cannot_steer_the_terminal() -> None:
    """Escape sequences in a name are shown as harmless signs."""
    shown = text_of(card(state=message("ACTIVE", "\x1b]0;owned\x07\x1b[2Jx")))
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_colour_is_only_added_where_asked_for() -> None:
    """The coloured text is the plain text with colours: the words do not need them."""
    coloured = text_of(card(), colour=True)
    assert "\x1b[34m●" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == text_of(card())


def test_colours_come_from_the_page() -> None:
    """Every theme works: each colour of a meaning asks for the page's variables first."""
    style = html_of(card()).split("</style>")[0]
    for role in ("mine", "kept", "changing", "parked", "others", "free", "trouble"):
        assert re.search(rf"\.jp-gpushare-card \.jp-gpushare-{role} {{\s*--jp-gpushare-role: var\(\s*--jp-", style)


def test_a_problem_is_a_card_of_its_own() -> None:
    """Without a server people see what is missing and what still works."""
    text = text_of(problem_card("No server.", ["Release works."]))
    assert text.splitlines() == [f"GPU share  {UNKNOWN} (No server.)", "! No server.", "Release works."]


def test_every_class_has_our_prefix() -> None:
    """The card's style touches nothing else on the page: CSS of a cell's output is global."""
    style = html_of(Card("t", Figure(""), state=State("mine", "●", "x"))).split("</style>")[0]
    selectors = re.findall(r"^([^\s@}/*-][^{]*)\{", style.replace("<style>", ""), flags=re.MULTILINE)
    assert selectors
    assert all(part.strip().startswith(".jp-gpushare-") for group in selectors for part in group.split(","))
