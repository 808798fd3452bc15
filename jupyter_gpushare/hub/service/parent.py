"""Whether the hub that runs this service is still there.

A hub that is killed leaves its services behind. The next hub starts them anew, on the same port and the same books: an
orphan must make room for that, and holders do without a broker meanwhile. The hub says who it is in the service's
environment: one that was killed before the service could ask for its parent would never be missed.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.identity import Identity, identify, is_alive

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HUB_PROCESS", "of_this_process", "orphaned"]

#: The variable: the hub's process id and its start, with a space between them.
HUB_PROCESS: Final = "GPUSHARE_HUB_PROCESS"
_LOOK_EVERY_S: Final = 0.5
_INIT: Final = 1


def of_this_process() -> dict[str, str]:
    """What a hub, whose process calls this, gives to its service; nothing where processes cannot be told apart."""
    me = identify(os.getpid())
    return {} if me is None else {HUB_PROCESS: f"{me.pid} {me.start}"}


async def orphaned(environ: Mapping[str, str] = os.environ) -> None:
    """Wait until the hub is gone. One that said nothing is the process that started this one, if that is any."""
    hub = _named(environ.get(HUB_PROCESS, "")) or _parent()
    while hub is None or is_alive(hub):  # noqa: ASYNC110  # the system tells nobody that a process is gone
        await asyncio.sleep(_LOOK_EVERY_S)


def _named(text: str) -> Identity | None:
    numbers = [int(word) for word in text.split() if word.isascii() and word.isdigit()]
    return Identity(numbers[0], numbers[1]) if len(numbers) == 2 else None  # noqa: PLR2004  # id and start


def _parent() -> Identity | None:
    parent = os.getppid()
    return None if parent == _INIT else identify(parent)
