"""Build the stand-in ``libnvidia-ml.so.1`` and say in which directory it lies.

``python benchmarks/stand_in/build.py DIRECTORY`` prints the directory, to be put first in ``LD_LIBRARY_PATH``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("nvml.c")
NAME: Final = "libnvidia-ml.so.1"


class NoCompilerError(RuntimeError):
    """No C compiler was found; the message says how to get one."""


def build(directory: Path) -> Path:
    """Compile the stand-in into *directory*, unless a newer one is there; returns *directory*.

    Raises:
        NoCompilerError: there is neither ``cc`` nor ``gcc``.
        subprocess.CalledProcessError: it does not compile; the compiler's words are on standard error.
    """
    target = directory / NAME
    if target.exists() and target.stat().st_mtime >= SOURCE.stat().st_mtime:
        return directory
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompilerError("a C compiler is needed for the stand-in driver: apt-get install gcc libc6-dev")
    directory.mkdir(parents=True, exist_ok=True)
    # Others may be loading the library this very moment: the new one appears whole or not at all.
    unfinished = directory / f"{NAME}.{os.getpid()}"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", f"-Wl,-soname,{NAME}"]
    subprocess.run([compiler, *flags, "-o", str(unfinished), str(SOURCE)], check=True)
    unfinished.replace(target)
    return directory


def environment(
    directory: Path,
    *,
    devices: int = 8,
    delay_ms: float = 0,
    instances: int = 0,
    processes: Path | None = None,
    counter: Path | None = None,
) -> dict[str, str]:
    """The variables under which a process sees the stand-in of *directory* instead of a driver.

    Args:
        directory: where `build` put it.
        devices: how many GPUs there are.
        delay_ms: how long each call takes.
        instances: how many MIG instances GPU 0 is divided into.
        processes: a file with lines ``<device> <pid> <MiB> <per cent>``, read again when it changed.
        counter: a file in which calls are counted, see `calls`.
    """
    path = os.pathsep.join(filter(None, [str(directory), os.environ.get("LD_LIBRARY_PATH")]))
    return {
        "LD_LIBRARY_PATH": path,
        "STAND_IN_DEVICES": str(devices),
        "STAND_IN_DELAY_MS": str(delay_ms),
        "STAND_IN_MIG": str(instances),
        "STAND_IN_PROCESSES": str(processes or ""),
        "STAND_IN_COUNTER": str(counter or ""),
    }


def calls(counter: Path) -> int:
    """How many calls the stand-in has answered since *counter* was created; 0 if none ever came."""
    return int.from_bytes(counter.read_bytes(), sys.byteorder) if counter.exists() else 0


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
