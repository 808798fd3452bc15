"""The open picker in a real Chromium: it stays true by itself, says so to who listens, and loses no choice."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jupyterhub._data  # type: ignore[import-untyped]
import msgspec
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from jupyter_gpushare.hub.form import Choice, render_picker
from jupyter_gpushare.hub.offers import Offers
from jupyter_gpushare.hub.picture import CardPicture, Picture
from jupyter_gpushare.hub.service.picker_handler import HEADERS
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

SITE = "http://hub.test"
LIVE_URL = "/picker?for=x&sign=y"
DEADLINE_MS = 60_000
LOOK_AGAIN_MS = 4000
OFFERS = Offers.parse(["0.25", "0.5", "1"], "0.5", None, no_gpu=True, custom="1", kinds=["a100"])
FREE = Picture(
    [
        CardPicture("0.25", "now", "5 free now", "10 GB guaranteed of an A100"),
        CardPicture("0.5", "now", "2 free now", "20 GB guaranteed of an A100"),
        CardPicture("1", "never", "over quota", "40 GB of an A100", "Your team's quota leaves 0.5."),
    ],
    project="team-a",
    projects=["team-a", "team-b"],
    headline="team-a · 1.5 of 4 GPUs in use by your team",
)
TAKEN = Picture(
    [
        CardPicture("0.25", "soon", "about 30 s", "10 GB guaranteed of an A100", "Training saves its work first."),
        CardPicture("0.5", "never", "over quota", "20 GB guaranteed of an A100", "Your team's quota leaves 0.2."),
        CardPicture("1", "now", "1 free now", "40 GB of an A100"),
    ],
    headline="team-a · 3.8 of 4 GPUs in use by your team",
)


@pytest.fixture(autouse=True)
def jp_asyncio_loop() -> None:
    """No event loop of pytest-jupyter's: Playwright has its own."""


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Nothing of pytest-jupyter's to clean up."""


class OpenPicker:
    """A spawn page that is open, with a service that answers what a test wants.

    Attributes:
        page: the page.
        now: what the service answers; None for an error.
        asked: the queries that it was asked with.
        sent: the form, when it was sent.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.now: Picture | None = FREE
        self.asked: list[str] = []
        self.sent: dict[str, str] = {}
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.route(f"{SITE}/**", self._answer)
        page.clock.install()

    def open(
        self, picture: Picture | None = FREE, choice: str = "0.5", notice: str = "", live_url: str = LIVE_URL
    ) -> None:
        """Open the page as it was when the hub rendered it."""
        form = render_picker(OFFERS, Choice(Share.parse(choice)), picture, live_url=live_url, notice=notice)
        style = (Path(jupyterhub._data.DATA_FILES_PATH) / "static" / "css" / "style.min.css").read_text()
        self.html = f"""<!doctype html><html lang="en" data-bs-theme="light"><head><title>Spawn</title>
<meta name="viewport" content="width=device-width"><style>{style}</style></head><body><main class="container">
<form method="get" action="/sent">{form}<button class="btn btn-jupyter">Start</button></form></main></body></html>"""
        self.page.goto(f"{SITE}/hub/spawn")

    def card(self, share: str) -> Any:
        """The card of *share*."""
        return self.page.locator(f'[data-share="{share}"]')

    def look_again(self) -> None:
        """Let the time pass after which the page asks."""
        with self.page.expect_response("**/picker*"):
            self.page.clock.fast_forward(LOOK_AGAIN_MS)

    def _answer(self, route: Route) -> None:
        path = route.request.url.removeprefix(SITE)
        if path.startswith("/picker"):
            self.asked.append(path)
            if self.now is None:
                route.fulfill(status=503)
            else:
                route.fulfill(body=msgspec.json.encode(self.now), content_type="application/json")
        elif path.startswith("/sent"):
            self.sent = dict(re.findall(r"[?&]([^=]+)=([^&]*)", path))
            route.fulfill(body="sent", content_type="text/plain")
        else:
            route.fulfill(body=self.html, content_type="text/html; charset=utf-8")


@pytest.fixture(name="picker")
def _picker(browser: Browser) -> Iterator[OpenPicker]:
    """A page that is not open yet; an error of its script fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(DEADLINE_MS)
    picker = OpenPicker(page)
    yield picker
    assert picker.problems == []
    context.close()


def test_page_follows_what_others_take(picker: OpenPicker) -> None:
    """Badges, reasons and the team's line change while one looks; what can be had again can be chosen again."""
    picker.open()
    expect(picker.card("1").locator("input")).to_be_disabled()
    picker.now = TAKEN
    picker.look_again()
    expect(picker.card("0.25").locator("[data-badge]")).to_have_text("about 30 s")
    expect(picker.card("0.25").locator("[data-way]")).to_have_text("Training saves its work first.")
    expect(picker.page.locator("[data-headline]")).to_have_text("team-a · 3.8 of 4 GPUs in use by your team")
    expect(picker.page.locator("[data-live-note]")).to_have_text(" · updates as you watch")
    picker.card("1").click(position={"x": 300, "y": 15})
    expect(picker.card("1").locator("input")).to_be_checked()


class _Hub(BaseHTTPRequestHandler):
    """The spawn page, and the service below another name: Chromium itself must let the one read the other."""

    html = ""
    cookies: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        is_service = self.path.startswith("/picker")
        self.send_response(200)
        for name, value in (HEADERS if is_service else {"Set-Cookie": "mine=1", "Content-Type": "text/html"}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(msgspec.json.encode(TAKEN) if is_service else self.html.encode())
        if is_service:
            self.cookies.append(self.headers["Cookie"])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name there
        """Say nothing."""


def test_service_with_a_domain_of_its_own(picker: OpenPicker) -> None:
    """Where each user and service has a domain the page asks another origin, which lets it read, and takes no cookie."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(server.serve_forever)
        try:
            picker.open(live_url=f"http://localhost:{server.server_port}{LIVE_URL}")
            _Hub.html = picker.html
            picker.page.goto(f"http://127.0.0.1:{server.server_port}/hub/spawn")
            picker.look_again()
            expect(picker.card("0.25").locator("[data-badge]")).to_have_text("about 30 s")
            assert set(_Hub.cookies) == {None}
        finally:
            server.shutdown()


def test_chosen_share_that_somebody_takes(picker: OpenPicker) -> None:
    """The choice stays, as a form without one would start the default; who listens hears what happened to it."""
    picker.open()
    picker.now = TAKEN
    picker.look_again()
    expect(picker.page.get_by_role("status")).to_have_text("½ GPU: over quota. Your team's quota leaves 0.2.")
    expect(picker.card("0.5").locator("input")).to_be_checked()
    expect(picker.card("0.5").locator("input")).to_be_enabled()
    picker.page.get_by_role("button", name="Start").click()
    expect(picker.page.locator("body")).to_have_text("sent")
    assert picker.sent["share"] == "0.5", "the hub says no, and why"


def test_service_that_does_not_answer(picker: OpenPicker) -> None:
    """The page says that it is not up to date, keeps what it knew, asks less often, and is true again by itself."""
    picker.open()
    picker.now = None
    picker.look_again()
    expect(picker.page.locator("[data-live-note]")).to_have_text(" · not up to date: the service does not answer")
    expect(picker.card("0.5").locator("[data-badge]")).to_have_text("2 free now")
    picker.now = TAKEN
    with picker.page.expect_response("**/picker*"):
        picker.page.clock.fast_forward(2 * LOOK_AGAIN_MS)
    expect(picker.page.locator("[data-live-note]")).to_have_text(" · updates as you watch")


def test_page_that_was_opened_without_the_service(picker: OpenPicker) -> None:
    """The notice goes as soon as there is an answer."""
    picker.open(picture=None, notice="What is free cannot be shown now.")
    expect(picker.page.get_by_text("What is free cannot be shown now.")).to_be_visible()
    picker.look_again()
    expect(picker.page.get_by_text("What is free cannot be shown now.")).to_have_count(0)
    expect(picker.card("0.5").locator("[data-badge]")).to_have_text("2 free now")


def test_project_and_kind_are_asked_with(picker: OpenPicker) -> None:
    """Another project or kind is asked about at once."""
    picker.open()
    with picker.page.expect_response("**/picker*share_project=team-b*"):
        picker.page.get_by_label("For which project?").select_option("team-b")
        picker.page.clock.fast_forward(1)
    with picker.page.expect_response("**/picker*share_kind=a100*"):
        picker.page.get_by_label("On which GPUs?").select_option("a100")
        picker.page.clock.fast_forward(1)
    assert all(path.startswith("/picker?for=x&sign=y") for path in picker.asked)


def test_own_share_is_judged_while_it_is_written(picker: OpenPicker) -> None:
    """Writing chooses the card; its answer is shown there, and goes when the field is emptied."""
    picker.open()
    field = picker.page.get_by_label("A share of your own")
    own = CardPicture("custom", "now", "3 free now", "12 GB guaranteed of an A100")
    picker.now = msgspec.structs.replace(FREE, cards=[*FREE.cards, own])
    with picker.page.expect_response("**/picker*share_custom=0.3*"):
        field.fill("0.3")
        picker.page.clock.fast_forward(500)
    expect(picker.card("custom").locator("[data-badge]")).to_have_text("3 free now")
    expect(picker.card("custom").get_by_role("radio")).to_be_checked()
    picker.now = FREE
    with picker.page.expect_response("**/picker*"):
        field.fill("")
        picker.page.clock.fast_forward(500)
    expect(picker.card("custom").locator("[data-badge]")).to_be_empty()
    expect(picker.card("custom").locator("[data-meaning]")).to_contain_text("for example 0.3..0.8")


def test_keyboard_alone_is_enough(picker: OpenPicker) -> None:
    """Tab reaches the choice, arrows move it past what cannot be had, and the focused card is seen to be."""
    picker.open()
    picker.card("0.5").get_by_role("radio").focus()
    picker.page.keyboard.press("ArrowUp")
    expect(picker.card("0.25").get_by_role("radio")).to_be_focused()
    assert picker.card("0.25").evaluate("card => getComputedStyle(card).outlineStyle") == "solid"
    picker.page.keyboard.press("ArrowDown")
    picker.page.keyboard.press("ArrowDown")
    expect(picker.card("custom").get_by_role("radio")).to_be_focused()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_text_can_be_read(picker: OpenPicker, theme: str, width: int) -> None:
    """Contrast AA (WCAG 2, 1.4.3) in both themes, and nothing is cut off on a telephone."""
    picker.page.set_viewport_size({"width": width, "height": 800})
    picker.open(picture=msgspec.structs.replace(TAKEN, is_simulated=True, projects=["team-a", "team-b"]), choice="0.25")
    picker.page.evaluate("theme => document.documentElement.dataset.bsTheme = theme", theme)
    assert picker.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    low = picker.page.evaluate(_CONTRASTS)
    assert low == []


# The colours as they are painted: over each other, and translucent ones mixed by a canvas.
_CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const painted = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const grounds = (element) => {
    const found = [];
    for (let each = element; each; each = each.parentElement) { found.unshift(getComputedStyle(each).backgroundColor); }
    return ['#fff', ...found];
  };
  const low = [];
  for (const element of document.querySelectorAll('.gpushare-picker *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest('.visually-hidden') || element.tagName === 'OPTION') { continue; }
    const under = grounds(element);
    const [a, b] = [painted(under), painted([...under, getComputedStyle(element).color])].map(luminance);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) { low.push(`${element.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`); }
  }
  return low;
}"""
