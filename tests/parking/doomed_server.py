"""A server that dies at a step: ``python -m tests.parking.doomed_server DIR STEP KERNEL``, with the kernel as JSON.

It prints its checkpoint process's id, parks the kernel, resumes it, and is killed as STEP begins.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.parking.sequence import Step, Target
from tests.parking.fake_checkpoint import FakeMachine
from tests.parking.stage import Stage


async def _serve(directory: Path, at: Step, target: Target, *, freeze: bool) -> None:
    async with Stage(directory, FakeMachine(directory), freeze=freeze) as stage:
        await stage.checkpoint.driver()
        print(stage.checkpoint.pid, flush=True)  # noqa: T201  # a program's answer

        def die(step: Step) -> None:
            if step is at:
                os.kill(os.getpid(), signal.SIGKILL)

        parked = await stage.parker.park(target, die)
        await stage.parker.resume(parked, die)


def main() -> None:
    """Live until the step."""
    directory, step, kernel = sys.argv[1:]
    told = json.loads(kernel)
    target = Target(told["kernel_id"], tuple(Identity(*pair) for pair in told["processes"]), told["memory"])
    asyncio.run(_serve(Path(directory), Step(step), target, freeze=told["freeze"]))


if __name__ == "__main__":
    main()
