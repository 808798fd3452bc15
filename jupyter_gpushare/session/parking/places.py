"""Where one user's servers on one host keep what must survive a server, and what must not."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.identity import Identity, is_alive, myself
from jupyter_gpushare.parking import places

if TYPE_CHECKING:
    import logging

__all__ = ["gates_directory", "remove_left_gates", "state_directory"]

_GATES = re.compile(r"gates-(\d{1,10})-(\d{1,20})")


def state_directory(configured: str, log: logging.Logger) -> Path:
    """The directory of this user alone; made if need be. One that cannot be had must not keep the server from starting.

    Args:
        configured: what the admin says, empty for the usual place.
        log: hears why another place was taken.
    """
    try:
        return places.state_directory(configured)
    except OSError as error:
        problem = str(error)
    log.error(
        "What a server leaves behind when it dies is not cleaned up by the next one: %s. "
        "Set c.GpuShare.state_directory to a directory of this user's.",
        problem,
    )
    return Path(tempfile.mkdtemp(prefix="gpushare-"))


def gates_directory(state: Path) -> Path:
    """Where this server's gates have their flags."""
    return state / f"gates-{'-'.join(map(str, myself()))}"


def remove_left_gates(state: Path) -> None:
    """Remove the flags of servers that are gone. Blocking."""
    for path in state.iterdir():
        found = _GATES.fullmatch(path.name)
        if found is not None and not is_alive(Identity(int(found[1]), int(found[2]))):
            shutil.rmtree(path, ignore_errors=True)
