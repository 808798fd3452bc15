"""How fast amounts are summed: a broker adds up ten thousand shares at every decision."""

from __future__ import annotations

import statistics
import time

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.share import Share

AMOUNTS = 10_000
ROUNDS = 51


def median_ms(action: object, rounds: int = ROUNDS) -> float:
    """The median time of *action* in milliseconds."""
    assert callable(action)
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


def main() -> None:
    """Print the medians."""
    amounts = [Fraction(n % Fraction.PER_GPU) for n in range(0, AMOUNTS * 7, 7)]
    print(f"sum of {AMOUNTS} fractions: {median_ms(lambda: Fraction.total(amounts)):.2f} ms")
    texts = ["0.25..0.8@a100", "2x0.5", "16GiB", "4"] * 250
    print(f"parse of {len(texts)} shares: {median_ms(lambda: [Share.parse(text) for text in texts]):.2f} ms")


if __name__ == "__main__":
    main()
