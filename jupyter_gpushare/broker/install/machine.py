"""What this machine is like, as far as a service of it cares: who can read and change our code, and who sees whom."""

from __future__ import annotations

import grp
import os
import pwd
import site
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.process_tree import in_host_pid_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Hiding", "changeable", "closed", "code_places", "groups_for_devices", "has_systemd", "hiding", "in_homes"]
__all__ += ["interpreter", "is_for_one_user", "sees_all_processes"]

#: sd_booted(3).
_PACKAGE: Final = Path(__file__).parents[2]
_SYSTEMD: Final = Path("/run/systemd/system")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_HOMES: Final = tuple(map(Path, ("/home", "/root", "/run/user")))
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
# The kernel's numbers, and what newer ones are called (proc(5)).
_LEVELS: Final = {"1": "noaccess", "2": "invisible", "4": "ptraceable"}


@dataclass(frozen=True, slots=True)
class Hiding:
    """/proc hides users' processes from each other.

    Attributes:
        level: the mount option's word: ``noaccess``, ``invisible`` or ``ptraceable``.
        group: the group that sees all the same; None where there is none.
    """

    level: str
    group: str | None = None

    @property
    def remedy(self) -> str:
        """What an admin does about it."""
        return (
            "/proc hides other users' processes (hidepid), so the broker cannot see who holds a GPU: "
            "make a group for those who may see (groupadd --system proc), mount /proc with hidepid=invisible,gid=proc "
            "(in /etc/fstab, then: mount -o remount /proc), and run this again"
        )


def has_systemd() -> bool:
    """Whether systemd runs this machine."""
    return _SYSTEMD.is_dir()


def sees_all_processes() -> bool:
    """Whether the process ids here are those of the whole machine, and not of a container."""
    return in_host_pid_namespace()


def hiding(mounts: str | None = None) -> Hiding | None:
    """How /proc hides processes; None where it does not. *mounts* is the text of proc_pid_mountinfo(5)."""
    text = _MOUNTS.read_text(encoding="utf-8", errors="replace") if mounts is None else mounts
    found: Hiding | None = None
    for fields, after in (line.split(" - ", 1) for line in text.splitlines() if " - " in line):
        if fields.split()[4] == "/proc":
            found = _hiding_of(after.split()[2])  # the last mount of a place is the one that is seen
    return found


def _hiding_of(options: str) -> Hiding | None:
    values = dict(option.partition("=")[::2] for option in options.split(","))
    level = values.get("hidepid", "off")
    level = _LEVELS.get(level, level)
    if level in ("0", "off"):
        return None
    # Under "ptraceable" the group counts for nothing.
    return Hiding(level, _group(values.get("gid", "0")) if level != "ptraceable" else None)


def _group(gid: str) -> str | None:
    if gid == "0":
        return None
    try:
        return grp.getgrgid(int(gid)).gr_name
    except KeyError:
        return gid


def groups_for_devices() -> tuple[str, ...]:
    """The groups that may open this machine's GPUs. NVIDIA's are open to everybody, AMD's to these."""
    if not Path("/dev/kfd").exists():
        return ()
    known = {group.gr_name for group in grp.getgrall()}
    return tuple(name for name in ("render", "video") if name in known)


def code_places() -> tuple[Path, ...]:
    """What the broker's service runs: the interpreter, its library, and this package."""
    return (Path(sys.executable), Path(os.__file__).parent, _PACKAGE, _PACKAGE / "__init__.py")


def interpreter() -> Path:
    """The interpreter itself, without an environment around it."""
    return Path(sys.executable).resolve()


def is_for_one_user() -> bool:
    """Whether this package was installed for one user alone (``pip install --user``)."""
    return _PACKAGE.is_relative_to(site.getusersitepackages())


def in_homes(paths: Iterable[Path]) -> bool:
    """Whether one of *paths* is in somebody's home directory."""
    return any(path.is_relative_to(home) for start in paths for path in _steps(start) for home in _HOMES)


def closed(paths: Iterable[Path]) -> Path | None:
    """The first step on the way to one of *paths* that other accounts cannot take; None if there is none."""
    for path in _all_steps(paths):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            continue  # what it leads to is a step of its own
        if not mode & (stat.S_IXOTH if path.is_dir() else stat.S_IROTH):
            return path
    return None


def changeable(paths: Iterable[Path]) -> tuple[Path, str] | None:
    """The first step on the way to one of *paths* that others than root can change, and who; None if none is."""
    for path in _all_steps(paths):
        found = path.lstat()
        if found.st_uid != 0:
            return path, _user(found.st_uid)
        # In a directory with the sticky bit each may rename only what is his own; a link has no rights of its own.
        if found.st_mode & _OTHERS_WRITE and not stat.S_ISLNK(found.st_mode) and not found.st_mode & stat.S_ISVTX:
            return path, "its group" if not found.st_mode & stat.S_IWOTH else "everybody"
    return None


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _all_steps(paths: Iterable[Path]) -> Iterator[Path]:
    for path in dict.fromkeys(step for start in paths for step in _steps(start)):
        if path.exists():
            yield path


def _steps(path: Path) -> Iterator[Path]:
    """Everything that is walked through to reach *path*, links and what they lead to included, from the root down."""
    yield from reversed(path.parents)
    yield path
    if (target := path.resolve()) != path:
        yield from _steps(target)
