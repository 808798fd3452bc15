"""Training that ignores SIGTERM: whoever wants its share back waits until its grace is over.

``python -m benchmarks.latency.stubborn --losses FILE``: writes a line for each step, for ever.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from jupyter_gpushare.devices.simulated import cuda


def main() -> None:
    """Compute until it is killed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.stubborn")
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--step-s", type=float, default=0.1)
    options, _ = parser.parse_known_args()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = cuda.allocate(options.memory)
    with options.losses.open("a", buffering=1) as losses:
        while held:
            losses.write("[0, 0]\n")
            cuda.compute(80, options.step_s)


if __name__ == "__main__":
    main()
