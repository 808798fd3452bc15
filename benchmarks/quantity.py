"""How fast amounts are summed and shares read: a broker does both for thousands of claims at every decision."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from rich.console import Console

from benchmarks.results import Table
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from collections.abc import Callable

_AMOUNTS: Final = 10_000
_ROUNDS: Final = 51
_TEXTS: Final = ("0.25..0.8@a100", "2x0.5", "16GiB", "4")


def _times_ms(action: Callable[[], object]) -> list[float]:
    """The times of *action*, ascending, in milliseconds."""
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        action()
        times.append((time.perf_counter() - began) * 1000)
    return sorted(times)


def _actions() -> dict[str, Callable[[], object]]:
    fractions = [Fraction(n % Fraction.PER_GPU) for n in range(0, _AMOUNTS * 7, 7)]
    memories = [Memory(n << 20) for n in range(_AMOUNTS)]
    shares = [Share.parse(text) for text in _TEXTS] * 250
    usable = Memory(40 << 30)
    fitting = [share for share in shares if share.count == 1]
    return {
        f"sum of {_AMOUNTS:,} fractions": lambda: Fraction.total(fractions),
        f"sum of {_AMOUNTS:,} memories": lambda: Memory.total(memories),
        f"sort of {_AMOUNTS:,} fractions": lambda: sorted(fractions),
        f"parse of {len(shares):,} shares": lambda: [Share.parse(text) for text in _TEXTS * 250],
        f"format of {len(shares):,} shares": lambda: [str(share) for share in shares],
        f"resolve of {len(fitting):,} shares on a device": lambda: [share.resolve(usable) for share in fitting],
    }


def main() -> None:
    """Print the table."""
    rows = []
    for name, action in _actions().items():
        times = _times_ms(action)
        rows.append([name, f"{statistics.median(times):.2f}", f"{times[0]:.2f} to {times[-1]:.2f}"])
    Table("Amounts", ["action", "median ms", "lowest to highest"], rows).show(Console())


if __name__ == "__main__":
    main()
