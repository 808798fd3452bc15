"""The hand that kills a hub at a given step of a server's start or stop, in the hub's own process.

Neither JupyterHub nor the product know of it. `install` wraps what the hub does with a spawner; an order in a file
names a step, and the process ends by SIGKILL when it comes to that step.
"""

from __future__ import annotations

import inspect
import os
import signal
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jupyterhub import spawner, user  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ORDER", "STARTING", "STOPPING", "install"]

#: In the environment: the file with the step.
ORDER: Final = "GPUSHARE_SOAK_HUB_ORDER"
#: In the order in which a start comes to them.
STARTING: Final = (
    "before the hook",
    "the share is granted",
    "before the process",
    "the process runs",
    "before it answers",
    "it answers",
)
STOPPING: Final = ("before it is stopped", "it is stopped", "the share is given back")


def install() -> None:
    """Have this process killed at the step that the order names, whenever that is written."""
    at = _Hand(Path(os.environ[ORDER])).at
    _around(spawner.Spawner, "run_pre_spawn_hook", at, "before the hook", "the share is granted")
    _around(spawner.LocalProcessSpawner, "start", at, "before the process", "the process runs")
    _around(user.User, "_wait_up", at, "before it answers", "it answers")
    _around(spawner.LocalProcessSpawner, "stop", at, "before it is stopped", "it is stopped")
    _around(spawner.Spawner, "run_post_stop_hook", at, "", "the share is given back")


class _Hand:
    """Looks for an order; carries it out once."""

    def __init__(self, order: Path) -> None:
        self._order = order

    def at(self, step: str) -> None:
        """This process is at *step*."""
        try:
            wanted = self._order.read_text()
        except FileNotFoundError:
            return
        if wanted == step:
            self._order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def _around(owner: Any, name: str, at: Callable[[str], None], before: str, after: str) -> None:
    """Replace *name* of *owner*, which may be awaited, by itself with a step before and one after it."""
    original = getattr(owner, name)

    @wraps(original)
    async def wrapped(*args: Any, **options: Any) -> Any:
        at(before)
        result = original(*args, **options)
        if inspect.isawaitable(result):
            result = await result
        at(after)
        return result

    setattr(owner, name, wrapped)
