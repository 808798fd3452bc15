"""Parking in a real browser: what the panel says at each moment is what the machine shows, and nothing is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, Page, expect

from jupyter_gpushare.devices.simulated.source import SimulatedSource
from tests.browser.sidebar import Sidebar, open_notebook, run_cell, start_cell
from tests.browser.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.browser.conftest import Lab

pytestmark = pytest.mark.browser

PICTURES = Path("build") / "parking"
ALLOCATE = """
from jupyter_gpushare.devices.simulated import cuda
kept = cuda.allocate("3GiB")
kept.fill(7)
before = kept.checksum()
import os
print("pid", os.getpid())
"""
COMPARE = "print('intact' if kept.checksum() == before else 'damaged')"
WORK_ON = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='loader').start()"
HELD = "3.6 GB"  # 3 GiB and the context


class Notebook:
    """One notebook that holds GPU memory: in the browser, and on the machine."""

    def __init__(self, page: Page, lab: Lab, devices: SimulatedSource, name: str) -> None:
        self.page, self.lab, self.name, self.devices = page, lab, name, devices
        open_notebook(page, lab, name)
        self.sidebar = Sidebar(page).open()
        run_cell(page, 0)
        expect(self.sidebar.memory(name)).to_have_text(HELD)
        self.kernel_id = self.sidebar.row(name).get_attribute("data-kernel-id")
        self.pid = int(self.output(0).inner_text().split()[1])
        self.witness = Witness(page, devices, self.pid)

    def cell(self, index: int) -> Locator:
        """One code cell."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def prompt(self, index: int) -> Locator:
        """What stands before one code cell."""
        return self.cell(index).locator(".jp-InputPrompt")

    def output(self, index: int) -> Locator:
        """What one code cell printed."""
        return self.cell(index).locator(".jp-OutputArea-output").last

    def expect_state(self, code: str) -> None:
        """Wait until the panel says it."""
        expect(self.sidebar.state).to_have_attribute("data-state", code)

    def picture(self, name: str) -> None:
        """Keep a picture of the page."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")

    def park(self) -> None:
        """Press Release and wait until it is parked, by the panel's word and the machine's."""
        self.sidebar.press("release")
        self.expect_state("PARKED")
        assert self.witness.held() == 0

    def await_samples(self, until: float | None = None) -> None:
        """Wait for two samples that the server took after *until*, or after now."""
        after = time.time() if until is None else until
        for _ in range(2):
            while (taken := self.lab.seconds_sampled()) <= after:
                self.page.wait_for_timeout(100)
            after = taken

    def expect_still_parked(self) -> None:
        """After a while it is parked as before: nothing waits for it, and it holds nothing on the machine."""
        self.await_samples()
        expect(self.sidebar.row(self.name)).to_contain_text(f"{HELD} parked")
        expect(self.sidebar.row(self.name)).not_to_contain_text("waits")
        assert self.witness.held() == 0


@pytest.fixture(name="devices", scope="module")
def _devices(lab: Lab) -> Iterator[SimulatedSource]:
    """The machine's own answer to who holds what."""
    source = SimulatedSource(lab.machine)
    yield source
    source.close()


@pytest.fixture(name="hold")
def _hold(page: Page, lab: Lab, devices: SimulatedSource) -> Iterator[Callable[..., Notebook]]:
    """Opens a notebook that holds GPU memory; its kernel is ended after the test."""
    held: list[Notebook] = []

    def begin(name: str, *cells: str, idle_timeout: str = "never") -> Notebook:
        lab.add_notebook(name, ALLOCATE, COMPARE, *cells, idle_timeout=idle_timeout)
        held.append(Notebook(page, lab, devices, name))
        return held[-1]

    yield begin
    left = {kernel["id"] for kernel in lab.ask("GET", "api/kernels")}
    for notebook in held:
        if notebook.kernel_id in left:
            lab.ask("DELETE", f"api/kernels/{notebook.kernel_id}")


@contextmanager
def neighbour(lab: Lab, devices: SimulatedSource, leaves: int) -> Iterator[None]:
    """Somebody else takes the first GPU but for *leaves* bytes, until the block ends."""
    first = devices.devices()[0]
    free = first.usable.bytes - (devices.read()[0].memory.value or 0)
    command = [sys.executable, "-m", "jupyter_gpushare.devices.simulated.holder"]
    environment = {**os.environ, "GPUSHARE_SIMULATED_MACHINE": str(lab.machine)}
    with subprocess.Popen(
        [*command, "--memory", f"{(free - leaves) >> 20}MiB"], env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()


def test_an_idle_notebook_is_parked_and_its_next_cell_brings_it_back(hold: Callable[..., Notebook]) -> None:
    """Countdown, parked, a cell waits and runs, values intact; each word is true when it is said."""
    notebook = hold("story.ipynb", idle_timeout="8s")
    full = notebook.witness.held()
    notebook.witness.until("COUNTING_DOWN")
    notebook.picture("counting-down")
    told = notebook.witness.until("PARKED")
    notebook.picture("parked")

    codes = [code for code, _ in groupby(said.code for said in told)]
    assert codes[-3:] == ["COUNTING_DOWN", "PARKING", "PARKED"], codes
    for said in told:
        assert said.code != "COUNTING_DOWN" or full in said.held, said
        assert said.code != "PARKED" or said.held[-1] == 0, said
    expect(notebook.sidebar.state).to_contain_text(f"{HELD} safe in host memory since")
    expect(notebook.page.get_by_test_id("gpushare-parked-badge")).to_be_visible()

    start_cell(notebook.page, 1)
    expect(notebook.prompt(1)).to_have_text("[*]:")
    expect(notebook.sidebar.row(notebook.name)).to_contain_text("1 cell waits")
    notebook.picture("resuming")
    told = notebook.witness.until("RESUMED")
    expect(notebook.output(1)).to_have_text("intact")
    notebook.picture("resumed")
    # Where its share was lent, training leaves first and its memory a moment later, or others are brought back before.
    others = ("TRAINING_LEAVES", "LEASE_WAITING", "WAITING_FOR_ROOM")
    own = [said.code for said in told if said.code not in others]
    codes = [code for code, _ in groupby(own)]
    assert codes[-3:] == ["PARKED", "RESUMING", "RESUMED"], codes
    assert told[-1].held[-1] == full
    expect(notebook.page.get_by_test_id("gpushare-parked-badge")).to_have_count(0)


def test_reading_wakes_nothing(hold: Callable[..., Notebook]) -> None:
    """Completion, inspection, hovering and reloading the page leave a parked notebook parked."""
    notebook = hold("reading.ipynb")
    notebook.park()
    page = notebook.page
    editor = notebook.cell(1).locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("kep")
    page.keyboard.press("Tab")
    notebook.expect_still_parked()
    editor.hover()
    page.keyboard.press("Control+S")
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    page.reload()
    expect(page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')).to_be_visible()
    notebook.expect_still_parked()
    notebook.expect_state("PARKED")


def test_keep_for_stops_the_countdown(hold: Callable[..., Notebook]) -> None:
    """Who presses Keep for… while the countdown runs is not parked when it would have ended; then it begins anew."""
    notebook = hold("keep.ipynb", idle_timeout="15s")
    notebook.expect_state("COUNTING_DOWN")
    parks_at = time.time() + 15
    notebook.sidebar.press("keep")
    notebook.page.get_by_role("menuitem").filter(has_text=re.compile(r"^1 h$")).click()
    notebook.expect_state("KEPT")
    notebook.picture("kept")
    notebook.await_samples(parks_at)
    notebook.expect_state("KEPT")
    expect(notebook.sidebar.memory(notebook.name)).to_have_text(HELD)
    assert notebook.witness.held() > 0
    notebook.sidebar.press("keep")
    notebook.page.get_by_role("menuitem").filter(has_text="Stop keeping").click()
    notebook.expect_state("COUNTING_DOWN")


def test_a_refusal_says_why_and_what_helps_and_touches_nothing(hold: Callable[..., Notebook]) -> None:
    """With a thread at work Release does not park: it names the thread and the remedy, and ends nothing unasked."""
    notebook = hold("refusal.ipynb", WORK_ON)
    full = notebook.witness.held()
    run_cell(notebook.page, 2)
    notebook.sidebar.press("release")
    refusal = notebook.page.get_by_test_id("gpushare-refusal")
    expect(refusal).to_contain_text("thread loader")
    expect(refusal).to_contain_text("End it, or allow background work for this notebook")
    notebook.picture("refusal")
    notebook.page.locator(".jp-Dialog .jp-mod-reject").click()
    assert notebook.witness.held() == full
    run_cell(notebook.page, 1)
    expect(notebook.output(1)).to_have_text("intact")


def test_a_cell_waits_for_room_and_can_be_taken_back(
    hold: Callable[..., Notebook], lab: Lab, devices: SimulatedSource
) -> None:
    """While others have its room a cell waits and says for what; taken back it is not run, and nothing is lost."""
    notebook = hold("room.ipynb", COMPARE)
    notebook.park()
    with neighbour(lab, devices, leaves=1 << 30):
        start_cell(notebook.page, 1)
        notebook.expect_state("LEASE_WAITING")
        expect(notebook.sidebar.state).to_contain_text("other programs hold the device")
        expect(notebook.prompt(1)).to_have_text("[*]:")
        assert notebook.witness.held() == 0
        notebook.picture("waiting")
        notebook.sidebar.press("cancel")
        expect(notebook.prompt(1)).to_have_text("[ ]:")
        notebook.expect_still_parked()
    start_cell(notebook.page, 2)
    expect(notebook.output(2)).to_have_text("intact")


def test_ending_a_parked_kernel_asks_first(hold: Callable[..., Notebook]) -> None:
    """Shutting a parked kernel down asks; "keep it parked" changes nothing, and "end" ends it."""
    notebook = hold("ending.ipynb")
    notebook.park()
    _shut_down(notebook.page)
    expect(notebook.page.locator(".jp-Dialog")).to_contain_text(f"{HELD} of ending.ipynb are safe in host memory.")
    notebook.picture("ending")
    notebook.page.locator(".jp-Dialog .jp-mod-reject").click()
    notebook.expect_still_parked()
    _shut_down(notebook.page)
    notebook.page.locator(".jp-Dialog .jp-gpushare-confirm").click()
    expect(notebook.sidebar.row(notebook.name)).to_have_count(0)


def _shut_down(page: Page) -> None:
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name="Shut Down Kernel", exact=True).click()
