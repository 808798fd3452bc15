"""What every test shares: Jupyter's server fixtures and how property tests search."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.kernel_ports.sitecustomize import count_through_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

pytest_plugins = ["pytest_jupyter.jupyter_server"]

# A test never judges speed, and a run repeats exactly; `make soak` searches on with new seeds.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("GPUSHARE_HYPOTHESIS_PROFILE", "repeatable"))

# One counter for all test processes of this user: none takes a port that another is about to use.
count_through_all()

# As root Chromium needs the first one; the others keep it from calling home.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(name="browser", scope="session")
def _browser() -> Iterator[Browser]:
    """Chromium: the one that CHROMIUM names, else the system's. One for the whole run: Playwright starts only once."""
    from playwright.sync_api import sync_playwright

    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    chromium = os.environ.get("CHROMIUM") or next(filter(None, found), None)
    assert chromium, "these tests need Chromium; `make test` installs it or says how"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()
