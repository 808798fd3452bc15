"""The pages in a real Chromium: their script against a service that the test plays, and their layout at every width."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, urlsplit

import pytest
from jupyterhub._data import DATA_FILES_PATH  # type: ignore[import-untyped]  # JupyterHub has no types
from playwright.sync_api import expect

from jupyter_gpushare.hub.pages import STATIC, Asked, Frame, PageName, Waiting, render
from tests.hub.pages.worlds import crowd, drawing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Route, WebSocketRoute

    from tests.hub.pages.still import StillSite

pytestmark = pytest.mark.browser

ORIGIN = "http://hub.example"
PREFIX = "/services/gpushare/"
DEADLINE_MS = 60_000


@pytest.fixture(autouse=True)
def jp_asyncio_loop() -> None:
    """No event loop of pytest-jupyter's: Playwright has its own."""


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Nothing of pytest-jupyter's to clean up."""


class Played:
    """A service that a test plays: it serves pages of a site that stands still, and says what it likes on the socket.

    Attributes:
        sockets: the connections of the page that is open, oldest first.
        asked: the paths that were asked for besides pages and files, with the form that was sent.
        html: what it serves as its page.
    """

    def __init__(self, page: Page, site: StillSite) -> None:
        self.page = page
        self.site = site
        self.sockets: list[WebSocketRoute] = []
        self.asked: list[tuple[str, str]] = []
        self.html = ""
        page.route("**/*", self._answer)
        page.route_web_socket("**/*", lambda socket: self.sockets.append(socket))  # noqa: PLW0108  # a builtin is refused

    def open(
        self, name: str, person: str = "ana", *, is_live: bool = True, has_script: bool = True, **asked: Any
    ) -> str:
        """Visit a page; its HTML."""
        self.html = html_of(self.site, name, person, is_live=is_live, **asked)
        self.page.goto(f"{ORIGIN}{PREFIX}{name}")
        if is_live and has_script:
            self.wait(lambda: len(self.sockets) > 0)
        return self.html

    def send(self, **message: Any) -> None:
        """Say something to the page."""
        self.sockets[-1].send(json.dumps(message))

    def wait(self, holds: Any) -> None:
        """Wait until the browser has done what makes *holds* true."""
        for _ in range(DEADLINE_MS // 20):
            if holds():
                return
            self.page.wait_for_timeout(20)
        raise AssertionError("it never came")

    def _answer(self, route: Route) -> None:
        url = urlsplit(route.request.url)
        files = {"/hub/static/": Path(DATA_FILES_PATH) / "static", f"{PREFIX}static/": STATIC}
        for prefix, folder in files.items():
            if url.path.startswith(prefix):
                route.fulfill(path=str(folder / url.path.removeprefix(prefix)))
                return
        is_page = url.path.removeprefix(PREFIX) in set(PageName)
        if is_page and route.request.method == "GET":
            route.fulfill(body=self.html, content_type="text/html")
            return
        if url.path != "/hub/logo" and not url.path.endswith("favicon.ico"):
            self.asked.append((url.path, route.request.post_data or url.query))
        route.fulfill(body="<p>elsewhere</p>", content_type="text/html")


def html_of(site: StillSite, name: str, person: str, *, is_live: bool = True, **asked: Any) -> str:
    """A page, made in a thread of its own: Playwright's loop runs in this one."""
    frame = Frame(user=person, xsrf="our token", is_live=is_live)
    viewer = site.viewer(person, is_admin=person == "root")
    making = render(PageName(name), viewer, site, frame=frame, asked=Asked(**asked))

    async def make() -> str:
        return (await making).html

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, make()).result()


@pytest.fixture(name="page")
def _page(browser: Browser) -> Iterator[Page]:
    """A fresh page in a far-away time zone, whose errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id="Asia/Tokyo", locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(DEADLINE_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture(name="played")
def _played(page: Page) -> Played:
    """The small world, played."""
    return Played(page, drawing())


def test_what_is_sent_is_shown_in_its_place_and_the_page_says_that_it_is_live(played: Played) -> None:
    """The socket has the page's own address, and our token."""
    played.open("overview")
    address = urlsplit(played.sockets[0].url)
    assert (address.path, address.query) == (f"{PREFIX}live/overview", "_xsrf=our+token")
    expect(played.page.locator(".gs-live")).to_have_text(" · live")
    played.send(fragments={"queue": "<p>Everybody waits.</p>", "no-such-element": "<p>lost</p>"})
    expect(played.page.locator("#queue")).to_have_text("Everybody waits.")


def test_a_page_that_lost_its_connection_says_so_and_comes_back_by_itself(played: Played) -> None:
    """Nothing on it is wrong meanwhile, only old."""
    played.open("overview")
    played.sockets[0].close(code=1001, reason="the service stops")
    expect(played.page.locator(".gs-live")).to_have_text(" · not live, trying again")
    played.wait(lambda: len(played.sockets) > 1)
    expect(played.page.locator(".gs-live")).to_have_text(" · live")


def test_what_somebody_is_typing_is_not_taken_away(played: Played) -> None:
    """What came meanwhile is shown when they have finished."""
    played.open("admin", "root")
    answer = played.page.locator("#asks input[name=answer]").first
    answer.fill("on Friday")
    played.send(fragments={"asks": "<p>Nobody asks.</p>", "switch": "<p>seen</p>"})
    expect(played.page.locator("#switch")).to_have_text("seen")
    expect(answer).to_have_value("on Friday")
    answer.fill("")
    answer.blur()
    expect(played.page.locator("#asks")).to_have_text("Nobody asks.")


def test_the_keyboard_stays_where_it_is_and_what_is_open_stays_open(played: Played) -> None:
    """A card is written anew while its question is open and its button has the focus."""
    played.open("sessions")
    card = played.page.locator("#lease-id-climate")
    card.locator("summary").click()
    card.get_by_role("button", name="End climate").focus()
    inside = card.inner_html().replace("Running", "Still running")
    played.send(fragments={"lease-id-climate": inside.replace("<details open", "<details")})
    expect(card).to_contain_text("Still running")
    expect(card.get_by_role("button", name="End climate")).to_be_focused()


def test_a_page_that_is_to_be_left_is_left_once(played: Played) -> None:
    """The share is granted: on to the hub, which starts the server."""
    waiting = Waiting(server="", share="0.5", project="team-a", state="waiting", cancel_url="wait/")
    played.open("wait", waiting=waiting)
    played.send(go="/hub/spawn/ana?gpushare=0.5")
    played.page.wait_for_url("**/hub/spawn/ana?*")
    assert played.asked == [("/hub/spawn/ana", "gpushare=0.5")]


def test_a_granted_share_is_taken_by_the_page_itself(played: Played) -> None:
    """The form is sent as soon as it is shown; without a script there is its button."""
    fields = [("gpushare", "0.5"), ("_xsrf", "the hub's")]
    waiting = Waiting(
        server="", share="0.5", project="team-a", state="granted", spawn_url="/hub/spawn/ana", spawn_fields=fields
    )
    played.open("wait", is_live=False, waiting=waiting)
    played.page.wait_for_url("**/hub/spawn/ana")
    assert played.asked == [("/hub/spawn/ana", "gpushare=0.5&_xsrf=the+hub%27s")]


def test_a_place_in_line_is_told_to_those_who_cannot_see_it(played: Played) -> None:
    """Politely, and in the tab's title."""
    lease = played.site.view.lease(played.site.books.leases["id-forms"])
    waiting = Waiting(server="", share="2x0.5", project="team-a", state="waiting", lease=lease, cancel_url="wait/")
    played.open("wait", waiting=waiting)
    said = played.page.locator("#gpushare-said")
    expect(said).to_have_text("Waiting for a GPU share: 1st in line")
    expect(said).to_have_attribute("aria-live", "polite")
    expect(played.page).to_have_title("1st in line – Waiting for a GPU share")  # noqa: RUF001  # as it is written


def test_who_has_no_script_is_still_waiting(browser: Browser) -> None:
    """The page asks again by itself, every few seconds, and is as new as that."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(DEADLINE_MS)
    waiting = Waiting(server="", share="0.5", project="team-a", state="waiting", cancel_url="wait/")
    played = Played(page, drawing())
    html = played.open("wait", has_script=False, waiting=waiting)
    played.html = html.replace("by itself", "one day")
    expect(page.locator("#wait")).to_contain_text("one day", timeout=DEADLINE_MS)
    context.close()


def test_times_are_the_readers_own(played: Played) -> None:
    """13:02 in UTC is 22:02 in Tokyo; of another day than today it says which."""
    played.page.clock.set_fixed_time("2026-11-30T12:00:00Z")
    played.open("sessions")
    assert played.page.locator("#lease-id-climate time").inner_text() == "22 Nov, 22:02"
    assert "Japan" in (played.page.locator("#lease-id-climate time").get_attribute("title") or "")


def test_pressing_enter_in_the_reason_does_nothing_until_a_row_is_chosen(played: Played) -> None:
    """And then it is that row's lease, with the reason."""
    played.open("admin", "root", is_live=False)
    why = played.page.locator("#reclaim-form input[name=why]")
    why.fill("maintenance")
    why.press("Enter")
    played.page.get_by_role("button", name="Reclaim maps of bo").click()
    played.page.wait_for_url("**/actions/reclaim")
    [(path, body)] = played.asked
    assert path == f"{PREFIX}actions/reclaim"
    assert body.endswith("why=maintenance&lease=id-maps")


def test_an_owner_adds_and_removes_members_by_keyboard(played: Played) -> None:
    """Each field is found by its label, and each button says whom it takes out."""
    played.open("project", "cy", is_live=False)
    added = played.page.get_by_label("New member")
    added.fill("dee")
    added.press("Enter")
    played.page.wait_for_url("**/actions/add-member")
    played.open("project", "cy", is_live=False)
    played.page.get_by_role("button", name="Remove cy from the project").press("Enter")
    played.page.wait_for_url("**/actions/remove-member")
    sent = [(path.rpartition("/")[2], dict(parse_qsl(body))) for path, body in played.asked]
    assert [(name, form["project"], form["person"]) for name, form in sent] == [
        ("add-member", "team-a", "dee"),
        ("remove-member", "team-a", "cy"),
    ]
    assert all(form["_xsrf"] == "our token" and form["next"].endswith("project?project=team-a") for _, form in sent)


def test_no_page_is_wider_than_its_window(page: Page) -> None:
    """From a phone to a large screen nothing has to be scrolled sideways but wide tables, each by itself."""
    for site, name, person in (
        *((drawing(), name, "root") for name in ("overview", "project", "admin")),
        (drawing(), "sessions", "ana"),
        (crowd(), "overview", "user-3"),
    ):
        Played(page, site).open(name, person, is_live=False)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        for width in (360, 768, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert (name, person, width, too_wide) == (name, person, width, 0)
        page.unroute_all()


def test_on_a_phone_no_table_is_cut(page: Page) -> None:
    """What stands in it on a phone is what people look for there, and all of it can be seen at once."""
    page.set_viewport_size({"width": 390, "height": 844})
    for name, person in (("overview", "ana"), ("sessions", "ana"), ("project", "cy")):
        Played(page, drawing()).open(name, person, is_live=False)
        hidden = page.locator(".table-responsive:visible").evaluate_all(
            "tables => tables.map((each) => each.scrollWidth - each.clientWidth)"
        )
        assert (name, hidden) == (name, [0] * len(hidden))
        assert hidden, name
        page.unroute_all()


def test_a_host_s_long_name_leaves_its_devices_their_numbers(played: Played) -> None:
    """Else all of a host's rows would read alike."""
    played.page.set_viewport_size({"width": 390, "height": 844})
    played.open("overview", is_live=False)
    played.html = played.html.replace("host-1", "gpu-node-17.cluster.example.org")
    played.page.reload()
    name = played.page.locator(".gs-device").first
    expect(name).to_have_text("gpu-node-17.cluster.example.org · 0")
    host = name.locator("span")
    assert host.evaluate("part => part.scrollWidth > part.clientWidth"), "the host's name is cut"
    cell = played.page.locator(".gs-devices th[scope=row]").first
    assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth"), "its number is not"


def test_every_word_can_be_read(page: Page) -> None:
    """Text against its ground has at least the contrast that WCAG 2.1 asks for (AA, 4.5), in light and dark."""
    for name, person in (("overview", "ana"), ("sessions", "ana"), ("project", "cy"), ("admin", "root")):
        Played(page, drawing()).open(name, person, is_live=False)
        for theme in _THEMES:
            # The hub's style moves from one colour to the other, but not for those who want no motion.
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
            assert (theme, name, page.evaluate(_FAINT)) == (theme, name, [])
        page.unroute_all()


_THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# The contrast of each text of ours with the first ground below it that is not transparent.
_FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, ground) => top.slice(0, 3).map((c, i) => (c * top[3] + ground[i] * (255 - top[3])) / 255);
  const light = (color) => {
    const [r, g, b] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [];
  for (const element of document.querySelectorAll("#gpushare-main *")) {
    const own = [...element.childNodes].filter((n) => n.nodeType === 3 && n.data.trim());
    if (!own.length || !element.checkVisibility() || element.closest("svg, .visually-hidden")) continue;
    const below = ground(element);
    const [a, b] = [light(over(rgba(getComputedStyle(element).color), below)), light(below)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) found.push(`${element.tagName}.${element.className} ${contrast.toFixed(2)} ${element.textContent.trim().slice(0, 30)}`);
  }
  return found;
}"""
