"""The sidebar in a real browser: own rows with the right bytes, releases that are true, troubles that are told."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

from tests.browser.sidebar import Sidebar, open_notebook, run_cell

if TYPE_CHECKING:
    from tests.browser.conftest import Lab

pytestmark = pytest.mark.browser

ALLOCATE = """
from jupyter_gpushare.devices.simulated import cuda
kept, dropped = cuda.allocate("3GiB"), cuda.allocate("5GiB")
"""
# What the device shows: 8 GiB, then 3 GiB, each with the context's own memory.
ALL, KEPT = "9.0 GB", "3.6 GB"


def test_a_notebook_is_seen_and_gives_its_cache_back(page: Page, lab: Lab) -> None:
    """Memory that a cell allocates appears in the notebook's own row; Release gives the unused part back, truly."""
    name = lab.add_notebook("release.ipynb", ALLOCATE, "dropped.free()", "assert kept.size == 3 << 30")
    open_notebook(page, lab, name)
    sidebar = Sidebar(page).open()
    expect(sidebar.row(name)).to_have_count(0)
    run_cell(page, 0)
    expect(sidebar.memory(name)).to_have_text(re.compile(ALL))
    run_cell(page, 1)
    sidebar.choose_release(name, "free_cache")
    expect(sidebar.state).to_contain_text("5.4 GB given back. 3.6 GB are still held by variables and the GPU context.")
    expect(sidebar.memory(name)).to_have_text(re.compile(KEPT))
    run_cell(page, 2)


def test_the_panel_at_start_leaves_the_focus_in_the_notebook(page: Page, lab: Lab) -> None:
    """Who opens a notebook and types at once moves in the notebook, though the panel has opened beside it."""
    open_notebook(page, lab, lab.add_notebook("focus.ipynb", "1", "2"))
    Sidebar(page).open()
    first, second = page.locator(".jp-Notebook .jp-CodeCell").all()
    expect(first).to_have_class(re.compile("jp-mod-active"))
    expect(page.locator(".jp-Notebook:focus-within")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(second).to_have_class(re.compile("jp-mod-active"))


def test_ending_a_kernel_is_confirmed_and_attested(page: Page, lab: Lab) -> None:
    """Ending a kernel says first what is lost, and afterwards what the device shows free."""
    name = lab.add_notebook("end.ipynb", ALLOCATE)
    open_notebook(page, lab, name)
    sidebar = Sidebar(page).open()
    run_cell(page, 0)
    expect(sidebar.memory(name)).to_have_text(re.compile(ALL))
    sidebar.choose_release(name, "end_kernel")
    expect(page.locator(".jp-Dialog")).to_contain_text(f"Every variable of {name} will be lost; saved files stay.")
    page.locator(".jp-gpushare-confirm").click()
    expect(sidebar.state).to_contain_text(f"{name} ended; 9.0 GB given back.")
    expect(sidebar.row(name)).to_have_count(0)


def test_a_terminal_has_its_own_row(page: Page, lab: Lab) -> None:
    """GPU use that starts in a terminal is shown outside the notebooks, under the terminal's name."""
    page.goto(lab.url())
    sidebar = Sidebar(page).open()
    page.locator('.jp-LauncherCard[title*="terminal" i]').click()
    expect(page.locator(".jp-Terminal .xterm-screen")).to_be_visible()
    page.locator(".jp-Terminal .xterm-screen").click()
    page.keyboard.type(
        f"{sys.executable} -c \"from jupyter_gpushare.devices.simulated import cuda; b = cuda.allocate('2GiB'); input()\"\n"
    )
    expect(sidebar.process(re.compile("Terminal 1"))).to_contain_text("2.6 GB")
    page.keyboard.type("\n")
    expect(sidebar.process(re.compile("Terminal 1"))).to_have_count(0)


def test_another_holder_is_anonymous(page: Page, lab: Lab) -> None:
    """The neighbour on the same GPU appears as others' memory and a count, without a name or a process id."""
    page.goto(lab.url())
    sidebar = Sidebar(page).open()
    expect(sidebar.panel.get_by_test_id("gpushare-other-holders").first).to_contain_text("1 other process")
    expect(sidebar.panel.get_by_test_id("gpushare-process-row")).to_have_count(0)


def test_keyboard_alone_is_enough(page: Page, lab: Lab) -> None:
    """From the command palette to a release dialog and out again without a mouse."""
    page.goto(lab.url())
    expect(page.locator(".jp-Launcher")).to_be_visible()
    Sidebar(page).open().close()
    page.keyboard.press("Control+Shift+C")
    page.keyboard.type("GPU share")
    expect(page.locator(".lm-CommandPalette-item").first).to_contain_text("GPU")
    page.keyboard.press("Enter")
    panel = Sidebar(page).panel
    expect(panel).to_be_visible()
    release = panel.get_by_test_id("gpushare-release")
    release.focus()
    expect(release).to_be_focused()


@pytest.mark.parametrize("width", [560, 1600])
def test_narrow_and_wide(page: Page, lab: Lab, width: int) -> None:
    """Nothing in the panel overflows sideways, however narrow the window is."""
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(lab.url())
    panel = Sidebar(page).open().panel
    expect(panel.get_by_test_id("gpushare-share")).to_contain_text("½ GPU guaranteed")
    assert panel.evaluate("element => element.scrollWidth <= element.clientWidth")


def test_two_tabs_agree(browser: object, page: Page, lab: Lab) -> None:
    """A second tab shows the same share, and closing it leaves the first one live."""
    page.goto(lab.url())
    first = Sidebar(page).open()
    other_page = page.context.new_page()
    other_page.goto(lab.url().replace("w-empty", "w-second"))
    second = Sidebar(other_page).open()
    expect(second.panel.get_by_test_id("gpushare-share")).to_contain_text("½ GPU guaranteed")
    other_page.close()
    expect(first.state).not_to_contain_text("lost contact")


def test_the_running_panel_lists_gpu_kernels(page: Page, lab: Lab) -> None:
    """Kernels that hold a GPU stand in a section of their own in Lab's Running panel."""
    name = lab.add_notebook("running.ipynb", ALLOCATE)
    open_notebook(page, lab, name)
    run_cell(page, 0)
    page.locator('.jp-SideBar .lm-TabBar-tab[title*="Running"]').click()
    expect(page.locator(".jp-gpushare-RunningItem").filter(has_text=name)).to_contain_text("9.0 GB")
