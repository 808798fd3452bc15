"""The widget's page side in a real Chromium: the same card as the magic's HTML, harmless, usable by keyboard."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.notebook.cache import Freed
from jupyter_gpushare.notebook.card import Card, card_of
from jupyter_gpushare.notebook.markup import STATIC, html_of
from jupyter_gpushare.notebook.release import release_card
from jupyter_gpushare.notebook.view import Parking, decode, decode_view
from jupyter_gpushare.notebook.widget_actions import buttons_of
from tests.notebook.fake_server import device, kernel, message, parking, reading, view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from jupyter_gpushare.session import wire

pytestmark = pytest.mark.browser

EVIL = '<img src=x onerror="window.owned = true">'

# What anywidget hands to `render`, reduced to what a widget may use.
START = """async ([source, view]) => {
  const module = await import(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
  const listeners = {};
  window.sent = [];
  window.model = {
    view,
    get: name => window.model[name],
    on: (name, listener) => (listeners[name] = [...(listeners[name] ?? []), listener]),
    off: (name, listener) => (listeners[name] = listeners[name].filter(one => one !== listener)),
    send: content => window.sent.push(content),
    fire: name => (listeners[name] ?? []).forEach(listener => listener()),
    listeners
  };
  window.stop = module.default.render({model: window.model, el: document.getElementById('cell')});
}"""


@pytest.fixture(scope="module", name="browser_page")
def _browser_page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


@pytest.fixture
def page(browser_page: Page) -> Iterator[Page]:
    """An empty cell with the widget's style; errors on the page fail the test."""
    errors: list[str] = []
    browser_page.on("pageerror", lambda error: errors.append(str(error)))
    browser_page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    style = (STATIC / "widget.css").read_text(encoding="utf-8")
    browser_page.set_content(f"<style>{style}</style><div id=cell></div>")
    yield browser_page
    assert errors == []


def card(**changes: Any) -> Card:
    """The card of the fake view with *changes*."""
    return card_of(decode_view(msgspec.json.encode(view(**changes))))


def start(page: Page, shown: Card, notice: Card | None = None, parked: Parking | None = None) -> None:
    """Draw the widget for the first time."""
    page.evaluate(START, [(STATIC / "widget.js").read_text(encoding="utf-8"), as_view(shown, notice, parked)])


def change(page: Page, shown: Card, notice: Card | None = None, parked: Parking | None = None) -> None:
    """Have the kernel send another view."""
    page.evaluate("view => { model.view = view; model.fire('change:view'); }", as_view(shown, notice, parked))


def as_told(model: wire.ParkingModel) -> Parking:
    """A kernel's parking as it arrives."""
    return decode(msgspec.json.encode(model), Parking)


def as_view(shown: Card, notice: Card | None, parked: Parking | None = None) -> dict[str, Any]:
    """What the kernel sends."""
    buttons = [asdict(button) for button in buttons_of(parked)]
    return {
        "card": asdict(shown),
        "notice": None if notice is None else asdict(notice),
        "buttons": buttons,
        "turn": 3,
    }


def words(page: Page) -> list[str]:
    """The words of the card, without button and notice."""
    return re.findall(r"\S+", page.locator("#cell .jp-gpushare-card > div").first.inner_text())


def test_it_draws_what_the_magic_draws(page: Page) -> None:
    """The two ways to build the card cannot drift apart: same words, same classes, same bar."""
    start(page, card(simulated=True))
    drawn = words(page), styled(page, "#cell")
    page.set_content(f"<div id=cell>{html_of(card(simulated=True))}</div>")
    assert drawn == (re.findall(r"\S+", page.locator("#cell .jp-gpushare-card").inner_text()), styled(page, "#cell"))


def styled(page: Page, selector: str) -> list[str]:
    """The class and width of each part of the state box and the bars."""
    parts = f"{selector} .jp-gpushare-state, {selector} .jp-gpushare-bar i"
    read = "parts => parts.map(part => `${part.className} ${part.style.width}`)"
    return list(page.eval_on_selector_all(parts, read))


def test_a_new_view_replaces_the_old(page: Page) -> None:
    """The card moves with the stream, without growing."""
    start(page, card())
    change(page, card(state=message("NOTHING_HELD", "Nothing is held.")))
    assert page.locator(".jp-gpushare-state").count() == 1
    assert "Nothing is held." in page.locator(".jp-gpushare-state").inner_text()


def test_what_comes_from_elsewhere_stays_text(page: Page) -> None:
    """A name with markup in it is read, not run."""
    evil = card(
        state=message("ACTIVE", EVIL),
        devices=[device(name=EVIL, mine=reading(None, EVIL))],
        kernel=kernel(memory=reading(None, EVIL), note=message("N", EVIL)),
    )
    start(page, evil, release_card([Freed(EVIL, 1, 1, 1, EVIL)]))
    assert page.locator("#cell img").count() == 0
    assert page.evaluate("window.owned") is None
    assert EVIL in page.locator(".jp-gpushare-state").first.inner_text()


def test_release_is_one_key_away_and_cannot_be_pressed_twice(page: Page) -> None:
    """The button works by keyboard, waits for the kernel, and says so meanwhile."""
    start(page, card())
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    button = page.get_by_role("button")
    assert button.is_disabled()
    assert "Releasing" in button.inner_text()
    assert page.evaluate("sent") == [{"action": "free_cache", "turn": 3}]
    change(page, card(), release_card([Freed("torch", 2 * 10**9, 0, 0, None)]))
    page.evaluate("model.fire('msg:custom')")
    assert button.inner_text() == "Release"
    assert "Released 2.0 GB" in page.locator("[aria-live=polite]").inner_text()


def test_a_countdown_ticks_by_itself(page: Page) -> None:
    """What is left is true at each moment without a word from the kernel, and reaches zero, not less."""
    page.clock.install(time=1_000_000)
    said = wire_countdown()
    start(page, card(kernel=kernel(parking=parking("counting_down", message=said, parks_at=1_000_250.0))))
    state = page.locator(".jp-gpushare-state")
    assert state.inner_text().endswith("Idle for 5 min. Your GPU is handed back in 4:10. Nothing is lost.")
    page.clock.run_for(61_000)
    assert "handed back in 3:09." in state.inner_text()
    page.clock.run_for(300_000)
    assert "handed back in 0:00." in state.inner_text()
    page.evaluate("stop()")


def wire_countdown() -> wire.MessageModel:
    """The server's sentence, as it was a while ago."""
    template = "Idle for {idle}. Your GPU is handed back in {left}. Nothing is lost."
    whole = message("COUNTING_DOWN", template.format(idle="5 min", left="4:10"))
    return msgspec.structs.replace(whole, template=template, values={"idle": "5 min", "left": "4:10"})


def test_while_parked_no_button_is_there(page: Page) -> None:
    """Nothing on the page could send the parked kernel a message."""
    start(page, card(), parked=as_told(parking()))
    assert page.get_by_role("button").all_inner_texts() == ["Release", "Keep 1 h"]
    parked = parking("parked", message=message("PARKED", "7.4 GB safe in host memory since 14:02."))
    change(page, card(kernel=kernel(parking=parked)), parked=as_told(parked))
    assert page.get_by_role("button").count() == 0
    assert "7.4 GB safe in host memory" in page.locator(".jp-gpushare-state").inner_text()
    assert "7.4 GB parked" in page.locator(".jp-gpushare-card").inner_text()
    assert page.evaluate("sent") == []


def test_new_figures_leave_the_keyboard_where_it_was(page: Page) -> None:
    """A view a second must not take the focus from a button, nor free one that waits for its answer."""
    start(page, card(), parked=as_told(parking()))
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    change(page, card(memory=reading(5 * 10**9)), parked=as_told(parking()))
    page.keyboard.press("Enter")
    keep = page.get_by_role("button").nth(1)
    assert keep.is_disabled()
    change(page, card(), parked=as_told(parking()))
    assert keep.is_disabled()
    change(page, card(), parked=as_told(parking(kept_until=1.0)))
    assert page.get_by_role("button").all_inner_texts() == ["Release", "Stop keeping"]
    assert page.evaluate("sent") == [{"action": "keep", "turn": 3}]


def test_removing_it_leaves_no_listener(page: Page) -> None:
    """A view that is gone does not draw any more."""
    start(page, card())
    page.evaluate("stop()")
    assert page.evaluate("Object.values(model.listeners).flat().length") == 0


@pytest.mark.parametrize(
    ("variable", "role"),
    [("--jp-brand-color1", "mine"), ("--jp-warn-color1", "changing"), ("--jp-gpushare-parked", "parked")],
)
def test_colours_follow_the_theme(page: Page, variable: str, role: str) -> None:
    """The theme's own colour is used where there is one, with a fallback where there is none."""
    code = {"mine": "ACTIVE", "changing": "RELEASING", "parked": "PARKED"}[role]
    start(page, card(state=message(code, "x")))
    colour = "node => getComputedStyle(node).borderLeftColor"
    fallback = page.locator(".jp-gpushare-state").evaluate(colour)
    page.evaluate(f"document.documentElement.style.setProperty('{variable}', 'rgb(1, 2, 3)')")
    assert fallback != page.locator(".jp-gpushare-state").evaluate(colour) == "rgb(1, 2, 3)"
