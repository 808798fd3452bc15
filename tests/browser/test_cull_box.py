"""What Lab shows before a hub stops a server that nobody uses: the box in the sidebar, and its button, which keeps it."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pytest
from playwright.sync_api import expect

from jupyter_gpushare.demo.hub.staging import ANA, BO, two_teams
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from tests.browser.sidebar import Sidebar
from tests.browser.test_hub import Window
from tests.hub.staged_hub import staged, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator

    from jupyter_gpushare.demo.hub.visitor import Visitor
    from tests.hub.staged_hub import StagedHub

pytestmark = pytest.mark.browser

PICTURES: Final = Path("build") / "hub"
#: A server that nobody has used for this long is stopped; its person is warned for most of that time.
CULLING: Final = """
[culling]
stop_after = "60s"
warning = "50s"
check_every = "10s"
"""
WORDS: Final = re.compile(
    r"^Nobody has used this server for \d+ s\. It is stopped at \d\d:\d\d: kernels and their variables end, "
    r"files stay\. Run a cell or keep it\. 0:\d\d"
)
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
#: The contrast that WCAG 2.1 asks for between text and its ground (AA).
READABLE: Final = 4.5
# Of each piece of text in the box, its contrast with the first ground below it that is not transparent.
CONTRASTS: Final = """(box) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, ground) => ground.map((c, i) => (top[i] * top[3] + c * (255 - top[3])) / 255);
  const light = (color) => {
    const part = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = color.map((c) => part(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const texts = [...box.querySelectorAll("*")].filter(
    (each) => each.checkVisibility() && [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()),
  );
  return texts.map((each) => {
    const below = ground(each);
    const [a, b] = [light(over(rgba(getComputedStyle(each).color), below)), light(below)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}"""


@pytest.fixture(scope="module")
def site() -> Iterator[StagedHub]:
    """A hub that stops what nobody uses; its Lab is as dark as the browser's system."""
    with staged(two_teams("1") + CULLING, devices=[DeviceSpec()], idle_timeout_s=None) as staged_hub:
        _follow_the_system(staged_hub)
        with ThreadPoolExecutor(1) as pool:  # Playwright has this thread's event loop
            pool.submit(staged_hub.start).result()
        yield staged_hub


def _follow_the_system(site: StagedHub) -> None:
    (file,) = site.workspace.root.glob("*/labconfig/default_setting_overrides.json")
    chosen = json.loads(file.read_text(encoding="utf-8"))
    chosen["@jupyterlab/apputils-extension:themes"] = {"adaptive-theme": True}
    file.write_text(json.dumps(chosen), encoding="utf-8")


@pytest.fixture
def ana(browser: Browser, site: StagedHub) -> Iterator[Window]:
    """Ana's browser; her pages may have had no error."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    window = Window(context, site, ANA)
    yield window
    context.close()
    assert window.errors == []


def test_the_box_says_what_ends_and_its_button_keeps_it(site: StagedHub, ana: Window) -> None:
    """Ana presses it and her server stays; bo, who came after her and does not look, has his stopped."""
    ana.open_picker()
    ana.pick("0.5")
    sidebar = Sidebar(ana.page).open()
    box = sidebar.panel.get_by_test_id("gpushare-culling")
    with ThreadPoolExecutor(1) as pool:
        is_hers_left = pool.submit(lambda: asyncio.run(_see_bo_stopped(site)))
        expect(box).to_be_visible()
        expect(box).to_have_text(WORDS)
        expect(ana.page.get_by_role("alert")).to_contain_text(re.compile(r"^Less than \d\d seconds left\. Nobody"))
        left = box.get_by_test_id("gpushare-culling-left")
        expect(left).not_to_have_text(left.inner_text())  # it counts
        for theme in THEMES:
            ana.page.emulate_media(color_scheme=theme)
            _look_at(box, theme)
        box.get_by_role("button", name="Keep this server for 1 hour").click()
        expect(box).to_have_count(0)
        expect(ana.page.locator("body")).to_contain_text(re.compile(r"Nothing here ends by itself until \d\d:\d\d\."))
        assert is_hers_left.result()
    expect(box).to_have_count(0)


def _look_at(box: Locator, theme: str) -> None:
    """Lab is in that theme, the box lies apart in the sidebar and can be read, and there is a picture of it."""
    page = box.page
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "true" if theme == "light" else "false")
    outer = page.get_by_test_id("gpushare-panel").bounding_box()
    assert outer is not None
    for part in (box, box.get_by_role("button")):
        inner = part.bounding_box()
        assert inner is not None
        assert outer["x"] <= inner["x"], theme
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"], theme
        below = page.get_by_test_id("gpushare-state").bounding_box()
        assert below is not None
        assert inner["y"] + inner["height"] < below["y"], theme
    assert min(box.evaluate(CONTRASTS)) >= READABLE, theme
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"cull-box-{theme}.png", animations="disabled")


async def _see_bo_stopped(site: StagedHub) -> bool:
    """Start bo's server, wait until the hub has stopped it; whether ana's is still there."""
    async with site.visitors(ANA, BO) as (ana, bo):
        await bo.spawn("0.5")
        await bo.until_ready()

        async def is_gone() -> bool:
            return not await _is_there(bo)

        await until("the end of bo's server", is_gone)
        return await _is_there(ana)


async def _is_there(visitor: Visitor) -> bool:
    record = await visitor.server()
    return record is not None and bool(record["ready"] or record["pending"])
