"""A service for each test, in a directory with a short name."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .bench import ServiceBench

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator


@pytest.fixture(name="bench")
def _bench() -> Iterator[ServiceBench]:
    """A service that is not started yet."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    yield ServiceBench(directory)
    shutil.rmtree(directory)


@pytest.fixture(name="play")
def _play(bench: ServiceBench) -> Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]:
    """Play a story with a service that runs."""

    async def whole(story: Callable[[ServiceBench], Coroutine[Any, Any, None]]) -> None:
        try:
            await bench.start()
            await story(bench)
        finally:
            await bench.close()

    return lambda story: asyncio.run(whole(story))
