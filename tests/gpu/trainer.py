"""A training program whose whole state is on the device: each step makes the next contents from a sum over these.

``python -m tests.gpu.trainer PROGRAM BYTES STEPS LOSSES SAVED safe_point|sigterm``
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Final

from jupyter_gpushare.training import safe_point

_STEP_S: Final = 0.01


def main() -> int:
    """Train; 143 when it had to stop, after it had saved."""
    name, size, steps, losses, saved, way = sys.argv[1:]
    program: Any = importlib.import_module(f"tests.gpu.programs.with_{name}").Program()
    step, seed = json.loads(Path(saved).read_text()) if Path(saved).exists() else (0, 1)
    program.hold(int(size))
    stopped: list[int] = []
    if way == "sigterm":
        signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with Path(losses).open("a", buffering=1) as output:
        while step < int(steps) and not stopped:
            program.fill(seed)
            if way == "safe_point":
                safe_point()
            program.work(_STEP_S)
            loss = str(program.digest())
            output.write(json.dumps([step, loss]) + "\n")
            step, seed = step + 1, zlib.crc32(loss.encode())
            time.sleep(_STEP_S)
    if stopped:
        Path(saved).write_text(json.dumps([step, seed]))
    return 128 + signal.SIGTERM if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
