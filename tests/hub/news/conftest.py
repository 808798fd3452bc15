"""A broker that runs, and whoever follows it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.hub.news.site import NewsSite

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator


@pytest.fixture(name="site")
def _site() -> Iterator[NewsSite]:
    """Not started yet, in a directory with a short name: a socket's path must be short."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    yield NewsSite(directory)
    shutil.rmtree(directory)


@pytest.fixture(name="play")
def _play(site: NewsSite) -> Callable[[Callable[[NewsSite], Coroutine[Any, Any, None]]], None]:
    """Play a story with a broker, a receiver and news between them."""

    async def whole(story: Callable[[NewsSite], Coroutine[Any, Any, None]]) -> None:
        try:
            await site.start()
            await story(site)
        finally:
            await site.close()

    return lambda story: asyncio.run(whole(story))
