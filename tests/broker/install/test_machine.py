"""What is found out about a machine before a service of it is made."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.install.machine import Hiding, changeable, closed, hiding, in_homes

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = grp.getgrgid(1).gr_name


def mounts(options: str) -> str:
    """A mount table with /proc mounted twice: the second is seen."""
    first = "22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw,hidepid=2"
    return f"{first}\n23 28 0:22 / /sys rw - sysfs sysfs rw\n24 28 0:21 / /proc rw - proc proc {options}\nnonsense\n"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("rw", None),
        ("rw,hidepid=0", None),
        ("rw,hidepid=off", None),
        ("rw,hidepid=1", Hiding("noaccess")),
        ("rw,hidepid=2", Hiding("invisible")),
        ("rw,hidepid=invisible,gid=0", Hiding("invisible")),
        ("rw,gid=1,hidepid=2", Hiding("invisible", GROUP)),
        ("rw,gid=999999,hidepid=2", Hiding("invisible", "999999")),
        ("rw,gid=1,hidepid=ptraceable", Hiding("ptraceable")),
    ],
)
def test_a_proc_that_hides_is_recognised(options: str, found: Hiding | None) -> None:
    """Also which group sees all the same; where none does, the remedy is said."""
    assert hiding(mounts(options)) == found
    assert found is None or "hidepid=invisible,gid=proc" in found.remedy


@pytest.fixture(name="place")
def _place() -> Iterator[Path]:
    """A directory that everybody can read; pytest's own is closed."""
    place = Path(tempfile.mkdtemp(prefix="gs"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def test_code_that_others_cannot_read_is_found(place: Path) -> None:
    """The first closed directory on the way, also behind a link, is named."""
    wall = place / "closed"
    wall.mkdir(mode=0o700)
    (wall / "code.py").write_text("")
    link = place / "link"
    link.symlink_to(wall / "code.py")
    assert closed([link]) == wall
    wall.chmod(0o755)
    assert closed([link]) is None
    (wall / "code.py").chmod(0o600)
    assert closed([link]) == (wall / "code.py")


def test_code_that_others_can_change_is_found(place: Path) -> None:
    """Whoever can change what a service runs is that service: its owner, a group, or everybody."""
    code = place / "code.py"
    code.write_text("")
    if os.getuid() != 0:
        assert changeable([code]) == (place, pwd.getpwuid(os.getuid()).pw_name)
        return
    assert changeable([code]) is None
    code.chmod(0o664)
    assert changeable([code]) == (code, "its group")
    place.chmod(0o777)
    assert changeable([code]) == (place, "everybody")
    os.chown(place, 4711, 0)
    assert changeable([code]) == (place, "4711")


def test_what_is_in_somebodys_home_is_known() -> None:
    """A service that hides homes could not run it."""
    assert in_homes([Path("/home/ana/venv/bin/python")])
    assert not in_homes([Path("/opt/gpushare/bin/python")])
