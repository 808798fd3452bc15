"""A town for stories of culling."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.broker.service.bench import Bench

from .culling_town import CullingTown

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator


@pytest.fixture(name="play")
def _play() -> Iterator[Callable[[Any], None]]:
    """Play a story in a town whose broker runs."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))

    async def whole(story: Callable[[CullingTown], Coroutine[Any, Any, None]]) -> None:
        town = CullingTown(Bench(directory))
        try:
            await town.bench.start()
            await story(town)
        finally:
            await town.bench.close()

    yield lambda story: asyncio.run(whole(story))
    shutil.rmtree(directory)
