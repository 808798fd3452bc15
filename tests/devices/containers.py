"""Pid namespaces of other processes: real ones, and the files of /proc that show them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from jupyter_gpushare.devices.descendants import descendants

if TYPE_CHECKING:
    from pathlib import Path

_AS_ROOT: Final = ("unshare", "--pid", "--fork", "--mount-proc")
#: Whoever is not root makes a user namespace with it, in which it is.
UNSHARE: Final = _AS_ROOT if os.getuid() == 0 else (*_AS_ROOT, "--user", "--map-root-user")
#: As Linux 6 writes it. The second line's name tries to pass for the line that counts.
_STATUS: Final = """\
Name:\tpython\\nNSpid:\t1\t2
Umask:\t0022
State:\tS (sleeping)
Tgid:\t{pid}
Ngid:\t0
Pid:\t{pid}
PPid:\t1
TracerPid:\t0
Uid:\t1000\t1000\t1000\t1000
Gid:\t100\t100\t100\t100
FDSize:\t64
Groups:\t4 24 27 100
NStgid:\t{numbers}
NSpid:\t{numbers}
NSpgid:\t{numbers}
NSsid:\t{numbers}
Kthread:\t0
VmPeak:\t  255076 kB
Threads:\t1
NoNewPrivs:\t0
"""


class FakeProc:
    """A proc file system with the processes that a test wants, under the numbers of whoever reads it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sys").mkdir(parents=True)
        (root / "uptime").write_text("1.00 2.00\n")

    def start(self, pid: int, *inner: int, began: int, namespace: int | None, state: str = "S") -> None:
        """A process *pid*, with the numbers *inner* further in, the innermost last.

        A *namespace* of None may not be read. Permissions do not bind root, so it is closed by another error.
        """
        directory = self.root / str(pid)
        directory.mkdir()
        numbers = "\t".join(map(str, (pid, *inner)))
        (directory / "status").write_text(_STATUS.format(pid=pid, numbers=numbers))
        (directory / "stat").write_text(f"{pid} (python) x) {state} 1 {'0 ' * 17}{began} 0 0\n")
        if namespace is None:
            (directory / "ns").write_text("")
        else:
            (directory / "ns").mkdir()
            (directory / "ns" / "pid").symlink_to(f"pid:[{namespace}]")


class Container:
    """A real pid namespace with its own /proc, in which a Python program runs until its input ends."""

    def __init__(self, code: str, *arguments: str) -> None:
        pipe = subprocess.PIPE
        command = [*UNSHARE, "--kill-child", sys.executable, "-c", code, *arguments]
        self._unshare = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def says(self) -> Any:
        """The next line that it prints, which is JSON."""
        assert self._unshare.stdout
        line = self._unshare.stdout.readline()
        assert line, "it ended"
        return json.loads(line)

    def pids(self) -> list[int]:
        """The processes in it by the numbers that hold outside, the eldest first."""
        return sorted(descendants([self._unshare.pid]) - {self._unshare.pid})

    def close(self) -> None:
        """End all of it: with its first process the namespace goes."""
        self._unshare.kill()
        self._unshare.communicate(timeout=60)


def require_namespaces() -> None:
    """Skip the test where the system refuses another pid namespace, in its own words."""
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        pytest.skip("unshare (util-linux) is not installed")
    if done.returncode:
        pytest.skip(f"another pid namespace is refused here: {done.stderr.strip()}")
