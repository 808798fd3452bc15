"""Takes the pictures of docs/images from this build: the demo and a hub in a real Chromium.

Set CHROMIUM to the browser (`make screenshots` does).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, expect, sync_playwright

from scripts.hub_pictures import take_hub_pictures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
DEADLINE_MS = 60_000
ALLOCATE, MAGIC, COMPUTE, WIDGET = "cuda.allocate(", "%gpushare", "cuda.compute(", "GpuShareWidget()"
COMPARE = "weights.checksum() == checksum"
TOASTS = ".jp-toastContainer, .Toastify__toast-container { visibility: hidden }"  # they may lie on what is shown


@contextlib.contextmanager
def demo() -> Iterator[str]:
    """The address of a running demo, which ends with the block."""
    command = ["jupyter", "gpushare", "demo", "--json", "--no-browser", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101  # narrows the type
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGINT)


def cell_with(page: Page, text: str) -> Locator:
    """The first code cell that contains *text*."""
    return page.locator(".jp-CodeCell").filter(has_text=text).first


def start(page: Page, text: str) -> None:
    """Start the cell that contains *text*, once the kernel is ready for it."""
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle")
    cell_with(page, text).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")


def finish(page: Page, text: str) -> None:
    """Run the cell that contains *text* to its end."""
    start(page, text)
    expect(cell_with(page, text).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]"))


def open_panel(page: Page) -> Locator:
    """The sidebar, opened from the status bar unless it is open."""
    panel = page.get_by_test_id("gpushare-panel")
    page.get_by_test_id("gpushare-status").wait_for()
    if not panel.is_visible():
        page.get_by_test_id("gpushare-status").click()
    expect(panel).to_have_attribute("data-contact", "live")
    return panel


def picture(target: Page | Locator, name: str) -> None:
    """Save *target* as docs/images/*name*.png."""
    style = TOASTS if isinstance(target, Locator) else ""
    target.screenshot(path=IMAGES / f"{name}.png", animations="disabled", style=style)
    print(f"[screenshots] {name}")


def show_computing(page: Page, theme: str) -> None:
    """The whole Lab and the sidebar while a cell computes for the second time: the chart has something to show."""
    panel = open_panel(page)
    finish(page, COMPUTE)
    start(page, COMPUTE)
    expect(page.get_by_test_id("gpushare-state")).to_contain_text("welcome.ipynb is running a cell")
    expect(page.get_by_test_id("gpushare-row-compute").first).to_contain_text(re.compile(r"[3-9]\d"))
    cell_with(page, ALLOCATE).evaluate("cell => cell.scrollIntoView({ block: 'start' })")
    picture(page, f"lab-{theme}")
    picture(panel, f"sidebar-{theme}")
    expect(cell_with(page, COMPUTE).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]"))


def expect_state(page: Page, code: str) -> None:
    """Wait until the sidebar says it."""
    expect(page.get_by_test_id("gpushare-state")).to_have_attribute("data-state", code)


def show_parking(page: Page, theme: str) -> None:
    """The way of an idle notebook: counted down, parked, its share lent, resumed by a cell."""
    panel = open_panel(page)
    expect_state(page, "COUNTING_DOWN")
    cell_with(page, COMPARE).evaluate("cell => cell.scrollIntoView({ block: 'center' })")
    picture(panel, f"counting-down-{theme}")
    page.get_by_test_id("gpushare-release").click()
    expect_state(page, "PARKED")
    picture(panel, f"parked-{theme}")
    page.get_by_test_id("gpushare-lent-to").wait_for()
    expect(page.get_by_test_id("gpushare-other-holders").first).to_contain_text("2 other processes")
    picture(page, f"lab-parked-{theme}")
    picture(panel, f"lent-{theme}")
    start(page, COMPARE)
    expect_state(page, "RESUMING")
    expect(page.get_by_test_id("gpushare-row-memory").first).to_contain_text(re.compile(r"^[2-6]\.\d of"))
    picture(panel, f"resuming-{theme}")
    expect_state(page, "RESUMED")


def show_release(page: Page) -> None:
    """The choice, what is announced before a kernel ends, and what the device shows afterwards."""
    page.get_by_test_id("gpushare-row-menu").click()
    page.get_by_role("menuitem").filter(has_text="Release GPU Memory").click()
    page.get_by_test_id("gpushare-release-form").wait_for()
    picture(page.locator(".jp-Dialog-content"), "release")
    page.get_by_test_id("gpushare-level-end_kernel").click()
    page.locator(".jp-gpushare-accept").click()
    page.locator(".jp-gpushare-confirm").wait_for()
    picture(page.locator(".jp-Dialog-content"), "confirm")
    page.locator(".jp-gpushare-confirm").click()
    expect(page.get_by_test_id("gpushare-state")).to_contain_text("given back")
    expect(page.get_by_test_id("gpushare-memory")).to_have_text("0.0 GB")
    picture(page.get_by_test_id("gpushare-panel"), "released")


def save_setting(page: Page, url: str, plugin: str, value: dict[str, str]) -> None:
    """Save *value* as the settings of one of Lab's plugins; pages loaded afterwards have it."""
    parts = urlsplit(url)
    base = parts._replace(path=parts.path.partition("lab/")[0], query="").geturl()
    authorised = {"Authorization": f"token {parse_qs(parts.query)['token'][0]}"}
    address = f"{base}lab/api/settings/@jupyterlab/apputils-extension:{plugin}"
    page.request.put(address, data={"raw": json.dumps(value)}, headers=authorised)


def take_lab(page: Page, url: str) -> None:
    """Every picture of Lab, light first."""
    save_setting(page, url, "notification", {"fetchNews": "false"})  # else Lab asks about its news, sometimes
    page.goto(url)
    open_panel(page)
    finish(page, ALLOCATE)
    expect(page.get_by_test_id("gpushare-row-memory")).to_have_text("6.9 GB")
    finish(page, MAGIC)
    picture(cell_with(page, MAGIC).locator(".jp-gpushare-card"), "magic")
    show_computing(page, "light")
    finish(page, WIDGET)
    expect(cell_with(page, WIDGET).locator(".jp-OutputArea")).to_contain_text("still held")
    picture(cell_with(page, WIDGET).locator(".jp-gpushare-card"), "widget")
    page.keyboard.press("Control+S")
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    save_setting(page, url, "themes", {"theme": "JupyterLab Dark"})
    page.reload()
    show_parking(page, "dark")
    show_computing(page, "dark")
    save_setting(page, url, "themes", {"theme": "JupyterLab Light"})
    page.reload()
    show_parking(page, "light")
    show_release(page)


def main() -> None:
    """Take all pictures."""
    expect.set_options(timeout=DEADLINE_MS)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=FLAGS)
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        page.set_default_timeout(DEADLINE_MS)
        with demo() as url:
            try:
                take_lab(page, url)
            except (AssertionError, PlaywrightError):
                page.screenshot(path="build/screenshot-failed.png")
                raise
        browser.close()
    asyncio.run(take_hub_pictures(os.environ["CHROMIUM"]))


if __name__ == "__main__":
    main()
