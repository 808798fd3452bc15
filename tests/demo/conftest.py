"""Runs the command as people do: as a process, from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMAND = [sys.executable, "-m", "jupyter_gpushare.app"]
# What a shell does to a job that a script starts with "&": Ctrl-C is ignored from the beginning.
BACKGROUND = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]


def make_places(directory: Path) -> dict[str, str]:
    """An environment in which everything that a demo leaves behind would lie below *directory*."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUSHARE_", "JUPYTER_"))}
    for name, place in {"TMPDIR": "temporary", "JUPYTER_RUNTIME_DIR": "runtime", "HOME": "home"}.items():
        (directory / place).mkdir()
        environment[name] = str(directory / place)
    return environment | {"NO_COLOR": "1"}


def run_command(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``jupyter gpushare`` with *arguments* to its end."""
    return subprocess.run(
        [*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=150, check=False
    )


def take_away(root: Path) -> None:
    """Remove *root*, into which a demo's processes may still write: until a last file no longer comes in between."""
    gone_by = time.monotonic() + 60
    while root.exists():
        shutil.rmtree(root, ignore_errors=time.monotonic() < gone_by)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short one, in place of pytest's: a demo has a Unix socket there, whose path must not be long."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    yield directory
    take_away(directory)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """The environment of one test's commands."""
    return make_places(tmp_path)


@pytest.fixture
def gpushare(places: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command in this test's own places, with more environment variables as keywords."""
    return lambda *arguments, **more: run_command(places | more, *arguments)


@pytest.fixture
def start(places: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``jupyter gpushare`` with some arguments; whatever still runs at the end of the test is asked to end."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, in_background: bool = False) -> subprocess.Popen[str]:
        shell = BACKGROUND if in_background else []
        process = subprocess.Popen(
            [*shell, *COMMAND, *arguments], env=places, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        running.append(process)
        return running[-1]

    yield begin
    for process in running:
        process.terminate()
        process.communicate(timeout=60)
