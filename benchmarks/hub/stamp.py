"""Runs in a measured hub before its configuration: writes down when each server's process is begun."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from jupyterhub import spawner  # type: ignore[import-untyped]

__all__ = ["FILE", "install"]

#: The variable that names the file for the moments, one line each, in seconds of the clock that only goes on.
FILE: Final = "GPUSHARE_BENCHMARK_STAMPS"


def install() -> None:
    """Write a line whenever JupyterHub begins a process for somebody's server."""
    begin, path = spawner.Popen, os.environ[FILE]

    def stamped(*args: Any, **kwargs: Any) -> Any:
        now = time.monotonic()  # the same clock for all processes of the machine
        with open(path, "a", encoding="ascii") as file:  # noqa: PTH123  # the quickest way, as it is measured
            file.write(f"{now!r}\n")
        return begin(*args, **kwargs)

    spawner.Popen = stamped
