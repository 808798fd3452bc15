"""A broker for each test, in a directory with a short name: a socket's path must be short."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.broker.service.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator


@pytest.fixture(name="bench")
def _bench() -> Iterator[Bench]:
    """A broker that is not started yet."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    yield Bench(directory)
    shutil.rmtree(directory)


@pytest.fixture(name="play")
def _play(bench: Bench) -> Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]:
    """Play a story with a broker that runs."""

    async def whole(story: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
        try:
            await bench.start()
            await story(bench)
        finally:
            await bench.close()

    return lambda story: asyncio.run(whole(story))
