"""One notebook server's share, live: joins devices, kernels and releases, and tells the watchers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_gpushare.devices.attribution import Attributed
from jupyter_gpushare.devices.descendants import descendants
from jupyter_gpushare.devices.device import Driver, DriverState, Reading
from jupyter_gpushare.devices.process_tree import ProcessTree, in_host_pid_namespace
from jupyter_gpushare.session.history import History
from jupyter_gpushare.session.kernel_messages import request_free_cache
from jupyter_gpushare.session.kernels import Kernel, Kernels
from jupyter_gpushare.session.meter import Cadence, Meter, Sample
from jupyter_gpushare.session.process_names import ProcessNames
from jupyter_gpushare.session.provisioner import api_url
from jupyter_gpushare.session.release import Releases
from jupyter_gpushare.session.snapshot import Scene, session_memory, snapshot, view_of
from jupyter_gpushare.session.state import reading_gpus, state_of
from jupyter_gpushare.session.stream import Frame
from jupyter_gpushare.session.tokens import KernelTokens

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.devices.attribution import Owner
    from jupyter_gpushare.devices.device import Source
    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.session.own_share import OwnShare
    from jupyter_gpushare.session.wire import KernelView, Snapshot

__all__ = ["Session", "Settings", "Watcher"]

_NOT_YET = "The GPUs have not been read yet."


class Watcher(Protocol):
    """Somebody who looks: shown every frame until it leaves."""

    def show(self, frame: Frame) -> None:
        """Show one frame; must not raise."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds: how often to read, how much to remember, how long to wait."""

    cadence: Cadence
    history_s: float = 3600.0
    release_deadline_s: float = 15.0
    answer_deadline_s: float = 5.0
    hangs_after_s: float = 15.0
    paths_every_s: float = 10.0
    settle_s: float = 0.25


class Session:
    """Lives on the server's event loop; only the meter's thread touches the devices.

    Args:
        server: the Jupyter Server.
        source: the devices.
        own: this session's share.
        settings: times.
        announce: called with each loss before it happens.
        log: where trouble goes.
    """

    def __init__(
        self,
        server: Any,
        *,
        source: Source,
        own: OwnShare,
        settings: Settings,
        announce: Callable[[Loss, Sequence[Kernel]], None],
        log: logging.Logger,
    ) -> None:
        self._server = server
        self._settings = settings
        self._own = own
        self._log = log
        self._loop: asyncio.AbstractEventLoop | None = None
        self._roots: Mapping[int, Owner] = {}
        self._tree = ProcessTree()
        self._watchers: set[Watcher] = set()
        self._reports: dict[str, int] = {}
        self._names = ProcessNames()
        self._seq = 0
        self._latest: Snapshot | None = None
        self._pending: asyncio.TimerHandle | None = None
        self._naming: asyncio.TimerHandle | None = None
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
            log=log,
        )
        self.meter = Meter(
            source,
            owner_of=lambda pid: self._tree.owner_of(pid, self._roots),
            roots=lambda: self._roots,
            descendants=descendants,
            host_pids=in_host_pid_namespace(),
            deliver=self._deliver,
            cadence=settings.cadence,
            log=log,
        )
        self.releases = Releases(
            kernels=self.kernels,
            ask=self._ask,
            last=lambda: self.meter.last,
            free_cache=self._free_cache,
            announce=announce,
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
        self._roots = self.kernels.roots()
        self._tasks.add(self._loop.create_task(self._do_chores()))
        self.meter.start()

    async def stop(self) -> None:
        """End, leaving no thread or task behind."""
        for timer in (self._pending, self._naming):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.releases.stop()
        self._loop = None
        await asyncio.to_thread(self.meter.stop)

    def watch(self, watcher: Watcher) -> None:
        """Show *watcher* what is known now, and everything from now on."""
        self._watchers.add(watcher)
        self._roots = self.kernels.roots()
        self.meter.watch()
        watcher.show(Frame(self._render()))

    def unwatch(self, watcher: Watcher) -> None:
        """Show *watcher* nothing more."""
        if watcher in self._watchers:
            self._watchers.discard(watcher)
            self.meter.unwatch()

    async def current(self) -> Snapshot:
        """A snapshot not older than one watched interval, read now if need be."""
        if self._age_s() > self._settings.cadence.watched:
            await self._read_now()
        await self._refresh_paths()
        return self._render()

    async def view(self, kernel_id: str) -> KernelView | None:
        """What one kernel may see, None when it is not there. Read now: a cell asks for what it has just done."""
        await self._read_now()
        await self._refresh_paths()
        return view_of(self._render(), kernel_id)

    def fresh_snapshot(self) -> Snapshot | None:
        """The newest snapshot if it still speaks for now, without reading any device."""
        oldest = 3 * max(self._settings.cadence.watched, self._settings.cadence.held)
        return self._render() if self._age_s() <= oldest else None

    def admit_kernel(self, kernel_id: str, *, loads_part: bool) -> dict[str, str]:
        """Take note of a kernel that is about to start; the environment variables it needs."""
        self.kernels.admit(kernel_id, loads_part=loads_part)
        return {
            "GPUSHARE_SERVER_URL": api_url(self._server),
            "GPUSHARE_KERNEL_ID": kernel_id,
            "GPUSHARE_KERNEL_TOKEN": self.tokens.issue(kernel_id),
        }

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

    async def _refresh_paths(self) -> None:
        """Names are a courtesy: without them the numbers are right all the same."""
        try:
            await self.kernels.refresh_paths()
        except Exception:  # noqa: BLE001  # whatever a session manager raises
            self._log.debug("The notebooks' names could not be read", exc_info=True)

    async def _ask(self) -> Sample:
        return await asyncio.wrap_future(self.meter.ask())

    async def _free_cache(self, kernel: Kernel) -> list[str]:
        return await request_free_cache(
            self._server.kernel_manager.get_kernel(kernel.id),
            collect=kernel.busy_since is None,
            timeout_s=self._settings.answer_deadline_s,
        )

    def _deliver(self, sample: Sample) -> None:
        """Take a sample from the meter's thread to the event loop."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._take, sample)

    def _take(self, sample: Sample) -> None:
        self.history.add(sample.at, sample.attributed.memory, sample.attributed.utilisation)
        self._publish()

    def _kernel_worked(self) -> None:
        self._kernels_changed()
        self.meter.suspect()
        if any(kernel.path is None for kernel in self.kernels.all()):
            self._look_at_paths_soon()

    def _look_at_paths_soon(self) -> None:
        """Jupyter writes down which notebook shows a kernel only after the kernel has started."""
        if self._loop is not None and self._naming is None:
            self._naming = self._loop.call_later(self._settings.settle_s, self._name_kernels)

    def _name_kernels(self) -> None:
        self._naming = None
        if self._loop is not None:
            task = self._loop.create_task(self._refresh_paths())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _kernels_changed(self) -> None:
        self._roots = self.kernels.roots()
        self._changed()

    def _kernel_ended(self, kernel_id: str) -> None:
        self.tokens.revoke(kernel_id)
        self._reports.pop(kernel_id, None)
        self._kernels_changed()

    def _changed(self) -> None:
        """Tell the watchers soon, once for many changes: a run of fast cells must not cost a frame each."""
        if self._watchers and self._pending is None and self._loop is not None:
            self._pending = self._loop.call_later(self._settings.settle_s, self._publish)

    def _publish(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        if self._watchers:
            frame = Frame(self._render())
            for watcher in list(self._watchers):
                watcher.show(frame)

    async def _do_chores(self) -> None:
        """What nothing tells us about: renamed notebooks, new terminals, a driver that hangs."""
        while True:
            await asyncio.sleep(self._settings.paths_every_s)
            self._roots = self.kernels.roots()
            if self._watchers:
                await self._refresh_paths()
                if self._hangs_for_s():
                    self._publish()

    def _hangs_for_s(self) -> int:
        """For how many seconds the driver has kept a reading waiting; 0 while that is normal."""
        waited = self.meter.reading_for_s
        return int(waited) if waited > self._settings.hangs_after_s else 0

    def _render(self) -> Snapshot:
        self._seq += 1
        hangs_for_s = self._hangs_for_s()
        sample = _hanging(hangs_for_s) if hangs_for_s else self.meter.last
        kernels = self.kernels.all()
        if sample is None:
            state = reading_gpus()
        else:
            state = state_of(sample, kernels, self._own, session_memory(sample, self._own), self.releases.told())
        return snapshot(
            Scene(
                seq=self._seq,
                sample=sample or _without_numbers(Driver("none", DriverState.READY), _NOT_YET),
                own=self._own,
                kernels=kernels,
                execution_state=self.kernels.execution_state,
                pid=self.kernels.pid,
                state=state,
                releases=[release.model() for release in self.releases.recent()],
                reports=self._reports,
                process_name=self._names.name,
            )
        )


def _hanging(seconds: int) -> Sample:
    """What to show while a driver call hangs: no old number may look like one of now."""
    reason = f"a call has not returned for {seconds} s. It is waited for; ask your admin if this stays."
    return _without_numbers(Driver("none", DriverState.LOST, reason=reason), "The GPU driver does not answer.")


def _without_numbers(driver: Driver, reason: str) -> Sample:
    unknown = Reading.unavailable(reason)
    nothing = Attributed((), (), unknown, unknown, trusted=False, reason=reason)
    return Sample(time.time(), time.monotonic(), driver, (), (), nothing)
