"""Device tokens: one holder at a time on a host, in a directory that strangers can write to as well."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.parking.device_token import DeviceTokens, TokenError, shared_directory
from tests.parking.stage import ROOT, wait_until

if TYPE_CHECKING:
    from pathlib import Path

GPU = "GPU-5fb6cb38-5f2d-4b3c-8a8c-6d0a3c1f7d11"


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    """Neither another server nor another kernel of the same one gets a token that is taken."""
    ours, theirs = DeviceTokens(tmp_path), DeviceTokens(tmp_path)
    assert ours.take(GPU, "kernel")
    assert ours.take(GPU, "kernel")
    assert ours.holds(GPU, "kernel")
    assert not ours.take(GPU, "another kernel")
    assert not ours.holds(GPU, "another kernel")
    assert not theirs.take(GPU, "kernel")
    assert theirs.take("GPU-2", "kernel")
    ours.drop("kernel")
    assert not ours.holds(GPU, "kernel")
    assert theirs.take(GPU, "kernel")


def test_a_token_ends_with_its_process(tmp_path: Path) -> None:
    """A holder that is killed blocks nobody, and its file needs no cleaning."""
    program = (
        "import sys; from pathlib import Path; from jupyter_gpushare.parking.device_token import DeviceTokens\n"
        f"tokens = DeviceTokens(Path({str(tmp_path)!r})); print(tokens.take({GPU!r}, 'k'), flush=True); input()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"True\n"
        assert not DeviceTokens(tmp_path).take(GPU, "k")
        holder.kill()
    wait_until(lambda: DeviceTokens(tmp_path).take(GPU, "k"))


def test_every_user_may_lock_the_same_file(tmp_path: Path) -> None:
    """A strict umask of the first user does not lock the others out."""
    before = os.umask(0o077)
    try:
        directory = shared_directory(tmp_path / "locks")
        DeviceTokens(directory).take(GPU, "kernel")
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o1777
    (file,) = directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o666


@pytest.mark.parametrize("uuid", ["../../etc/passwd", "a/b", "", "\0", "ü" * 500, ".."])
def test_a_name_never_leaves_the_directory(tmp_path: Path, uuid: str) -> None:
    """A UUID is text from a driver: whatever it holds, it names one plain file inside the directory."""
    directory = tmp_path / "locks"
    directory.mkdir()
    assert DeviceTokens(directory).take(uuid, "kernel")
    assert len(list(directory.iterdir())) == 1
    assert list(tmp_path.iterdir()) == [directory]


def test_no_link_is_followed(tmp_path: Path) -> None:
    """A stranger's link in the directory makes an error, and the file behind it is not touched."""
    directory = tmp_path / "locks"
    directory.mkdir()
    (directory / f"{GPU}.token").symlink_to(tmp_path / "victim")
    with pytest.raises(TokenError, match=GPU):
        DeviceTokens(directory).take(GPU, "kernel")
    assert not (tmp_path / "victim").exists()


def test_a_pipe_in_place_of_the_file_does_not_hang(tmp_path: Path) -> None:
    """A named pipe would make an ordinary open wait for ever."""
    os.mkfifo(tmp_path / f"{GPU}.token")
    with pytest.raises(TokenError, match="no plain file"):
        DeviceTokens(tmp_path).take(GPU, "kernel")


def test_a_directory_that_strangers_control_is_refused(tmp_path: Path) -> None:
    """Without the sticky bit anybody could remove a lock that is held, and a link could lead anywhere."""
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    with pytest.raises(TokenError, match="chmod 1777"):
        shared_directory(loose)
    (tmp_path / "link").symlink_to(loose)
    with pytest.raises(TokenError, match="no directory"):
        shared_directory(tmp_path / "link")
    with pytest.raises(TokenError, match="cannot be made"):
        shared_directory(tmp_path / "missing" / "locks")
