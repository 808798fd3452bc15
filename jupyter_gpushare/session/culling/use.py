"""Since when nobody and nothing has used a kernel, or the whole server: by sufficient evidence, or not at all.

The table of what is sufficient is the idle policy's own (`session.idle.table`). Two things differ, as more is at stake
than a park: background work counts even where its owner allowed it, and what runs outside kernels counts too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.session.idle.cpu_time import CpuWindow, read_tree
from jupyter_gpushare.session.idle.sight import held_outside_kernels, sights
from jupyter_gpushare.session.idle.table import first_veto, idle_since
from jupyter_gpushare.session.idle.track import Track
from jupyter_gpushare.session.wire import PolicyModel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from jupyter_gpushare.session.idle.cpu_time import Tree
    from jupyter_gpushare.session.idle.surroundings import LiveKernels
    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.parking.record import Parking

__all__ = ["KernelUse", "Surroundings", "Use"]

_STRICT: Final = PolicyModel(None, "configuration")
_STALE_S: Final = 60.0
#: Where what belongs to no kernel is kept.
_REST: Final = ""


@dataclass(frozen=True, slots=True)
class KernelUse:
    """How it is with one kernel.

    Attributes:
        idle_since: since when nobody and nothing has used it; None while somebody does, or where that cannot be told.
        holds: whether it holds GPU memory, on a device or parked.
        parked_since: since when it has been parked; None while it is not.
        is_busy: whether Jupyter says at this moment that it does something, if only answer a poll.
    """

    idle_since: float | None
    holds: bool
    parked_since: float | None
    is_busy: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is looked at.

    Attributes:
        kernels: the server's kernels.
        parking: how it is with parking one of them.
        held: how many messages wait for one of them.
        reports: bytes that kernels counted themselves, by kernel id.
        roots: processes, by pid, of which everything that descends belongs to one kernel, terminal or the server.
        server_pid: the server's own process.
        touched: when somebody last did something here that is no cell, in seconds since the epoch.
        clock: gives the time, in seconds since the epoch.
        read_cpu: reads the CPU time of process trees by their roots, in a thread.
    """

    kernels: LiveKernels
    parking: Callable[[str], Parking]
    held: Callable[[str], int]
    reports: Mapping[str, int]
    roots: Callable[[], Collection[int]]
    server_pid: int
    touched: Callable[[], float]
    clock: Callable[[], float]
    read_cpu: Callable[[Collection[int]], Tree] = read_tree


class Use:
    """Follows one server. Lives on its event loop."""

    def __init__(self, at: Surroundings) -> None:
        self._at = at
        self._tracks: dict[str, Track] = {}
        self._windows: dict[str, CpuWindow] = {}
        self._cells_ended: dict[str, float] = {}
        self._holds_outside = False

    def take(self, sample: Sample) -> None:
        """Look at a new sample of the devices."""
        seen = sights(sample, [kernel.id for kernel in self._at.kernels.all()], self._at.reports)
        for kernel_id in self._tracks.keys() - seen.keys():
            del self._tracks[kernel_id]
        for kernel_id, sight in seen.items():
            if kernel_id not in self._tracks:
                self._tracks[kernel_id] = Track(sight, stale_s=_STALE_S)
            self._tracks[kernel_id].see(sight, sample.at)
        self._holds_outside = held_outside_kernels(sample)

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self._tracks.pop(kernel_id, None)
        self._windows.pop(kernel_id, None)
        self._cells_ended.pop(kernel_id, None)

    async def read(self) -> None:
        """Read the CPU time of everything here. What was not read lately is no evidence."""
        roots = {kernel.id: self._pids(kernel) for kernel in self._at.kernels.all()}
        known = {pid for pids in roots.values() for pid in pids}
        server = self._at.server_pid

        def trees() -> dict[str, Tree]:
            found = {name: self._at.read_cpu(pids) if pids else {} for name, pids in roots.items()}
            ours = {process for tree in found.values() for process in tree}
            whole = self._at.read_cpu([server, *self._at.roots()])
            rest = {each: ticks for each, ticks in whole.items() if each not in ours and each.pid != server}
            return {**found, _REST: rest}

        read = await asyncio.to_thread(trees)
        for name in self._windows.keys() - read.keys():
            del self._windows[name]
        now = self._at.clock()
        for name, tree in read.items():
            self._take(name, tree, now, is_known=name == _REST or bool(known.intersection(roots[name])))

    def of(self, kernel: Kernel) -> KernelUse:
        """How it is with one kernel."""
        parking, busy = self._at.parking(kernel.id), self._at.kernels.execution_state(kernel.id) != "idle"
        is_parked = parking.status == "parked"
        track = None if is_parked else self._tracks.get(kernel.id)
        since = None if parking.status not in ("running", "parked") else self._idle_since(kernel, track)
        return KernelUse(
            since,
            holds=is_parked or track is not None,
            parked_since=parking.since if is_parked else None,
            is_busy=busy,
        )

    def idle_since(self) -> float | None:
        """Since when nobody and nothing has used the server; None while somebody does, or where that cannot be told."""
        rest = self._windows.get(_REST)
        if self._holds_outside or rest is None or (rest.signal.readable and rest.signal.quiet_since is None):
            return None
        since = max(self._at.touched(), rest.signal.quiet_since or 0.0)
        for kernel in self._at.kernels.all():
            idle = self.of(kernel).idle_since
            if idle is None:
                return None
            since = max(since, idle)
        return since

    def _idle_since(self, kernel: Kernel, track: Track | None) -> float | None:
        """By cells, waiting messages, CPU time, and by the GPU where it holds some."""
        window = self._windows.get(kernel.id)
        if kernel.cells or self._at.held(kernel.id) or window is None or window.signal.quiet_since is None:
            return None
        quiet = max(kernel.idle_since, window.signal.quiet_since)
        if track is None:
            return quiet
        evidence = track.evidence(
            # A poll makes it busy for a moment, and begins nothing anew.
            kernel,
            execution_state="idle",
            held=0,
            kept_until=None,
            now=self._at.clock(),
        )
        if first_veto(evidence, _STRICT, self._at.clock()) is not None:
            return None
        return max(quiet, idle_since(evidence, _STRICT))

    def _pids(self, kernel: Kernel) -> list[int]:
        pid, track = self._at.kernels.pid(kernel.id), self._tracks.get(kernel.id)
        return [] if pid is None else [pid, *(track.sight.pids if track is not None else ())]

    def _take(self, name: str, tree: Tree, now: float, *, is_known: bool) -> None:
        window = self._windows.setdefault(name, CpuWindow())
        kernel = self._at.kernels.get(name) if name else None
        if kernel is not None and (kernel.cells or kernel.idle_since != self._cells_ended.get(name)):
            window.restart()  # CPU time until the end of a cell is that cell's
            self._cells_ended[name] = kernel.idle_since
        if is_known:
            window.note(now, tree)
        else:
            window.restart()  # it runs elsewhere
        if (track := self._tracks.get(name)) is not None and kernel is not None:
            track.follow_cells(kernel)
            track.take_cpu(now, tree)
