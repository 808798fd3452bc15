"""What the soak's cells do inside a kernel: hold GPU memory, and witness what the driver does to the process.

The witness stands in the simulated driver of this very process, and knows nothing of any gate.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.devices.simulated import cuda, runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Holding", "Witness", "begin", "cell", "change", "check", "told", "work_in_background"]


class Witness:
    """Sees whether code ran while the driver had locked or parked this process.

    Attributes:
        began_away: cells that began while the process's GPU state was anything but running.
        locked_under: times that the driver locked the process while a cell ran.
        locks: times that it locked it at all.
        seen: the client and number of each cell, in the order in which they ran.
    """

    def __init__(self) -> None:
        self.began_away = self.locked_under = self.locks = 0
        self.seen: list[tuple[str, int]] = []
        self._running = 0
        self._lock = threading.Lock()
        latch = self._latch = runtime.current().latch
        self._shut = latch.shut
        latch.shut = self._shut_watched  # type: ignore[method-assign]  # the witness stands where the driver locks

    @contextmanager
    def cell(self, client: str, number: int) -> Iterator[None]:
        """While a cell runs."""
        with self._lock:
            self._running += 1
            self.began_away += self._latch.is_shut
            self.seen.append((client, number))
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def _shut_watched(self, deadline: float | None) -> bool:
        before = self._running
        is_shut = self._shut(deadline)
        with self._lock:
            self.locks += is_shut
            self.locked_under += bool(is_shut and (before or self._running))
        return is_shut


class Holding:
    """GPU memory with known contents."""

    def __init__(self, sizes: list[int], seed: int) -> None:
        self.buffers = [cuda.allocate(size) for size in sizes]
        self.sums = [""] * len(sizes)
        self.damaged = 0
        for number in range(len(sizes)):
            self.change(number, seed + number)

    def change(self, number: int, seed: int) -> None:
        """Write something else to one buffer: a pattern over all of it, and random bytes somewhere."""
        generator = random.Random(seed)  # noqa: S311  # contents, no secret
        buffer = self.buffers[number]
        buffer.fill(seed)
        noise = generator.randbytes(min(buffer.size, 1 << 16))
        buffer.write(noise, generator.randrange(buffer.size - len(noise) + 1))
        self.sums[number] = buffer.checksum()

    def check(self, number: int) -> None:
        """Count a buffer whose contents have changed by themselves."""
        self.damaged += self.buffers[number].checksum() != self.sums[number]


_witness: Witness | None = None
_holding: Holding | None = None
_background: dict[str, Any] = {"touches": 0, "longest_s": 0.0, "failed": ""}


def begin(sizes: list[int], seed: int) -> None:
    """Take the memory; from now on everything is witnessed."""
    global _witness, _holding  # noqa: PLW0603  # one of each in a kernel, as its variables are
    _holding = Holding(sizes, seed)
    _witness = Witness()


def _both() -> tuple[Witness, Holding]:
    if _witness is None or _holding is None:
        raise RuntimeError("this kernel lost its variables")
    return _witness, _holding


def cell(client: str, number: int, linger_s: float = 0.0) -> None:
    """What a client's cell number *number* does."""
    witness, holding = _both()
    with witness.cell(client, number):
        time.sleep(linger_s)
        holding.check(number % len(holding.buffers))
        cuda.synchronize()


def check() -> None:
    """Look at all of the memory."""
    witness, holding = _both()
    with witness.cell("check", 0):
        for number in range(len(holding.buffers)):
            holding.check(number)


def change(number: int, seed: int) -> None:
    """Write something else."""
    witness, holding = _both()
    with witness.cell("change", number):
        holding.change(number, seed)


def told() -> str:
    """What was witnessed so far, as JSON."""
    witness, holding = _both()
    facts = {"began_away": witness.began_away, "locked_under": witness.locked_under, "locks": witness.locks}
    held = {"damaged": holding.damaged, "sums": holding.sums, "seen": witness.seen}
    return json.dumps(facts | held | {"background": _background})


def work_in_background(kind: str, seed: int, longest_pause_s: float) -> None:
    """Touch the GPU at random times, without any cell, until the kernel ends.

    Args:
        kind: ``thread``, ``timer`` (one thread after the other), ``pool``, ``task`` or ``call_later``.
        seed: sets the times.
        longest_pause_s: between two touches.
    """
    pauses = random.Random(seed)  # noqa: S311  # times, no secret

    def pause() -> float:
        return pauses.uniform(0, longest_pause_s)

    starts[kind](pause)


def _touch() -> None:
    _, holding = _both()
    began = time.monotonic()
    try:
        holding.check(_background["touches"] % len(holding.buffers))
        cuda.synchronize()
    except Exception as trouble:  # noqa: BLE001  # whatever it is, the soak must hear of it
        _background["failed"] = repr(trouble)
    _background["touches"] += 1
    _background["longest_s"] = max(_background["longest_s"], time.monotonic() - began)


def _work(pause: Callable[[], float]) -> None:
    while True:
        time.sleep(pause())
        _touch()


def _in_a_thread(pause: Callable[[], float]) -> None:
    threading.Thread(target=_work, args=(pause,), daemon=True).start()


def _in_timers(pause: Callable[[], float]) -> None:
    def touch() -> None:
        _touch()
        _in_timers(pause)

    timer = threading.Timer(pause(), touch)
    timer.daemon = True
    timer.start()


def _in_a_pool(pause: Callable[[], float]) -> None:
    _background["pool"] = None  # kept from being collected by the name below
    globals()["_pool"] = pool = ThreadPoolExecutor(1)
    pool.submit(_work, pause)


def _in_a_task(pause: Callable[[], float]) -> None:
    async def work() -> None:
        while True:
            await asyncio.sleep(pause())
            _touch()

    globals()["_task"] = asyncio.get_running_loop().create_task(work())


def _in_calls(pause: Callable[[], float]) -> None:
    def touch() -> None:
        _touch()
        asyncio.get_running_loop().call_later(pause(), touch)

    asyncio.get_running_loop().call_later(pause(), touch)


starts: dict[str, Callable[[Callable[[], float]], None]] = {
    "thread": _in_a_thread,
    "timer": _in_timers,
    "pool": _in_a_pool,
    "task": _in_a_task,
    "call_later": _in_calls,
}
