"""What a person does in JupyterLab, for tests to say in their words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import Locator, Page, expect

if TYPE_CHECKING:
    from tests.browser.conftest import Lab

__all__ = ["Sidebar", "open_notebook", "run_cell", "start_cell"]

_ATTEMPTS = 5


class Sidebar:
    """The GPU share panel of one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.panel = page.get_by_test_id("gpushare-panel")

    def open(self) -> Sidebar:
        """Wait for the panel, which the demo shows at start."""
        expect(self.panel).to_be_visible()
        return self

    def close(self) -> None:
        """Click the panel's icon in the side bar, which hides what is shown."""
        self.page.locator('.jp-SideBar .lm-TabBar-tab[title*="GPU share"]').click()
        expect(self.panel).to_be_hidden()

    @property
    def state(self) -> Locator:
        """The state box."""
        return self.panel.get_by_test_id("gpushare-state")

    def row(self, notebook: str) -> Locator:
        """The row of one notebook."""
        return self.panel.get_by_test_id("gpushare-kernel-row").filter(has_text=notebook)

    def memory(self, notebook: str) -> Locator:
        """What the row of one notebook says about memory."""
        return self.row(notebook).get_by_test_id("gpushare-row-memory")

    def process(self, name: str | re.Pattern[str]) -> Locator:
        """The row of GPU use outside notebooks."""
        return self.panel.get_by_test_id("gpushare-process-row").filter(has_text=name)

    def press(self, button: str) -> None:
        """Press one of the panel's buttons."""
        self.panel.get_by_test_id(f"gpushare-{button}").click()

    def choose_release(self, notebook: str, level: str) -> None:
        """Open the menu of a row, ask for the choices of Release and take one."""
        self.row(notebook).get_by_test_id("gpushare-row-menu").click()
        self.page.get_by_role("menuitem").filter(has_text="Release GPU Memory").click()
        self.page.get_by_test_id(f"gpushare-level-{level}").click()
        self.page.locator(".jp-gpushare-accept").click()


def open_notebook(page: Page, lab: Lab, name: str) -> None:
    """Open a notebook and wait until its kernel is idle."""
    page.goto(lab.url(name))
    expect(page.locator(".jp-NotebookPanel")).to_be_visible()
    # The notebook's own indicator says idle before there is a kernel, and a cell run then asks for one.
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle")


def run_cell(page: Page, index: int) -> None:
    """Run one code cell and wait until it ended without an error."""
    cell = start_cell(page, index)
    expect(cell.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"))
    expect(cell.locator('[data-mime-type="application/vnd.jupyter.stderr"]')).to_have_count(0)


def start_cell(page: Page, index: int) -> Locator:
    """Start one code cell that was not run yet; the cell."""
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(index)
    prompt = cell.locator(".jp-InputPrompt")
    expect(prompt).to_have_text("[ ]:")
    for _ in range(_ATTEMPTS):
        # While Lab still draws a notebook it may move the focus between the click and the key, as any user has seen.
        cell.locator(".cm-content").click()
        cell.locator(".cm-content").press("Control+Enter")
        if _has_started(prompt):
            break
    return cell


def _has_started(prompt: Locator) -> bool:
    try:
        expect(prompt).not_to_have_text("[ ]:", timeout=3000)
    except AssertionError:
        return False
    return True
