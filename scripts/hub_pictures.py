"""The pictures of the hub's pages: each in light and dark, and in both as a wide window beside a phone's."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from playwright.async_api import async_playwright, expect

from jupyter_gpushare.demo.hub.running import SERVICE
from scripts.hub_stage import staged
from scripts.small_png import small_png

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page

    from scripts.hub_stage import HubStage

__all__ = ["take_hub_pictures"]

_IMAGES: Final = Path(__file__).parent.parent / "docs" / "images"
_FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_DEADLINE_MS: Final = 60_000
_THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
_WIDE: Final = 1000
_NARROW: Final = 390
#: A window's height where the page is no longer than that.
_HEIGHT: Final = 640
_GAP: Final = 20
#: A ground on which windows of both themes stand out.
_GROUND: Final = "#8b949e"
#: Draws windows beside each other, and gives the width, the height, and the pixels.
_DRAW: Final = """async ({ windows, gap, ground }) => {
  const load = async (png) => createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const images = await Promise.all(windows.map(load));
  const canvas = document.createElement("canvas");
  canvas.width = images.reduce((sum, image) => sum + image.width + gap, gap);
  canvas.height = Math.max(...images.map((image) => image.height)) + 2 * gap;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  let left = gap;
  for (const image of images) {
    context.drawImage(image, left, gap);
    left += image.width + gap;
  }
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const read = new FileReader();
  const done = new Promise((resolve) => { read.onload = resolve; });
  read.readAsDataURL(new Blob([data]));
  await done;
  return [canvas.width, canvas.height, read.result.split(",")[1]];
}"""


async def take_hub_pictures(chromium: str) -> None:
    """Take them with the browser at the path *chromium*."""
    expect.set_options(timeout=_DEADLINE_MS)
    async with async_playwright() as playwright, staged() as stage:
        browser = await playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        camera = _Camera(browser, stage)
        await stage.set_out()
        await _take_picker(camera)
        wait = await stage.fill()
        # Who does not look at the page does not keep the place.
        async with camera.signed_in("dan", "light") as page:
            await page.goto(f"{stage.hub.url}{wait}")
            await expect(page.locator(".gs-place")).to_contain_text("in line")
            await _take_pages(camera, wait)
        await browser.close()


async def _take_picker(camera: _Camera) -> None:
    for theme in _THEMES:
        async with camera.opened("cora", "/hub/spawn", theme) as page:
            await expect(page.locator('[data-share="4"] [data-badge]')).to_have_text("over quota")
            await camera.take(page, f"hub-picker-{theme}")
            if theme == "light":
                await camera.take_wide(page, "hub")


async def _take_pages(camera: _Camera, wait: str) -> None:
    for theme in _THEMES:
        async with camera.opened("dan", wait, theme) as page:
            await expect(page.locator(".gs-place")).to_contain_text("in line")
            await camera.take(page, f"hub-wait-{theme}")
        async with camera.opened("ana", f"{SERVICE}sessions", theme) as page:
            await expect(page.locator("body")).to_contain_text("safe in host memory")
            await camera.take(page, f"hub-sessions-{theme}")
        async with camera.opened("eva", f"{SERVICE}project", theme) as page:
            await expect(page.locator("#asks")).to_contain_text("the deadline is on Friday")
            await camera.take(page, f"hub-project-{theme}")
        async with camera.opened("ana", f"{SERVICE}overview", theme) as page:
            await expect(page.locator("#day svg")).to_be_visible()
            await camera.take(page, f"hub-overview-{theme}")
            if theme == "light":
                await camera.take_wide(page, "hub-overview")


class _Camera:
    """Visits pages of *stage*'s hub and takes pictures of them."""

    def __init__(self, browser: Browser, stage: HubStage) -> None:
        self._browser, self._stage = browser, stage

    @contextlib.asynccontextmanager
    async def signed_in(self, person: str, theme: Literal["light", "dark"]) -> AsyncIterator[Page]:
        """A browser of *person*'s, whose system is of that theme."""
        context = await self._browser.new_context(
            color_scheme=theme, reduced_motion="reduce", locale="en-GB", viewport={"width": _WIDE, "height": _HEIGHT}
        )
        page = await context.new_page()
        page.set_default_timeout(_DEADLINE_MS)
        await page.goto(f"{self._stage.hub.url}/hub/login")
        await page.fill("#username_input", person)
        await page.fill("#password_input", self._stage.password(person))
        await page.click("#login_submit")
        await page.wait_for_url(lambda url: "/login" not in url)
        yield page
        await context.close()

    @contextlib.asynccontextmanager
    async def opened(self, person: str, path: str, theme: Literal["light", "dark"]) -> AsyncIterator[Page]:
        """A page that *person* looks at."""
        async with self.signed_in(person, theme) as page:
            await page.goto(f"{self._stage.hub.url}{path}")
            await expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
            yield page

    async def take(self, page: Page, name: str) -> None:
        """Save *page* as docs/images/*name*.png: in a wide window, and beside it in a narrow one."""
        await self._save(name, [await _seen(page, width) for width in (_WIDE, _NARROW)], _GAP)

    async def take_wide(self, page: Page, name: str) -> None:
        """Save *page* as docs/images/*name*.png, in a wide window alone."""
        await self._save(name, [await _seen(page, _WIDE)], 0)

    async def _save(self, name: str, windows: list[bytes], gap: int) -> None:
        sheet = await self._browser.new_page()
        told = {"windows": [b64encode(png).decode() for png in windows], "gap": gap, "ground": _GROUND}
        width, height, pixels = await sheet.evaluate(_DRAW, told)
        await sheet.close()
        small = await asyncio.to_thread(small_png, width, height, b64decode(pixels))
        (_IMAGES / f"{name}.png").write_bytes(small)
        print(f"[screenshots] {name}: {len(small) / 1000:.0f} KB")


async def _seen(page: Page, width: int) -> bytes:
    """All of *page* in a window of that width; nothing of it may lie outside.

    Raises:
        RuntimeError: something does.
    """
    await page.set_viewport_size({"width": width, "height": _HEIGHT})
    outside = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if outside > 0:
        raise RuntimeError(f"{page.url} is {outside} px too wide for a window of {width} px")
    return await page.screenshot(full_page=True, animations="disabled")
