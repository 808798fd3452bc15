"""Processes below this server that hold another lease: jobs of `jupyter gpushare run`, started in a terminal of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["is_of_job"]

# What `run` sets for the job and everything below it; read from /proc/<pid>/environ, which shows it as it was started.
_MARK: Final = b"GPUSHARE_LEASE="


def is_of_job(pid: int) -> bool:
    """Whether the process belongs to a job, which is parked and counted by itself."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # it has ended, or is somebody else's, who is no child of ours
    return any(each.startswith(_MARK) for each in environment.split(b"\0"))
