"""The watch over kernels that hold GPU memory: judges each once a second, warns, and has it parked when it is due.

Nothing runs here, no timer and no task, while nothing is held or parking is off.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpushare.session.idle.countdown import Countdown
from jupyter_gpushare.session.idle.cpu_time import read_tree
from jupyter_gpushare.session.idle.evidence import Activity
from jupyter_gpushare.session.idle.policy import Active, Idle
from jupyter_gpushare.session.idle.sight import held_outside_kernels, sights
from jupyter_gpushare.session.idle.surroundings import PARK_FAILED, WatchSettings
from jupyter_gpushare.session.idle.track import Refused, Track

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Iterable, Mapping

    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.idle.cpu_time import Tree
    from jupyter_gpushare.session.idle.keep import Keep
    from jupyter_gpushare.session.idle.observer import Observer
    from jupyter_gpushare.session.idle.overrides import Overrides
    from jupyter_gpushare.session.idle.policy import IdlePolicy, Judgement
    from jupyter_gpushare.session.idle.surroundings import LiveKernels, Parking
    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.meter import Sample

__all__ = ["IdleWatch"]


class IdleWatch:
    """Lives on the server's event loop.

    Args:
        kernels: the server's kernels.
        parking: parks, and knows what is parked.
        policy: judges.
        overrides: the policy of each kernel.
        keep: timed locks.
        observer: gives the mode, and counts what *observe* would have parked and what the policy was refused.
        reports: bytes that kernels counted themselves, by kernel id.
        changed: called whenever a judgement or a countdown changed.
        settings: times.
        log: where trouble goes.
        clock: gives the time, in seconds since the epoch.
        read_cpu: reads the CPU time of process trees by their roots, in a thread.
    """

    def __init__(
        self,
        kernels: LiveKernels,
        parking: Parking,
        *,
        policy: IdlePolicy,
        overrides: Overrides,
        keep: Keep,
        observer: Observer,
        reports: Mapping[str, int],
        changed: Callable[[], None],
        log: logging.Logger,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = time.time,
        read_cpu: Callable[[Collection[int]], Tree] = read_tree,
    ) -> None:
        self._kernels = kernels
        self._parking = parking
        self._policy = policy
        self._overrides = overrides
        self._keep = keep
        self._observer = observer
        self._reports = reports
        self._changed = changed
        self._log = log
        self._settings = settings or WatchSettings()
        self._clock = clock
        self._read_tree = read_cpu
        self._tracks: dict[str, Track] = {}
        self._cpu_read = -float("inf")
        self._looking: asyncio.Task[None] | None = None
        self._parks: dict[str, asyncio.Task[None]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._failing = False

    @property
    def sleeps(self) -> bool:
        """Whether nothing runs here, as nothing is held or parking is off."""
        return self._looking is None

    def take(self, sample: Sample) -> None:
        """Look at a sample; call it with each one, on the event loop. Begins to watch where something is held."""
        seen = sights(sample, [kernel.id for kernel in self._kernels.all()], self._reports)
        for kernel_id in self._tracks.keys() - seen.keys():
            self._lose_sight_of(kernel_id)
        for kernel_id, sight in seen.items():
            track = self._tracks.get(kernel_id) or Track(sight, stale_s=self._settings.stale_s)
            track.see(sight, sample.at)
            self._tracks[kernel_id] = track
        self._observer.holds(seen.keys(), outside=held_outside_kernels(sample))
        if self._has_work() and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def judgement(self, kernel_id: str) -> Judgement | None:
        """How it is with a kernel, as people are to see it; None while it holds nothing, is parked, or is too new.

        An `Idle` has times only where it will be parked then: not in mode *observe*, and not where that was refused.
        """
        track = self._tracks.get(kernel_id)
        return track.shown if track is not None else None

    def parks_at(self, kernel_id: str) -> float | None:
        """When its countdown ends, in seconds since the epoch; None while none runs."""
        idle = self.judgement(kernel_id)
        if not isinstance(idle, Idle) or idle.warns_at is None or self._clock() < idle.warns_at:
            return None
        return idle.parks_at

    def reconsider(self, kernel_id: str) -> None:
        """What had its park refused may have changed: it may be tried again, after a new warning."""
        if (track := self._tracks.get(kernel_id)) is not None:
            track.refused = None

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more: its locks, its owner's policy and its countdown end with it."""
        self._tracks.pop(kernel_id, None)
        self._keep.forget(kernel_id)
        self._overrides.forget(kernel_id)
        self._observer.forget(kernel_id)

    async def stop(self) -> None:
        """End, leaving no task behind."""
        tasks = [task for task in (self._looking, self._refreshing, *self._parks.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def turn(self) -> None:
        """Judge every kernel that holds GPU memory, once."""
        now = self._clock()
        for kernel_id in list(self._tracks):
            self._prepare(kernel_id)
        if now - self._cpu_read >= self._settings.cpu_every_s:
            self._cpu_read = now
            self._refresh_policies()
            await self._read_cpu(list(self._tracks))
        changes = [self._judge(kernel_id) for kernel_id in list(self._tracks)]
        if any(changes):
            self._changed()

    def _has_work(self) -> bool:
        return bool(self._tracks) and self._observer.mode != "off"

    async def _look(self) -> None:
        """Turn after turn while there is something to watch."""
        try:
            while self._has_work():
                await self._turn_safely()
                await asyncio.sleep(self._settings.every_s)
        finally:
            self._looking = None
            for track in self._tracks.values():
                track.begin_anew()
            self._changed()

    async def _turn_safely(self) -> None:
        try:
            await self.turn()
        except Exception:  # noqa: BLE001  # the watch must outlive any fault, else nothing is ever parked again
            if not self._failing:
                self._log.exception("Judging what is idle failed; it is tried again, and nothing is parked meanwhile")
            self._failing = True
        else:
            self._failing = False

    def _prepare(self, kernel_id: str) -> None:
        kernel, track = self._kernels.get(kernel_id), self._tracks[kernel_id]
        if kernel is None:
            self._lose_sight_of(kernel_id)
        elif self._parking.is_running(kernel_id):
            track.follow_cells(kernel)
        else:
            track.begin_anew()
            self._observer.would.forget(kernel_id)

    def _lose_sight_of(self, kernel_id: str) -> None:
        self._tracks.pop(kernel_id, None)
        self._observer.would.resumed(kernel_id)

    def _waiting(self, kernel_ids: Iterable[str]) -> dict[str, tuple[Kernel, Track]]:
        """Those among *kernel_ids* that may be idle: they live, are not parked, and run no cell."""
        found = {}
        for kernel_id in kernel_ids:
            kernel, track = self._kernels.get(kernel_id), self._tracks.get(kernel_id)
            if kernel is not None and track is not None and not kernel.cells and self._parking.is_running(kernel_id):
                found[kernel_id] = (kernel, track)
        return found

    async def _read_cpu(self, kernel_ids: Iterable[str]) -> None:
        roots = {kernel_id: self._roots(kernel_id) for kernel_id in self._waiting(kernel_ids)}
        if roots:
            trees = await asyncio.to_thread(lambda: {each: self._read_tree(pids) for each, pids in roots.items()})
            for kernel_id, (kernel, track) in self._waiting(trees).items():
                track.follow_cells(kernel)
                track.take_cpu(self._clock(), trees[kernel_id])

    def _roots(self, kernel_id: str) -> list[int]:
        """The kernel and its processes on a device, of which one may have left the tree for another parent."""
        pid = self._kernels.pid(kernel_id)
        return [] if pid is None else [pid, *self._tracks[kernel_id].sight.pids]

    def _refresh_policies(self) -> None:
        """One at a time and beside the watch: a contents manager may be slow."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh(list(self._tracks)))

    async def _refresh(self, kernel_ids: Iterable[str]) -> None:
        for kernel_id, (kernel, _) in self._waiting(kernel_ids).items():
            await self._overrides.refresh(kernel_id, kernel.path)

    def _judge(self, kernel_id: str) -> bool:
        """Judge one kernel and act on it; whether that changed anything that people see."""
        kernel, track = self._kernels.get(kernel_id), self._tracks.get(kernel_id)
        if kernel is None or track is None or not self._parking.is_running(kernel_id):
            return False
        before = track.shown, track.countdown.ends_at
        now, policy = self._clock(), self._overrides.of(kernel_id)
        evidence = track.evidence(
            kernel,
            execution_state=self._kernels.execution_state(kernel_id),
            held=self._parking.held(kernel_id),
            kept_until=self._keep.until(kernel_id),
            now=now,
        )
        track.judgement = judgement = self._policy.judge(evidence, policy, now)
        refusal = self._parking.refusal(kernel_id)
        if refusal is not None and isinstance(judgement, Idle):
            self._tell_refusal(track, judgement, refusal, now)
        blocked = refusal is not None or (track.refused is not None and track.refused.stands(track, policy, now))
        track.countdown.follow(None if blocked else judgement, now)
        track.shown = self._shown(track, judgement, blocked=blocked)
        self._act(kernel_id, track, judgement, now)
        return before != (track.shown, track.countdown.ends_at)

    def _shown(self, track: Track, judgement: Judgement, *, blocked: bool) -> Judgement:
        if isinstance(judgement, Idle) and (blocked or self._observer.mode != "park"):
            return Idle(judgement.since)
        return track.countdown.shown(judgement, track.shown)

    def _tell_refusal(self, track: Track, idle: Idle, refusal: Message, now: float) -> None:
        """Count what was due and could not be, once for as long as it stays so."""
        told = idle.since, refusal.code
        if idle.parks_at is not None and now >= idle.parks_at and track.told_refusal != told:
            track.told_refusal = told
            tally = self._observer.would if self._observer.mode == "observe" else self._observer.did
            tally.refused(refusal.code)

    def _act(self, kernel_id: str, track: Track, judgement: Judgement, now: float) -> None:
        is_due = track.countdown.has_ended(judgement, now)
        if self._observer.mode == "observe":
            if is_due:
                self._observer.would.parked(kernel_id)
            elif judgement != Active(Activity.KERNEL_BUSY):
                self._observer.would.resumed(kernel_id)
        elif is_due and self._observer.mode == "park" and kernel_id not in self._parks:
            task = self._parks[kernel_id] = asyncio.get_running_loop().create_task(self._park(kernel_id, track))
            task.add_done_callback(lambda _: self._parks.pop(kernel_id, None))

    async def _park(self, kernel_id: str, track: Track) -> None:
        """Park one kernel, unless the newest CPU time speaks against it."""
        await self._read_cpu([kernel_id])
        self._judge(kernel_id)
        if track.judgement is None or not track.countdown.has_ended(track.judgement, self._clock()):
            return
        asked = Refused(0.0, track.cell_ended, track.sight.memory, self._overrides.of(kernel_id))
        refusal = await self._ask_to_park(kernel_id)
        # Whatever became of it, nothing is parked again without a new warning.
        track.countdown = Countdown()
        if refusal is not None:
            track.refused = replace(asked, until=self._clock() + self._settings.retry_s)
            self._observer.did.refused(refusal.code)
            self._changed()

    async def _ask_to_park(self, kernel_id: str) -> Message | None:
        try:
            return await self._parking.park(kernel_id)
        except Exception:  # noqa: BLE001  # whatever it is, the notebook goes on and people are told
            self._log.exception("Parking kernel %s failed", kernel_id)
            return PARK_FAILED
