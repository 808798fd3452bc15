"""One notebook server's share, live: joins devices, kernels and releases, and tells the watchers."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.devices.descendants import descendants
from jupyter_gpushare.devices.process_tree import ProcessTree, in_host_pid_namespace
from jupyter_gpushare.session.cache_freeing import CacheFreeing
from jupyter_gpushare.session.culling.assembly import assemble, bounded
from jupyter_gpushare.session.history import History
from jupyter_gpushare.session.isolation.choose import isolation_maker
from jupyter_gpushare.session.isolation.kernels import KernelIsolation
from jupyter_gpushare.session.kernels import Kernel, Kernels
from jupyter_gpushare.session.lease.session import LeaseHost, LeaseSession
from jupyter_gpushare.session.meter import Meter, Sample
from jupyter_gpushare.session.notebook_names import NotebookNames
from jupyter_gpushare.session.numberless import no_answer_for, not_read_yet
from jupyter_gpushare.session.overrun import Overrun
from jupyter_gpushare.session.overrun_notice import notifier
from jupyter_gpushare.session.parking.host import ParkingHost
from jupyter_gpushare.session.parking.release import ParkRelease
from jupyter_gpushare.session.parking.session import ParkingSession
from jupyter_gpushare.session.process_names import ProcessNames
from jupyter_gpushare.session.provisioner import api_url
from jupyter_gpushare.session.release import Releases, held_by
from jupyter_gpushare.session.snapshot import Scene, session_memory, snapshot, view_of
from jupyter_gpushare.session.state import reading_gpus, state_of
from jupyter_gpushare.session.stream import Frame
from jupyter_gpushare.session.tokens import KernelTokens
from jupyter_gpushare.session.watchers import Watchers

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.devices.attribution import Owner
    from jupyter_gpushare.devices.device import Source
    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.own_share import OwnShare
    from jupyter_gpushare.session.parking.view import KernelParking
    from jupyter_gpushare.session.settings import Settings
    from jupyter_gpushare.session.watchers import Watcher
    from jupyter_gpushare.session.wire import HistoryModel, KernelView, Snapshot

__all__ = ["Session"]

_FIRST_SAMPLE_S = 3.0
_BY_OWNER = "asked for and confirmed by the owner"


class Session:
    """Lives on the server's event loop; only the meter's thread touches the devices.

    Args:
        server: the Jupyter Server.
        source: the devices.
        own: this session's share.
        settings: times.
        open_source: gives the devices once more, for a thread of its own.
        announce: called with each loss before it happens, with the kernels' ids and who wanted it.
        log: where trouble goes.
    """

    def __init__(
        self,
        server: Any,
        *,
        source: Source,
        own: OwnShare,
        settings: Settings,
        open_source: Callable[[], Source],
        announce: Callable[[Loss, Sequence[str], str], None],
        log: logging.Logger,
    ) -> None:
        self._server = server
        self._settings = settings
        self._own = own
        self._log = log
        self._loop: asyncio.AbstractEventLoop | None = None
        self._roots: Mapping[int, Owner] = {}
        self._tree = ProcessTree()
        self._watchers = Watchers(lambda: Frame(self._render()), settings.settle_s)
        self._reports: dict[str, int] = {}
        self._names = ProcessNames()
        self._seq = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.tokens = KernelTokens()
        self.history = History(length_s=settings.history_s, interval_s=settings.cadence.watched)
        self.kernels = Kernels(
            server.kernel_manager,
            server.session_manager,
            terminals=lambda: server.web_app.settings.get("terminal_manager"),
            changed=self._kernels_changed,
            worked=self._kernel_worked,
            ended=self._kernel_ended,
            died=lambda kernel_id: self.parking.parkings.forget(kernel_id),  # noqa: PLW0108  # not made yet
            log=log,
        )
        self._paths = NotebookNames(self.kernels, settings.settle_s, log=log)
        self.meter = Meter(
            source,
            owner_of=lambda pid: self.lease.unless_job(pid, self._tree.owner_of(pid, self._roots)),
            roots=lambda: self._roots,
            descendants=descendants,
            host_pids=in_host_pid_namespace(),
            deliver=self._deliver,
            cadence=settings.cadence,
            log=log,
        )
        self.lease = LeaseSession(
            settings.lease,
            LeaseHost(
                server=server,
                kernels=self.kernels,
                last=lambda: self.meter.last,
                ask=lambda: self.meter.ask(at_once=True),
                parking=lambda: self.parking,
                own=lambda: self._own,
                take_share=self._take_share,
                restarts=lambda: bool(self.isolation.mode.limits),
                looser=lambda: self.isolation.looser(),  # noqa: PLW0108  # not made yet
                roots=lambda: self._roots,
                changed=self._changed,
            ),
            parking=settings.parking,
            log=log,
        )
        freeing = CacheFreeing(server.kernel_manager, settings.answer_deadline_s)
        self.parking = ParkingSession(
            ParkingHost(
                server=server,
                kernels=self.kernels,
                last=lambda: self.meter.last,
                ask=partial(self._ask, at_once=True),
                suspect=self.meter.suspect,
                free_cache=freeing.ask,
                reports=self._reports,
                process_name=self._names.name,
                open_source=open_source,
                announce=announce,
                changed=self._parking_changed,
            ),
            settings.parking,
            agreement=bounded(self),
            log=log,
        )
        self.culling = assemble(
            self, server, settings.parking, reports=self._reports, announce=announce, changed=self._changed, log=log
        )
        make = partial(isolation_maker, settings.isolation, directory=self.parking.state_directory)
        self.isolation = KernelIsolation(
            make(settings.isolation.mode),
            own,
            sample=self._first_sample,
            environ=os.environ,
            notify=lambda message: self.parking.notices.add("warning", message),
            log=log,
            await_share=self.lease.await_devices,
            under_pool=self.lease.isolation_under_pool,
            make=make,
        )
        self.parking.examiner.isolation_of = self.isolation.mode_of
        self._guard = Overrun(
            self.isolation.limits,
            owner_of=lambda pid: self.lease.unless_job(pid, self._tree.owner_of(pid, self._roots)),
            kernel_pid=self.kernels.pid,
            label=self.kernels.label_of,
            announce=announce,
            notify=notifier(self.parking.notices, self.kernels, self.parking.gates),
            log=log,
        )
        self.releases = Releases(
            kernels=self.kernels,
            ask=self._ask,
            last=lambda: self.meter.last,
            free_cache=freeing.troubles,
            parks=ParkRelease(
                freshen=self.parking.looks.freshen,
                is_running=lambda kernel_id: self.parking.parkings.of(kernel_id).status == "running",
                look=self.parking.looks.look,
                park=lambda kernel_id, when_idle: self.parking.parkings.park(
                    kernel_id, asked_by="owner", when_idle=when_idle
                ),
                left=self._left,
            ),
            announce=lambda loss, kernels: announce(loss, [kernel.id for kernel in kernels], _BY_OWNER),
            changed=self._changed,
            deadline_s=settings.release_deadline_s,
            log=log,
        )

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self._loop is not None

    def start(self) -> None:
        """Begin; called on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self.kernels.install()
        self.parking.start()
        self._roots = self.kernels.roots()
        self._tasks.add(self._loop.create_task(self._do_chores()))
        self.meter.start()
        self.lease.start()
        self.culling.start()

    async def stop(self) -> None:
        """End, leaving no thread or task behind."""
        self._watchers.stop()
        await self._paths.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.culling.stop()
        await self.parking.stop()
        await self.releases.stop()
        await self.isolation.close()
        await self.lease.stop()
        self._loop = None
        await asyncio.to_thread(self.meter.stop)

    def watch(self, watcher: Watcher) -> None:
        """Show *watcher* what is known now, and everything from now on."""
        self._roots = self.kernels.roots()
        self.meter.watch()
        self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Show *watcher* nothing more."""
        if self._watchers.remove(watcher):
            self.meter.unwatch()

    async def current(self) -> Snapshot:
        """A snapshot not older than one watched interval, read now if need be."""
        if self._age_s() > self._settings.cadence.watched:
            await self._read_now()
        await self._paths.refresh()
        return self._render()

    async def view(self, kernel_id: str) -> KernelView | None:
        """What one kernel may see, None when it is not there. Read now: a cell asks for what it has just done."""
        await self._read_now()
        await self._paths.refresh()
        return view_of(self._render(), kernel_id)

    def fresh_snapshot(self) -> Snapshot | None:
        """The newest snapshot if it still speaks for now, without reading any device."""
        oldest = 3 * max(self._settings.cadence.watched, self._settings.cadence.held)
        return self._render() if self._age_s() <= oldest else None

    def admit_kernel(self, kernel_id: str, *, loads_part: bool) -> dict[str, str]:
        """Take note of a kernel that is about to start; the environment variables it needs."""
        self.kernels.admit(kernel_id, loads_part=loads_part)
        return self.parking.environment(kernel_id) | {
            "GPUSHARE_SERVER_URL": api_url(self._server),
            "GPUSHARE_KERNEL_ID": kernel_id,
            "GPUSHARE_KERNEL_TOKEN": self.tokens.issue(kernel_id),
        }

    def past(self) -> HistoryModel:
        """The session's recent use."""
        times = (each.intervals(self._settings.history_s) for each in (self.parking.handed_back, self.lease.lent))
        return self.history.model(*times)

    def take_report(self, kernel_id: str, memory: int) -> bool:
        """Take what a kernel counted itself; True where the driver cannot tell and the report is of use."""
        last = self.meter.last
        wanted = last is None or not last.attributed.trusted
        if wanted:
            self._reports[kernel_id] = memory
        return wanted

    def _age_s(self) -> float:
        last = self.meter.last
        return float("inf") if last is None else time.monotonic() - last.taken

    async def _read_now(self) -> None:
        self._roots = self.kernels.roots()
        try:
            await asyncio.wait_for(self._ask(), self._settings.answer_deadline_s)
        except (TimeoutError, RuntimeError):
            self._log.debug("The GPUs did not answer within %s s", self._settings.answer_deadline_s)

    async def _ask(self, *, at_once: bool = False) -> Sample:
        return await asyncio.wrap_future(self.meter.ask(at_once=at_once))

    async def _left(self, kernels: Sequence[Kernel]) -> int | None:
        """What *kernels* still hold, asked of the devices now; None where it cannot be told."""
        try:
            sample = await asyncio.wait_for(self._ask(at_once=True), self._settings.answer_deadline_s)
        except (TimeoutError, RuntimeError):
            return None
        return held_by(sample, kernels)

    async def _first_sample(self) -> Sample:
        """The newest sample; before there is any, the first one, which a kernel's start can wait for but a moment."""
        last = self.meter.last
        return last if last is not None else await asyncio.wait_for(self._ask(), _FIRST_SAMPLE_S)

    def _deliver(self, sample: Sample) -> None:
        """Take a sample from the meter's thread to the event loop."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._take, sample)

    def _take(self, sample: Sample) -> None:
        self.history.add(sample.at, sample.attributed.memory, sample.attributed.utilisation)
        self.parking.take(sample)
        self.lease.take(sample)
        self.culling.take(sample)
        self.meter.hasten(is_needed=self.isolation.guards)
        if self.isolation.guards:
            self._guard.look(sample)
        self._watchers.show_now()

    def _kernel_worked(self) -> None:
        self._kernels_changed()
        self.meter.suspect()
        if self._loop is not None:
            self._paths.look_soon()

    def _kernels_changed(self) -> None:
        self._roots = self.kernels.roots()
        self.parking.cells_changed()
        self.lease.processes_changed()
        self._changed()

    def _kernel_ended(self, kernel_id: str) -> None:
        self.tokens.revoke(kernel_id)
        self._reports.pop(kernel_id, None)
        self.parking.forget(kernel_id)
        self.isolation.forget(kernel_id)
        self.culling.forget(kernel_id)
        self._kernels_changed()

    def _parking_changed(self) -> None:
        self.lease.look()
        self._changed()

    def _take_share(self, own: OwnShare) -> None:
        self._own = self.isolation.own = own

    def _changed(self) -> None:
        """Tell the watchers soon. Nobody is told before the session has begun, or after it has ended."""
        if self._loop is not None:
            self.culling.look()
            self._watchers.show_soon()

    async def _do_chores(self) -> None:
        """What nothing tells us about: renamed notebooks, new terminals, a driver that hangs."""
        while True:
            await asyncio.sleep(self._settings.paths_every_s)
            self._roots = self.kernels.roots()
            self.parking.do_chores()
            if self._watchers:
                await self._paths.refresh()
                if self.meter.hangs_for_s(self._settings.hangs_after_s):
                    self._watchers.show_now()

    def _render(self) -> Snapshot:
        self._seq += 1
        hangs_for_s = self.meter.hangs_for_s(self._settings.hangs_after_s)
        sample = no_answer_for(hangs_for_s) if hangs_for_s else self.meter.last
        kernels, parkings = self.kernels.all(), self.parking.views()
        return snapshot(
            Scene(
                seq=self._seq,
                sample=sample or not_read_yet(),
                own=self._own,
                kernels=kernels,
                execution_state=self.kernels.execution_state,
                pid=self.kernels.pid,
                state=reading_gpus() if sample is None else self._state(sample, kernels, parkings),
                releases=[release.model() for release in self.releases.recent()],
                reports=self._reports,
                process_name=self._names.name,
                parkings={each.record.kernel_id: each.model() for each in parkings},
                parkable=frozenset(kernel.id for kernel in kernels if self.parking.can_park(kernel)),
                compute="enforced" if self.isolation.enforces_compute else "shared",
                parking_mode=self.parking.mode,
                handed_back_s=self.parking.handed_back.today_s(),
                notices=self.parking.notices.models(),
                lease=self.lease.view(),
                culling=self.culling.view(),
            )
        )

    def _state(self, sample: Sample, kernels: Sequence[Kernel], parkings: Sequence[KernelParking]) -> Message:
        if (waits := self.lease.without_share()) is not None and sample.devices:
            return waits
        held = session_memory(sample, self._own)
        return state_of(sample, kernels, self._own, held, self.releases.told(), parkings=parkings)
