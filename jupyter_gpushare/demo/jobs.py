"""The demo's training: real ``jupyter gpushare run`` jobs, and how many steps they make in a second."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.demo.processes import Child
from jupyter_gpushare.demo.workspace import TRAINING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jupyter_gpushare.demo.workspace import Workspace

__all__ = ["Job", "steps_per_s"]

#: A step's GPU time is what bounds it, not this machine's processor.
_STEP_S: Final = 0.1
_ENDLESS: Final = 10**9


@dataclass(frozen=True)
class Job:
    """A ``jupyter gpushare run`` that we started, called *name*; it writes one line a step to *losses*."""

    name: str
    child: Child
    losses: Path

    @classmethod
    def start(
        cls,
        workspace: Workspace,
        environment: dict[str, str],
        name: str,
        *,
        gpu: str,
        memory: str = "2GiB",
        project: str = TRAINING,
        options: Sequence[str] = (),
        program: Sequence[str] = (),
        module: str = "jupyter_gpushare.demo.train_numpy",
    ) -> Job:
        """Claim *gpu* for a NumPy training loop that holds its weights and *memory* on the device; it never ends.

        *options* go to ``run``, *program* to the training program, which another *module* may be.
        """
        losses = workspace.root / f"{name}.losses"
        run = ["run", "--project", project, "--gpu", gpu, "--name", name, "--locks", str(workspace.locks)]
        run += [f"--RunApp.state_directory={workspace.state}", *options]
        train = ["--steps", str(_ENDLESS), "--step-s", str(_STEP_S), "--memory", memory, "--losses", str(losses)]
        train += ["--save", str(workspace.root / f"{name}.npz")]
        argv = [sys.executable, "-m", "jupyter_gpushare.app", *run, "--", sys.executable, "-m"]
        argv += [module, *train, *program]
        return cls(name, Child(argv, environment, workspace.root, workspace.root / f"{name}.log"), losses)

    @property
    def steps(self) -> int:
        """How many steps it has made, over all of its starts."""
        return self.losses.read_bytes().count(b"\n") if self.losses.exists() else 0

    def made(self) -> list[int]:
        """The numbers of the steps that it has made, in the order in which it made them."""
        lines = self.losses.read_text(encoding="utf-8").splitlines(keepends=True) if self.losses.exists() else []
        return [json.loads(line)[0] for line in lines if line.endswith("\n")]


async def steps_per_s(jobs: Sequence[Job], seconds: float) -> float:
    """How many steps all of *jobs* together make in a second, counted for so many *seconds*."""
    began, before = time.monotonic(), sum(job.steps for job in jobs)
    await asyncio.sleep(seconds)
    return (sum(job.steps for job in jobs) - before) / (time.monotonic() - began)
