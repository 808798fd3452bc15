"""JupyterLab's start in a real Chromium: how long it takes, and which of an extension's files it fetches."""

from __future__ import annotations

import gzip
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Response

    from benchmarks.servers import Server

__all__ = ["NoChromiumError", "chromium", "javascript_at_start", "start_ms"]

_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_DEADLINE_MS: Final = 60_000
_EXTENSIONS: Final = "/lab/extensions/"
# Lab puts its application into ``window`` before it starts; the clock is the page's own, from the navigation on.
_NOTE_RESTORED: Final = """
Object.defineProperty(window, 'jupyterapp', {
  configurable: true,
  set(app) {
    Object.defineProperty(window, 'jupyterapp', { value: app, writable: true, configurable: true });
    app.restored.then(() => { window.restoredAt = performance.now(); });
  }
});
"""
# What an extension fetches a little later, such as on the first idle moment, still is its start.
_AFTERMATH_MS: Final = 3_000


class NoChromiumError(RuntimeError):
    """No Chromium was found; the message says how to name one."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser inside the block.

    Raises:
        NoChromiumError: there is none.
    """
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise NoChromiumError("no Chromium was found: install one, or set CHROMIUM=/path/to/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def start_ms(browser: Browser, server: Server) -> float:
    """Milliseconds from the navigation to Lab's layout being restored, with an empty cache."""
    with _tab(browser) as page:
        return _open(page, server)


def javascript_at_start(browser: Browser, server: Server) -> dict[str, int]:
    """The files of the server's lab extensions that one start fetches, with their sizes in bytes as gzip packs them."""
    answers: list[Response] = []

    # Playwright sets an attribute on what it calls, which a list's own method does not take.
    def note(answer: Response) -> None:
        answers.append(answer)

    with _tab(browser) as page:
        page.on("response", note)
        _open(page, server)
        page.wait_for_timeout(_AFTERMATH_MS)
        return {path: len(gzip.compress(answer.body())) for answer in answers if (path := _extension_file(answer.url))}


def _extension_file(url: str) -> str:
    path = urlsplit(url).path
    return path.partition(_EXTENSIONS)[2] if _EXTENSIONS in path and path.endswith(".js") else ""


@contextmanager
def _tab(browser: Browser) -> Iterator[Page]:
    """A page in a profile of its own: nothing is in its cache."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.set_default_timeout(_DEADLINE_MS)
        page.add_init_script(_NOTE_RESTORED)
        yield page
    finally:
        context.close()


def _open(page: Page, server: Server) -> float:
    page.goto(f"{server.url}lab?token={server.token}&reset")
    restored = page.wait_for_function("window.restoredAt")
    return float(restored.json_value())
