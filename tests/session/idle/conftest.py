"""A clock that stands still until it is moved, kernels that run nothing, and those who park, kept by hand."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.attribution import Attributed, DeviceSplit, Owner, OwnerUse
from jupyter_gpushare.devices.device import DeviceUse, Driver, DriverState, Reading
from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.session.idle.cpu_time import Ticks
from jupyter_gpushare.session.idle.keep import Keep
from jupyter_gpushare.session.idle.notebook_metadata import NotebookMetadata
from jupyter_gpushare.session.idle.observer import Observer
from jupyter_gpushare.session.idle.overrides import Defaults, Overrides
from jupyter_gpushare.session.idle.policy import FixedTimeout
from jupyter_gpushare.session.idle.surroundings import WatchSettings
from jupyter_gpushare.session.idle.watch import IdleWatch
from jupyter_gpushare.session.kernels import Cell, Kernel
from jupyter_gpushare.session.meter import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.wire import ParkingMode

GIB = 1 << 30
LOG = logging.getLogger("tests.idle")
UNKNOWN = Reading.unavailable("not here")
NOON = 1_700_000_000.0


class Clock:
    """Seconds since the epoch, as a test says."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class FakeKernels:
    """Kernels whose cells a test begins and ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.known: dict[str, Kernel] = {}
        self.states: dict[str, str] = {}
        self.pids: dict[str, int | None] = {}

    def start(self, kernel_id: str) -> Kernel:
        """A kernel that has just become idle."""
        self.known[kernel_id] = kernel = Kernel(kernel_id, "python3", f"{kernel_id}.ipynb", self._clock())
        self.states[kernel_id], self.pids[kernel_id] = "idle", len(self.known)
        return kernel

    def begin_cell(self, kernel_id: str) -> None:
        self.known[kernel_id].cells["x"] = Cell(self._clock(), "train()")

    def end_cell(self, kernel_id: str) -> None:
        self.known[kernel_id].cells.clear()
        self.known[kernel_id].idle_since = self._clock()

    def all(self) -> list[Kernel]:
        return list(self.known.values())

    def get(self, kernel_id: str) -> Kernel | None:
        return self.known.get(kernel_id)

    def pid(self, kernel_id: str) -> int | None:
        return self.pids.get(kernel_id)

    def execution_state(self, kernel_id: str) -> str:
        return self.states.get(kernel_id, "unknown")


class FakeParking:
    """Parks at once, refuses, or fails, as a test says."""

    def __init__(self) -> None:
        self.parked: list[str] = []
        self.asked: list[str] = []
        self.holding: dict[str, int] = {}
        self.known_refusals: dict[str, Message] = {}
        self.answer: Message | Exception | None = None

    def held(self, kernel_id: str) -> int:
        return self.holding.get(kernel_id, 0)

    def is_running(self, kernel_id: str) -> bool:
        return kernel_id not in self.parked

    def refusal(self, kernel_id: str) -> Message | None:
        return self.known_refusals.get(kernel_id)

    async def park(self, kernel_id: str) -> Message | None:
        self.asked.append(kernel_id)
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            self.parked.append(kernel_id)
        return self.answer


class FakeContents:
    """Notebooks in a dict of path to model, or an error; counts what is asked of it."""

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.asked: list[tuple[str, bool]] = []

    async def get(self, path: str, *, content: bool, **_: Any) -> dict[str, Any]:
        self.asked.append((path, content))
        found = self.files[path]
        if isinstance(found, Exception):
            raise found
        return dict(found) if content else {key: value for key, value in found.items() if key != "content"}


def use_of(kernel_id: str, memory: int | None = GIB, percent: int | None = 0, kind: Any = "kernel") -> OwnerUse:
    """What one kernel, or another owner, holds on the only device."""
    held = UNKNOWN if memory is None else Reading.exact(memory)
    utilisation = UNKNOWN if percent is None else Reading.exact(percent)
    return OwnerUse(Owner(kind, kernel_id), (), held, utilisation, {"GPU-0": held})


def sample_of(at: float, *uses: OwnerUse, device: int | None = None, trusted: bool = True) -> Sample:
    """A sample with these uses; *device* is the whole device's utilisation."""
    utilisation = UNKNOWN if device is None else Reading.exact(device)
    on_device = DeviceUse("GPU-0", Reading.exact(0), utilisation, ())
    split = DeviceSplit("GPU-0", UNKNOWN, UNKNOWN, None)
    attributed = Attributed(uses, (split,), UNKNOWN, UNKNOWN, trusted=trusted)
    return Sample(at, time.monotonic(), Driver("nvidia", DriverState.READY), (), (on_device,), attributed)


@dataclass
class Watched:
    """An `IdleWatch` with everything around it."""

    clock: Clock
    kernels: FakeKernels
    parking: FakeParking
    contents: FakeContents
    reports: dict[str, int]
    modes: list[ParkingMode]
    observer: Observer
    keep: Keep
    overrides: Overrides
    watch: IdleWatch
    specs: dict[str, Any]
    ticks: dict[int, int]
    changes: list[float] = field(default_factory=list)
    trees_read: list[Collection[int]] = field(default_factory=list)

    async def go(self, seconds: float, *uses: OwnerUse, step_s: float = 5.0, **sample: Any) -> None:
        """Let time pass, with a sample and a turn at every step."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now = min(end, self.clock.now + step_s)
            self.watch.take(sample_of(self.clock.now, *uses, **sample))
            await self.watch.turn()
            await self.settle()

    async def settle(self) -> None:
        """Let every park that has begun end."""
        while self.watch._parks:
            await asyncio.gather(*self.watch._parks.values())


@pytest.fixture(autouse=True)
def _begun() -> None:
    """No server: what is tested here needs none."""


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="watched")
def _watched(clock: Clock, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[Callable[..., Watched]]:
    """Build a watch; in mode *park* with a timeout of 600 s and a warning of 300 s unless said otherwise.

    Its own loop is not begun by samples here, as its pace is made so slow: tests take the turns.
    """

    def build(mode: ParkingMode = "park", **settings: Any) -> Watched:
        specs: dict[str, Any] = {}
        ticks: dict[int, int] = {}
        changes: list[float] = []
        trees_read: list[Collection[int]] = []
        modes: list[ParkingMode] = [mode]

        def read_cpu(pids: Collection[int]) -> dict[Identity, Ticks]:
            trees_read.append(pids)
            return {Identity(pid, 1): Ticks(ticks.get(pid, 0), 0) for pid in pids}

        kernels, parking, contents = FakeKernels(clock), FakeParking(), FakeContents()
        reports: dict[str, int] = {}
        observer = Observer(lambda: modes[0], clock)
        keep = Keep(8 * 3600, clock=clock)
        notebooks = NotebookMetadata(contents, log=LOG, clock=clock)
        overrides = Overrides(Defaults(600), kernel_spec=specs.get, notebooks=notebooks, log=LOG)
        watch = IdleWatch(
            kernels,
            parking,
            policy=FixedTimeout(warning_s=300),
            overrides=overrides,
            keep=keep,
            observer=observer,
            reports=reports,
            changed=lambda: changes.append(clock.now),
            log=LOG,
            settings=WatchSettings(**{"every_s": 3600, **settings}),
            clock=clock,
            read_cpu=read_cpu,
        )
        watches.append(watch)
        return Watched(
            clock, kernels, parking, contents, reports, modes, observer, keep, overrides, watch, specs, ticks, changes,
            trees_read,
        )  # fmt: skip

    watches: list[IdleWatch] = []
    yield build
    for watch in watches:
        jp_asyncio_loop.run_until_complete(watch.stop())


@pytest.fixture(name="one")
def _one(watched: Callable[..., Watched]) -> Watched:
    """One kernel that became idle at noon and holds 1 GiB."""
    one = watched()
    one.kernels.start("a")
    return one
