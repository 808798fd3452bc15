"""A server extension of the soak: the clock by which a session waits for its broker, moved by a number in a file.

It does its work when it is imported, which is before any extension is loaded, and only in a server that is told to:
a test that reads a name from here keeps its clock.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

from jupyter_gpushare.session.lease.lease import SessionLease

__all__ = ["CLOCK"]

#: In the environment: the file with the seconds by which the clock is ahead; none while there is no file.
CLOCK: Final = "GPUSHARE_SOAK_CLOCK"


def _now() -> float:
    try:
        return time.time() + float(Path(os.environ[CLOCK]).read_text())
    except FileNotFoundError:
        return time.time()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "scripts.soak.broker_clock"}]


def _load_jupyter_server_extension(_: Any) -> None:
    """Nothing is left to do."""


def _move_clock() -> None:
    defaults = SessionLease.__init__.__kwdefaults__
    if defaults is None or defaults["clock"] is not time.time:
        raise RuntimeError("SessionLease takes its clock in another way: this would move nothing")
    defaults["clock"] = _now


if CLOCK in os.environ:
    _move_clock()
