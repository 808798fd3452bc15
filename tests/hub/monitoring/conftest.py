"""A directory with a short name: a socket's path must be short."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short() -> Iterator[Path]:
    """The directory, gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    yield directory
    shutil.rmtree(directory)
