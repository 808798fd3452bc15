"""A user's own broker killed at every step of its very first start, while several holders start it at once.

Here it is the command that `starting` runs, in a process that nobody forked for speed: the hand comes into it as a
``sitecustomize``. Each kill has a home of its own, with no ledger in it, so that the first step is its migration.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.broker.starting import StartError, start
from jupyter_gpushare.broker.wire import ClaimModel, ProcessModel
from jupyter_gpushare.demo.processes import end_processes, marked_processes
from jupyter_gpushare.demo.workspace import Workspace
from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.quantity import Memory
from scripts.soak.broker_hand import OPENING, ORDER
from scripts.soak.harness import MIB, until
from scripts.soak.record import ROOT

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "STEPS", "closing", "done", "run"]

NAME: Final = "broker-starts"
#: The one that starts it dies, not the broker.
_STARTER: Final = "the starter dies"
STEPS: Final = ("before migrating", "inside migrating", *OPENING, _STARTER)
_EACH: Final = 30
GOAL: Final = _EACH * len(STEPS)
_AT_ONCE: Final = 3
_DEADLINE_S: Final = 60.0
_LONGEST_S: Final = 1.5
_HAND: Final = """\
import os, pathlib, sys
if "broker" in sys.orig_argv:
    from scripts.soak.broker_hand import ORDER, install
    install(pathlib.Path(os.environ[ORDER]))
"""


async def run(block: Block, *, steps: Sequence[str] = STEPS) -> None:
    """One kill at each of *steps*."""
    choose = random.Random(f"{NAME} {block.seed}")  # noqa: S311  # a seed repeats the block
    for step in choose.sample(steps, len(steps)):
        home = Home()
        try:
            await _one(block, home, step, choose)
        except (OSError, TimeoutError) as trouble:
            block.violated(f"{step}: {trouble!r}: {home.log()}")
        finally:
            await asyncio.to_thread(home.close)


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return sum(min(counts[f"killed {step}"], _EACH) for step in STEPS)


def closing(counts: Counter[str]) -> list[str]:
    """Whether every step had its turns."""
    return [f"each of {len(STEPS)} steps at least {min(counts[f'killed {step}'] for step in STEPS)} times"]


class Home:
    """A user without a broker, and a simulated machine."""

    def __init__(self) -> None:
        self._workspace = Workspace.create()
        self._short = Path(tempfile.mkdtemp(prefix="gs"))  # a socket's path must be short
        spec = DeviceSpec(total=Memory(72 * MIB), reserve=Memory(8 * MIB))
        self._machine = Machine.create(self._workspace.machine, [spec], context_bytes=2 * MIB, copy_bytes_per_s=0)
        hand = self._short / "hand"
        hand.mkdir()
        (hand / "sitecustomize.py").write_text(_HAND)
        self.order = self._short / "order"
        self.environ: Mapping[str, str] = {
            **self._workspace.environment(private_runtime=True),
            "PYTHONPATH": f"{hand}:{ROOT}",
            "XDG_RUNTIME_DIR": str(self._short),
            "JUPYTER_DATA_DIR": str(self._short / "data"),
            "GPUSHARE_BROKER": "start",
            ORDER: str(self.order),
        }

    def brokers(self) -> list[psutil.Process]:
        """Those that run here."""
        return [each for each in marked_processes(self._workspace.root) if "--on-demand" in _command(each)]

    def log(self) -> str:
        """What brokers printed last."""
        path = self._short / "gpushare" / "broker.log"
        return path.read_text(errors="replace")[-1500:] if path.exists() else ""

    def close(self) -> None:
        """End what runs and remove what is left."""
        end_processes(self._workspace.root)
        self._machine.close()
        self._workspace.remove()
        shutil.rmtree(self._short)


async def _one(block: Block, home: Home, step: str, choose: random.Random) -> None:
    if step == _STARTER:
        await _kill_starter(home, choose.uniform(0, _LONGEST_S))
    else:
        home.order.write_text(step)
        await _start_many(block, home)
        if home.order.exists():
            block.violated(f"the broker never came to {step!r}")
            return
    block.counts["kills"] += 1
    block.counts[f"killed {step}"] += 1
    while not await _is_served(home):
        # It may have answered its starter in its last moment.
        block.counts["found dying"] += 1

    async def is_one() -> bool:
        return len(await asyncio.to_thread(home.brokers)) == 1

    await until(is_one, "one broker runs", _DEADLINE_S)


async def _start_many(block: Block, home: Home) -> None:
    """Of several that start it at once one sees it die and says so; who comes after has a broker that runs."""
    tries = [asyncio.to_thread(start, home.environ) for _ in range(_AT_ONCE)]
    for outcome in await asyncio.gather(*tries, return_exceptions=True):
        if isinstance(outcome, StartError):
            block.counts["told that it did not start"] += 1
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            block.counts["given a broker"] += 1


async def _kill_starter(home: Home, after_s: float) -> None:
    program = "import os; from jupyter_gpushare.broker.starting import start; start(dict(os.environ))"
    starter = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=dict(home.environ))
    await asyncio.sleep(after_s)
    if starter.returncode is None:
        starter.kill()
    await starter.wait()


async def _is_served(home: Home) -> bool:
    """Whether a holder that starts a broker where there is none has a share; it gives that back.

    Raises:
        TimeoutError: the broker that runs does not serve it.
    """
    endpoint = await asyncio.to_thread(Endpoint.discover, home.environ)
    if endpoint is None or not await asyncio.to_thread(endpoint.listens):
        return False
    me = myself()
    claim = ClaimModel("k", "training", "default", "0.5", "soak")
    holding = BrokerClient(endpoint).hold(claim, [ProcessModel(me.pid, me.start)])
    try:
        lease = await asyncio.wait_for(holding.granted(), _DEADLINE_S)
        holding.did("running", lease.epoch)
        await asyncio.wait_for(holding.until(lambda each: each.status == "running"), _DEADLINE_S)
    except TimeoutError:
        raise TimeoutError(f"no share: connected {holding.connected}, {holding.lease}") from None
    finally:
        await holding.end()
    return True


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
