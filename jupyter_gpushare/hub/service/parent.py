"""Whether the hub that runs this service is still there.

A hub that is killed leaves its services behind. The next hub starts them anew, on the same port and the same books: an
orphan must make room for that, and holders do without a broker meanwhile.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["orphaned"]

_LOOK_EVERY_S: Final = 0.5
_INIT: Final = 1


async def orphaned(parent: Callable[[], int] = os.getppid) -> None:
    """Wait until the process that started this one is gone; for ever where that is the machine's first one."""
    first = parent()
    while first == _INIT or parent() == first:  # noqa: ASYNC110  # the system tells nobody that a parent is gone
        await asyncio.sleep(_LOOK_EVERY_S)
