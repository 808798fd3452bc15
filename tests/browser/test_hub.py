"""Two people on one hub, each in a browser: what one picks the other sees; idle, parked, trained on, and back again."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import nbformat
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from jupyter_gpushare.demo.hub.running import SERVICE
from jupyter_gpushare.demo.hub.staging import ANA, BO, two_teams
from jupyter_gpushare.demo.jobs import steps_per_s
from jupyter_gpushare.demo.stories.share import COUNTED_S, DOUBLED
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from tests.browser.conftest import DEADLINE_MS
from tests.browser.sidebar import Sidebar, run_cell, start_cell
from tests.hub.staged_hub import staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.demo.jobs import Job
    from tests.hub.staged_hub import StagedHub

pytestmark = pytest.mark.browser

PICTURES: Final = Path("build") / "hub"
WIDTHS: Final = {"wide": 1280, "narrow": 360}
ALLOCATE: Final = """\
from jupyter_gpushare.devices.simulated import cuda
kept = cuda.allocate("3GiB")
kept.fill(7)
before = kept.checksum()"""
COMPARE: Final = "print('intact' if kept.checksum() == before else 'damaged')"
NOTEBOOK: Final = "whole-way.ipynb"


@pytest.fixture(scope="module")
def site() -> Iterator[StagedHub]:
    """A hub with one GPU for two teams; what is not saved otherwise is parked when its notebook says so."""
    with staged(two_teams("1"), devices=[DeviceSpec()], idle_timeout_s=None) as staged_hub:
        _add_notebook(staged_hub)
        with ThreadPoolExecutor(1) as pool:  # Playwright has this thread's event loop
            pool.submit(staged_hub.start).result()
        yield staged_hub


def _add_notebook(site: StagedHub) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (ALLOCATE, COMPARE)])
    notebook.metadata["gpushare"] = {"idle_timeout": "5s"}
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    home = site.workspace.root / "hub" / "homes" / ANA
    home.mkdir(parents=True)
    nbformat.write(notebook, home / NOTEBOOK)


class Window:
    """The browser of one person who has signed in."""

    def __init__(self, context: BrowserContext, site: StagedHub, name: str) -> None:
        self.context, self.site, self.name = context, site, name
        self.errors: list[str] = []
        self.page = self.open_page()
        self.page.goto(f"{site.url}/hub/login")
        self.page.fill("#username_input", name)
        self.page.fill("#password_input", next(each.password for each in site.plan.people if each.name == name))
        self.page.click("#login_submit")
        expect(self.page).not_to_have_url(re.compile("/login"))

    def open_page(self) -> Page:
        """A new tab, whose errors are remembered."""
        page = self.context.new_page()
        page.set_default_timeout(DEADLINE_MS)
        page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        return page

    def open_picker(self) -> None:
        """The page on which a share is picked."""
        self.page.goto(f"{self.site.url}/hub/spawn")

    def card(self, share: str) -> Locator:
        """One card of the picker."""
        return self.page.locator(f'[data-share="{share}"]')

    def badge(self, share: str) -> Locator:
        """When that share could be had."""
        return self.card(share).locator("[data-badge]")

    def pick(self, share: str) -> None:
        """Pick a share and start the server; wait until Lab is there."""
        self.card(share).locator("input[type=radio]").check()
        self.page.get_by_role("button", name="Start").click()
        expect(self.page).to_have_url(re.compile(f"/user/{self.name}/lab"))

    def pictures(self, name: str) -> None:
        """Keep pictures of the page in both themes and widths."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        for theme in ("light", "dark"):
            self.page.evaluate("theme => document.documentElement.setAttribute('data-bs-theme', theme)", theme)
            for width, pixels in WIDTHS.items():
                self.page.set_viewport_size({"width": pixels, "height": 900})
                assert self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (name, width)
                path = PICTURES / f"{name}-{theme}-{width}.png"
                self.page.screenshot(path=path, animations="disabled", full_page=True)
        self.page.set_viewport_size({"width": WIDTHS["wide"], "height": 900})


@pytest.fixture
def windows(browser: Browser, site: StagedHub) -> Iterator[tuple[Window, Window]]:
    """Ana's browser and bo's; no page of theirs may have had an error."""
    contexts = [browser.new_context(viewport={"width": 1280, "height": 900}) for _ in range(2)]
    ana, bo = (Window(context, site, name) for context, name in zip(contexts, (ANA, BO), strict=True))
    yield ana, bo
    for context in contexts:
        context.close()
    assert [*ana.errors, *bo.errors] == []


def test_what_one_picks_the_other_sees_and_gets_while_it_is_idle(
    site: StagedHub, windows: tuple[Window, Window]
) -> None:
    """Both pick and start; one is idle and parked: the other's training is twice as fast, until her next cell."""
    ana, bo = windows
    bo.open_picker()
    ana.open_picker()
    expect(ana.page.locator("body")).to_contain_text("SIMULATED")
    expect(bo.badge("0.5")).to_have_text("2 free now")
    bo.pictures("picker")
    ana.pick("0.5")
    expect(bo.badge("0.5")).to_have_text("1 free now")
    bo.pick("0.25")
    _look(bo, f"{SERVICE}sessions", "sessions-of-the-other", "¼ GPU guaranteed")

    bo.page.goto(f"{site.url}{SERVICE}overview")
    with ThreadPoolExecutor(1) as pool:
        first, second = jobs = pool.submit(_start_jobs, site).result()
    alone = _rate(*jobs)
    assert alone > 0
    assert second.steps == 0, "there is room for one job beside the two servers"
    ana.page.goto(f"{site.url}/user/{ANA}/lab/tree/{NOTEBOOK}")
    expect(ana.page.locator("#jp-main-statusbar")).to_contain_text("| Idle")
    sidebar = Sidebar(ana.page).open()
    run_cell(ana.page, 0)
    expect(sidebar.memory(NOTEBOOK)).to_have_text("3.6 GB")
    _until(ana.page, lambda: first.steps > 0)
    assert second.steps == 0, "there is room for one job beside the notebook, too"

    expect(sidebar.state).to_have_attribute("data-state", "PARKED")
    _until(ana.page, lambda: second.steps > 0)
    together = _rate(*jobs)
    assert together >= DOUBLED * alone, f"{together:.1f} steps a second instead of {alone:.1f}"
    expect(bo.page.locator("#gpushare-main, main, body").first).to_contain_text("lent")
    expect(bo.page.locator("body")).not_to_contain_text(NOTEBOOK)
    bo.pictures("overview")
    _look(ana, f"{SERVICE}sessions", "sessions", r"[Pp]arked")

    cell = start_cell(ana.page, 1)
    expect(cell.locator(".jp-OutputArea-output").last).to_have_text("intact")
    expect(sidebar.state).to_have_attribute("data-state", re.compile("ACTIVE|RESUMED|COUNTING_DOWN"))


def _look(window: Window, path: str, name: str, contains: str) -> None:
    """Open a page of the service in another tab, and keep pictures of it."""
    lab, window.page = window.page, window.open_page()
    window.page.goto(f"{window.site.url}{path}")
    expect(window.page.locator("body")).to_contain_text(re.compile(contains))
    window.pictures(name)
    window.page.close()
    window.page = lab


def _start_jobs(site: StagedHub) -> tuple[Job, Job]:
    """Bo's training: the first job gets what is free beside two servers, the second waits for ana's half."""

    async def start() -> tuple[Job, Job]:
        async with site.visitors(BO) as (visitor,):
            first = site.start_job(visitor, "sweep-1", "0.25", "team-b")
            while not first.steps:  # noqa: ASYNC110  # its file is all that tells
                await asyncio.sleep(0.1)
            return first, site.start_job(visitor, "sweep-2", "0.5", "team-b")

    return asyncio.run(start())


def _rate(*jobs: Job) -> float:
    """How many steps all of *jobs* make in a second, counted as the demo counts them."""
    with ThreadPoolExecutor(1) as pool:  # as above
        return pool.submit(lambda: asyncio.run(steps_per_s(jobs, COUNTED_S))).result()


def _until(page: Page, happened: object) -> None:
    """Wait for something that happens outside the browser, while the page goes on."""
    assert callable(happened)
    for _ in range(DEADLINE_MS // 100):
        if happened():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it did not happen")
