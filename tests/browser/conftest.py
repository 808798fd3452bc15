"""A real JupyterLab with simulated GPUs, started as a user starts the demo, in a real Chromium."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import nbformat
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_MS = 60_000

expect.set_options(timeout=DEADLINE_MS)


@pytest.fixture(autouse=True)
def jp_asyncio_loop() -> None:
    """No event loop of pytest-jupyter's: Playwright has its own, and the server runs in another process."""


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Nothing of pytest-jupyter's to clean up."""


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address without a path, its token, and where notebooks and devices are."""

    root_url: str
    token: str
    notebooks: Path
    machine: Path
    pid: int

    def url(self, path: str = "") -> str:
        """The address of a document in Lab; a workspace of its own each, so that tests do not meet."""
        workspace = f"w-{path.replace('.', '-') or 'empty'}"
        tree = f"/tree/{path}" if path else ""
        return f"{self.root_url}lab/workspaces/{workspace}{tree}?token={self.token}&reset"

    def add_notebook(self, name: str, *cells: str, idle_timeout: str = "") -> str:
        """Write a notebook with these code cells; its name. *idle_timeout* is what its metadata says of parking."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        if idle_timeout:
            notebook.metadata["gpushare"] = {"idle_timeout": idle_timeout}
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.notebooks / name)
        return name

    def ask(self, method: str, path: str) -> Any:
        """The server's answer to a request past the browser, as JSON; None for an empty one."""
        headers = {"Authorization": f"token {self.token}"}
        with urlopen(Request(self.root_url + path, method=method, headers=headers)) as answer:  # noqa: S310  # our own
            return json.loads(answer.read() or b"null")

    def seconds_sampled(self) -> float:
        """When the server's newest sample was taken, in seconds since the epoch."""
        return float(self.ask("GET", "gpushare/api/v1/session?no_track_activity=1")["at"])


@pytest.fixture(name="lab", scope="module")
def _lab() -> Iterator[Lab]:
    """The demo, as ``jupyter gpushare demo`` starts it."""
    command = [sys.executable, "-m", "jupyter_gpushare.app", "demo", "--no-browser", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        facts = json.loads(process.stdout.readline())
        address = urlsplit(facts["url"])
        notebooks = Path(facts["directory"])
        yield Lab(
            root_url=f"{address.scheme}://{address.netloc}{address.path.partition('lab/')[0]}",
            token=parse_qs(address.query)["token"][0],
            notebooks=notebooks,
            machine=notebooks.parent / "machine",
            pid=facts["pid"],
        )
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()


@pytest.fixture(name="tabs", scope="module")
def _tabs(browser: Browser) -> Iterator[BrowserContext]:
    """One window for all tests of a Lab, which a page of its own keeps open: a new one takes a second to open."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, permissions=[])
    context.new_page()
    yield context
    context.close()


@pytest.fixture(name="page")
def _page(tabs: BrowserContext) -> Iterator[Page]:
    """A fresh page whose errors fail the test."""
    page = tabs.new_page()
    page.set_default_timeout(DEADLINE_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.stack or str(error)))
    yield page
    for tab in tabs.pages[1:]:
        tab.close()
    tabs.set_offline(False)
    assert [error for error in errors if not _is_expected(error)] == []


def _is_expected(error: str) -> bool:
    """Lab's own polls reject unhandled while a page is offline, and its commands when our guard lets nothing end."""
    return ("Failed to fetch" in error and "jlab_core" in error) or "Nothing was ended: what is parked" in error
