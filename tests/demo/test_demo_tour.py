"""The real story: a real server and kernel. It passes as it is, and fails at any step whose reality is sabotaged."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.demo.processes import marked_processes
from jupyter_gpushare.demo.stories import STORIES

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

STEPS = [(story.name, each.name) for story in STORIES for each in story.steps()]
DEADLINE_S = 30
# A step of each story in every change; `make soak thorough` breaks each of them.
QUICKLY = [
    ("notebook", "attested"),
    ("parking", "resume"),
    ("share", "broker"),
    ("teams", "claim-1"),
    ("hub", "hub"),
]
HUB = "hub"  # stands with the tests of hubs, for which JupyterHub's proxy is there


def _marks(step: tuple[str, str]) -> list[pytest.MarkDecorator]:
    return [*([] if step in QUICKLY else [pytest.mark.long]), *([pytest.mark.hub] if step[0] == HUB else [])]


SABOTAGED = [pytest.param(step, marks=_marks(step)) for step in STEPS]
TOLD = [pytest.param(story.name, marks=[pytest.mark.hub] if story.name == HUB else []) for story in STORIES]


def test_the_steps_that_are_broken_in_every_change_exist() -> None:
    """A step that is renamed is not left out unnoticed."""
    assert set(QUICKLY) <= set(STEPS)


@pytest.mark.parametrize("story", TOLD)
def test_a_story_goes_well_with_every_step_in_its_table(
    story: str, gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """The story that people are shown works against a real server and kernel, and all of its steps are told."""
    ended = gpushare("demo", "--tour", story)
    assert ended.returncode == 0, ended.stdout
    for name, step in STEPS:
        assert name != story or f"│ {step} " in ended.stdout
    assert "failed" not in ended.stdout


@pytest.mark.parametrize("broken", SABOTAGED, ids="-".join)
def test_a_sabotaged_step_is_found_out(
    broken: tuple[str, str], gpushare: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Each step checks reality: what is broken in it fails the tour there, which leaves nothing behind."""
    story, step = broken
    ended = gpushare("demo", "--json", f"--deadline={DEADLINE_S}", f"--tour={story}", f"--break={step}")
    assert ended.returncode == 1, ended.stderr
    told = json.loads(ended.stdout)["stories"][broken[0]]
    assert (told[-1]["step"], told[-1]["ok"]) == (broken[1], False), told[-1]
    assert told[-1]["seen"]
    assert all(entry["ok"] for entry in told[:-1])
    assert list((tmp_path / "temporary").glob("gpushare-demo-*")) == []


def test_ctrl_c_ends_a_tour_and_everything_it_started(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """An interrupted tour says so by its exit code and leaves neither processes nor files."""
    tour = start("demo", "--tour", "notebook")
    directory = _wait_for_server(tmp_path / "temporary")
    os.kill(tour.pid, signal.SIGINT)
    assert tour.wait(60) == 130
    assert not directory.exists()
    assert marked_processes(directory) == []


def _wait_for_server(temporary: Path) -> Path:
    """The directory of the tour, as soon as the tour has started its server."""
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        for log in temporary.glob("gpushare-demo-*/server.log"):
            if marked_processes(log.parent):
                return log.parent
        time.sleep(0.05)
    raise AssertionError("the tour did not start its server")
