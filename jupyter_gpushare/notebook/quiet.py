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

__all__ = ["asking", "closing", "gate_is_closed"]

_GATE_FILE: Final = "GPUSHARE_GATE_FILE"
_LONGEST_FLAG: Final = 64
#: Re-entrant, because a garbage collection within a turn may run a finalizer that takes one.
_turn: Final = threading.RLock()


def gate_is_closed() -> bool:
    """Whether the kernel is parked, or is about to be. Without a gate, or with its server gone, it is not."""
    path = os.environ.get(_GATE_FILE)
    return bool(path) and os.path.exists(path or "")  # noqa: PTH110  # pathlib raises where this says no


def closing() -> str:
    """Which closing of the gate it is, by the server's count; empty while the gate is open."""
    path = os.environ.get(_GATE_FILE)
    if not path:
        return ""
    try:
        with open(path) as flag:  # noqa: PTH123  # as above
            return flag.read(_LONGEST_FLAG).partition(" ")[0]
    except OSError:
        return "unknown" if gate_is_closed() else ""


@contextmanager
def asking() -> Iterator[None]:
    """One turn of asking frameworks: one thread of ours at a time."""
    with _turn:
        yield
