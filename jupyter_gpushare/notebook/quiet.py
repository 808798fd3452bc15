"""When this package's own threads may ask a GPU framework anything: never while the kernel is parked.

A CUDA call that synchronises in a process whose GPU state is checkpointed crashes it. The server makes the file named
by ``GPUSHARE_GATE_FILE`` before it parks the kernel, and then asks it to free cached memory. That request waits here
for a thread that is just asking a framework, and every later one sees the file: so none is inside CUDA from then on.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["asking", "gate_is_closed"]

_GATE_FILE: Final = "GPUSHARE_GATE_FILE"
#: Re-entrant, because a garbage collection within a turn may run a finalizer that takes one.
_turn: Final = threading.RLock()


def gate_is_closed() -> bool:
    """Whether the kernel is parked, or is about to be. Without a gate, or with its server gone, it is not."""
    path = os.environ.get(_GATE_FILE)
    return bool(path) and os.path.exists(path or "")  # noqa: PTH110  # pathlib raises where this says no


@contextmanager
def asking() -> Iterator[None]:
    """One turn of asking frameworks: one thread of ours at a time."""
    with _turn:
        yield
