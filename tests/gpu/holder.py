"""A process that holds GPU memory, driven by lines on standard input. Run by the tests as a program of its own.

``python -m tests.gpu.holder bindings|simulated|torch|jax|cupy|tensorflow`` answers each order with ``ready``, ``ready
VALUE`` or ``failed TEXT``:

    init          open the driver, no context
    hold BYTES    make a context and allocate
    fill SEED     write a pattern over all that is held
    digest        a sum over every word that is held and its place, taken on the device
    free          give the memory back, keep the context
    work SECONDS  keep the device busy; how many rounds of work that were
    copy out|in   move as many bytes as are held over the bus, page-locked; how many seconds that took
    synchronise   wait for the device
    often SECONDS from now on wait for the device so often, in a thread of its own
    scene NAME    prepare one of the framework's own states (`tests.gpu.programs.state`)
    run STEPS     go on with it; a digest of all its state
    end           leave
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

_ORDERS: Final[dict[str, tuple[Callable[[str], Any], ...]]] = {
    "init": (),
    "hold": (int,),
    "fill": (int,),
    "digest": (),
    "free": (),
    "work": (float,),
    "copy": (str,),
    "synchronise": (),
    "scene": (str,),
    "run": (int,),
}


def main() -> None:
    """Obey orders until ``end`` or the end of input."""
    program: Any = importlib.import_module(f"tests.gpu.programs.with_{sys.argv[1]}").Program()
    for line in sys.stdin:
        order, *words = line.split()
        if order == "end":
            return
        try:
            value = _obey(program, order, words)
        except Exception as trouble:  # noqa: BLE001  # a framework may raise anything; the test judges
            _say(f"failed {type(trouble).__name__}: {' '.join(str(trouble).split())}")
        else:
            _say("ready" if value is None else f"ready {value}")


def _obey(program: Any, order: str, words: list[str]) -> Any:
    if order == "often":
        _often(program, *map(float, words))
        return None
    arguments = [read(word) for read, word in zip(_ORDERS[order], words, strict=True)]
    return getattr(program, order)(*arguments)


def _often(program: Any, seconds: float) -> None:
    pause = threading.Event()

    def wait_again_and_again() -> None:
        while not pause.wait(seconds):
            program.synchronise()

    threading.Thread(target=wait_again_and_again, daemon=True).start()


def _say(answer: str) -> None:
    print(answer, flush=True)  # noqa: T201  # the protocol


if __name__ == "__main__":
    main()
