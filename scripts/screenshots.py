"""Takes the pictures of docs/images from this build: the demo in a real Chromium, in light and in dark.

Set CHROMIUM to the browser (`make screenshots` does).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page

IMAGES = Path(__file__).parent.parent / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
DEADLINE_MS = 60_000
ALLOCATE, COMPUTE, WIDGET = "cuda.allocate(", "cuda.compute(", "GpuShareWidget()"
DARK = '{"theme": "JupyterLab Dark"}'
THEMES = "lab/api/settings/@jupyterlab/apputils-extension:themes"


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
    target.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
    print(f"[screenshots] {name}")


def show_computing(page: Page, theme: str) -> None:
    """The whole Lab and the sidebar while a cell computes."""
    panel = open_panel(page)
    start(page, COMPUTE)
    expect(page.get_by_test_id("gpushare-state")).to_contain_text("running a cell")
    expect(page.get_by_test_id("gpushare-row-compute").first).to_contain_text(re.compile(r"[1-9]"))
    picture(page, f"lab-{theme}")
    picture(panel, f"sidebar-{theme}")
    expect(cell_with(page, COMPUTE).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]"))


def take_all(page: Page, url: str) -> None:
    """Every picture, light first."""
    page.goto(url)
    page.get_by_role("button", name="No", exact=True).click()  # to JupyterLab's news
    finish(page, ALLOCATE)
    show_computing(page, "light")
    finish(page, WIDGET)
    picture(cell_with(page, WIDGET).locator(".jp-OutputArea"), "widget")
    page.get_by_test_id("gpushare-release").click()
    page.get_by_test_id("gpushare-release-form").wait_for()
    picture(page.locator(".jp-Dialog-content"), "release")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+S")
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    parts = urlsplit(url)
    base = parts._replace(path=parts.path.partition("lab/")[0], query="").geturl()
    authorised = {"Authorization": f"token {parse_qs(parts.query)['token'][0]}"}
    page.request.put(base + THEMES, data={"raw": DARK}, headers=authorised)
    page.reload()
    show_computing(page, "dark")


def main() -> None:
    """Take all pictures."""
    expect.set_options(timeout=DEADLINE_MS)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with demo() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=FLAGS)
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        page.set_default_timeout(DEADLINE_MS)
        try:
            take_all(page, url)
        except AssertionError:
            page.screenshot(path="build/screenshot-failed.png")
            raise
        browser.close()


if __name__ == "__main__":
    main()
