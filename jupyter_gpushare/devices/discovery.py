"""Which source of devices this machine has. Choosing touches no driver: the first question to the source does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from jupyter_gpushare.devices.device import Driver, DriverState, Source

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jupyter_gpushare.devices.device import Device, DeviceUse

__all__ = ["SIMULATED_MACHINE", "Candidate", "FirstPresent", "open_source"]

SIMULATED_MACHINE: Final = "GPUSHARE_SIMULATED_MACHINE"

_NO_GPU: Final = (
    "No GPU driver is installed on this machine. Install NVIDIA's or AMD's driver; "
    "in a container, start it with GPU access (docker run --gpus all)."
)


class Candidate(Source, Protocol):
    """A source that knows whether its driver's library is there, and how often it has called it."""

    @property
    def installed(self) -> bool:
        """Whether the library was found when it was last looked for."""

    @property
    def calls(self) -> int:
        """How many calls of the driver were made."""


def open_source(environ: Mapping[str, str]) -> Source:
    """The source of this machine's devices: the simulated machine that *environ* names, else what the drivers find."""
    if directory := environ.get(SIMULATED_MACHINE):
        from jupyter_gpushare.devices.simulated.source import SimulatedSource

        return SimulatedSource(Path(directory))
    from jupyter_gpushare.devices.amd import AmdSource
    from jupyter_gpushare.devices.nvml import NvmlSource

    return FirstPresent([NvmlSource(environ=environ), AmdSource(environ=environ)])


class FirstPresent:
    """The first of some sources whose driver is there; with none, a source that says so.

    A choice is made at the first question. While no driver is present each question asks the candidates anew; they
    look for their driver twice a minute, so that one loaded later is found without a restart.
    """

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates
        self._chosen: Candidate | None = None
        self._absent = Driver("none", DriverState.ABSENT, reason=_NO_GPU)

    @property
    def calls(self) -> int:
        """How many calls of any driver were made."""
        return sum(candidate.calls for candidate in self._candidates)

    def driver(self) -> Driver:
        """The chosen driver's state, or that there is none and what to do."""
        chosen = self._choose()
        return self._absent if chosen is None else chosen.driver()

    def devices(self) -> Sequence[Device]:
        """The chosen driver's devices."""
        chosen = self._choose()
        return () if chosen is None else chosen.devices()

    def read(self) -> Sequence[DeviceUse]:
        """The chosen driver's readings."""
        chosen = self._choose()
        return () if chosen is None else chosen.read()

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        """Which of *pids* have a device open: of the chosen vendor, or of any before one is chosen."""
        asked = self._candidates if self._chosen is None else (self._chosen,)
        return frozenset().union(*(candidate.has_open(pids) for candidate in asked))

    def close(self) -> None:
        """Let go of every driver, and choose anew when asked again."""
        for candidate in self._candidates:
            candidate.close()
        self._chosen = None

    def _choose(self) -> Candidate | None:
        if self._chosen is None:
            self._look()
        return self._chosen

    def _look(self) -> None:
        broken: Driver | None = None
        for candidate in self._candidates:
            driver = candidate.driver()
            if driver.state != DriverState.ABSENT:
                self._chosen = candidate
                return
            if candidate.installed and broken is None:
                broken = driver
        self._absent = broken or Driver("none", DriverState.ABSENT, reason=_NO_GPU)
