"""What a process may still take of host memory, from made-up control groups of both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.parking.headroom import cgroup_headroom, memory_available, memory_total

if TYPE_CHECKING:
    from pathlib import Path

PID = 42


def proc(root: Path, cgroup: str, meminfo: str = "") -> Path:
    """One process in a made-up /proc."""
    (root / "proc" / str(PID)).mkdir(parents=True)
    (root / "proc" / str(PID) / "cgroup").write_text(cgroup)
    (root / "proc" / "meminfo").write_text(meminfo)
    return root / "proc"


def group(folder: Path, **files: object) -> None:
    """A control group's folder; ``_`` stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_the_tightest_group_above_a_process_decides(tmp_path: Path) -> None:
    """A pod's limit counts although the container inside it has none of its own."""
    root = tmp_path / "cgroup"
    group(root / "pod" / "box", memory__max="max", memory__current=500)
    group(root / "pod", memory__max=1000, memory__current=600)
    group(root, memory__max=5000, memory__current=700)
    assert cgroup_headroom(PID, proc(tmp_path, "0::/pod/box\n"), root) == 400


def test_the_first_version_counts_too(tmp_path: Path) -> None:
    """Hosts with cgroup v1, or both versions at once, keep memory limits in the memory controller's tree."""
    root = tmp_path / "cgroup"
    group(root / "memory" / "box", memory__limit_in_bytes=1000, memory__usage_in_bytes=300)
    group(root / "memory", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=900)
    assert cgroup_headroom(PID, proc(tmp_path, "4:memory:/box\n1:cpu:/\n0::/\n"), root) == 700


def test_cache_that_can_be_dropped_is_free(tmp_path: Path) -> None:
    """A notebook that has read large files is not full."""
    root = tmp_path / "cgroup"
    group(root, memory__max=1000, memory__current=900, memory__stat="anon 100\ninactive_file 600")
    assert cgroup_headroom(PID, proc(tmp_path, "0::/\n"), root) == 700


def test_a_container_that_sees_the_hosts_path_finds_its_own_root(tmp_path: Path) -> None:
    """Without a cgroup namespace the path is the host's, and the container's own group is mounted at the root."""
    root = tmp_path / "cgroup"
    group(root, memory__max=1000, memory__current=100)
    assert cgroup_headroom(PID, proc(tmp_path, "0::/kubepods/pod7/box\n"), root) == 900


@pytest.mark.parametrize("cgroup", ["", "0::/\n", "nonsense\n", "::::\n0", "0::/../../../etc\n"])
def test_no_limit_is_no_limit(tmp_path: Path, cgroup: str) -> None:
    """Unlimited, and text that makes no sense, are told from "nothing left"."""
    assert cgroup_headroom(PID, proc(tmp_path, cgroup), tmp_path / "cgroup") is None
    assert cgroup_headroom(PID + 1, tmp_path / "proc", tmp_path / "cgroup") is None


def test_a_full_group_has_nothing_left(tmp_path: Path) -> None:
    """A group over its limit, which is possible for a moment, leaves nothing, not less."""
    root = tmp_path / "cgroup"
    group(root, memory__max=1000, memory__current=1200)
    assert cgroup_headroom(PID, proc(tmp_path, "0::/\n"), root) == 0


def test_the_hosts_memory(tmp_path: Path) -> None:
    """What the host has, in bytes; unknown where it does not say."""
    meminfo = "MemTotal:        4 kB\nMemFree: 1 kB\nMemAvailable:    3 kB\n"
    folder = proc(tmp_path, "", meminfo)
    assert memory_available(folder) == 3072
    assert memory_total(folder) == 4096
    assert memory_available(tmp_path / "nowhere") is None
