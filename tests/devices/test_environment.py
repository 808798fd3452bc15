"""What a process was started with, read from outside."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.environment import Word, inherited
from jupyter_gpushare.devices.identity import Identity, identify, myself

if TYPE_CHECKING:
    from pathlib import Path

NAME = "GPUSHARE_CLAIM"
ME = myself()


def test_a_living_process_says_what_it_inherited_and_whose_it_is() -> None:
    """A child has it from who started it, under that user."""
    environ = {"BEFORE": "1", f"{NAME}_NOT": "other", NAME: "hub:ána/lab", "AFTER": "2"}
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.read(1) == b"\n", "it is cat by now"
        who = identify(child.pid)
        assert who is not None
        assert inherited(who, NAME) == Word("hub:ána/lab", os.geteuid())
        assert inherited(who, "NOT_THERE") == Word("", os.geteuid())
        child.stdin.close()
        child.wait()
    assert inherited(who, NAME) == Word("", -1)


def fake(proc: Path, environ: bytes | None, start: int = ME.start) -> str:
    """A /proc with this process alone."""
    process = proc / str(ME.pid)
    process.mkdir()
    (process / "stat").write_text(f"{ME.pid} (name) S " + " ".join(["0"] * 18) + f" {start} 0\n")
    if environ is not None:
        (process / "environ").write_bytes(environ)
    return str(proc)


@pytest.mark.parametrize(
    ("environ", "value"),
    [
        (b"A=1\0GPUSHARE_CLAIM=hub:a/\0", "hub:a/"),
        (b"GPUSHARE_CLAIM=first\0GPUSHARE_CLAIM=second\0", "first"),
        (b"XGPUSHARE_CLAIM=hub:a/\0", ""),
        (b"A=1\0GPUSHARE_CLAIM=hub:a", ""),
        (b"A=" + b"x" * (1 << 20) + b"\0GPUSHARE_CLAIM=hub:a/\0", ""),
        (b"GPUSHARE_CLAIM=\xff\0", "\udcff"),
        (b"", ""),
    ],
)
def test_only_a_whole_variable_of_that_name_counts(tmp_path: Path, environ: bytes, value: str) -> None:
    """What was cut short, or lies beyond what is read, is not guessed."""
    assert inherited(ME, NAME, fake(tmp_path, environ)).value == value


def test_another_process_under_the_number_is_not_asked(tmp_path: Path) -> None:
    """A number that is used again is another process's."""
    proc = fake(tmp_path, b"GPUSHARE_CLAIM=hub:a/\0", start=ME.start + 1)
    assert inherited(ME, NAME, proc) == Word("", -1)
    assert inherited(Identity(ME.pid, ME.start + 1), NAME, proc).value == "hub:a/"


def test_what_may_not_be_read_is_nothing(tmp_path: Path) -> None:
    """No error: a look at the devices goes on."""
    assert inherited(ME, NAME, fake(tmp_path, None)) == Word("", -1)
