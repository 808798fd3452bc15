"""Who has a device file open, by the kernel's own tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from jupyter_gpushare.devices.amd import AmdSource
from jupyter_gpushare.devices.device_files import DeviceFiles
from jupyter_gpushare.devices.nvml import NvmlSource

NULL = re.compile(r"/dev/null")


class FakeProc:
    """A proc file system with descriptors that link wherever a test wants."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, pid: int, number: int, target: str) -> None:
        directory = self.root / str(pid) / "fd"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / str(number)).symlink_to(target)


def test_a_real_process_with_the_file_open_is_found() -> None:
    """Our own descriptors are seen; a process that does not exist has none open."""
    with Path("/dev/null").open():
        assert DeviceFiles(NULL).opened_by([os.getpid(), 1 << 22]) == {os.getpid()}


def test_another_process_is_found_while_it_has_the_file_open() -> None:
    """A holder that lets the file go is no holder any more at once, whatever was remembered."""
    code = (
        "import sys; f = open('/dev/zero'); print('open', flush=True); sys.stdin.readline();"
        "f.close(); print('closed', flush=True); sys.stdin.readline()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        files = DeviceFiles(re.compile("/dev/zero"))
        assert child.stdout.readline() == "open\n"
        assert files.opened_by([child.pid]) == {child.pid}
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "closed\n"
        assert files.opened_by([child.pid]) == frozenset()
        child.communicate("\n")


def test_each_vendor_knows_its_device_files(tmp_path: Path) -> None:
    """CUDA's and ROCm's files count as holding a device; the control file that any query opens does not."""
    proc = FakeProc(tmp_path)
    targets = {
        1: "/dev/nvidia0",
        2: "/dev/nvidia-uvm",
        3: "/dev/nvidiactl",
        4: "/dev/kfd",
        5: "/dev/dri/renderD128",
        6: "/dev/dri/card0",
        7: "/home/dev/nvidia0",
        8: "socket:[7]",
    }
    for pid, target in targets.items():
        proc.open(pid, 3, target)
    nvidia, amd = NvmlSource(environ={})._files, AmdSource(environ={})._files
    assert DeviceFiles(nvidia._pattern, str(tmp_path)).opened_by(targets) == {1, 2}
    assert DeviceFiles(amd._pattern, str(tmp_path)).opened_by(targets) == {4, 5}


def test_an_answer_is_not_kept_for_ever(tmp_path: Path) -> None:
    """A descriptor number that now leads to a device is noticed within seconds, though the numbers are the same."""
    now = [0.0]
    proc = FakeProc(tmp_path)
    proc.open(7, 3, "/home/file")
    files = DeviceFiles(NULL, str(tmp_path), lambda: now[0])
    assert files.opened_by([7]) == frozenset()
    (tmp_path / "7" / "fd" / "3").unlink()
    proc.open(7, 3, "/dev/null")
    assert files.opened_by([7]) == frozenset()
    now[0] = 11
    assert files.opened_by([7]) == {7}
