"""All of parking in one notebook server: joins gates, Parker, preflight and idle policy with the session's kernels."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir
from jupyter_core.utils import ensure_async

from jupyter_gpushare.parking.driver import ParkingDriver, default_budget
from jupyter_gpushare.parking.qualification import is_qualified
from jupyter_gpushare.session.gate.gates import Gates
from jupyter_gpushare.session.idle.keep import Keep
from jupyter_gpushare.session.idle.notebook_metadata import NotebookMetadata
from jupyter_gpushare.session.idle.observer import Observer, resolve_mode
from jupyter_gpushare.session.idle.overrides import Defaults, Overrides, kernel_spec_metadata
from jupyter_gpushare.session.idle.policy import FixedTimeout
from jupyter_gpushare.session.idle.watch import IdleWatch
from jupyter_gpushare.session.lease.pool import parking_under
from jupyter_gpushare.session.notices import Notices
from jupyter_gpushare.session.parking.culling import Culling
from jupyter_gpushare.session.parking.examination import Examiner, Surroundings
from jupyter_gpushare.session.parking.idle import PolicyParking
from jupyter_gpushare.session.parking.looks import Looks
from jupyter_gpushare.session.parking.moves import KernelSight, Moves
from jupyter_gpushare.session.parking.parkings import Parkings
from jupyter_gpushare.session.parking.places import gates_directory, remove_left_gates, state_directory
from jupyter_gpushare.session.parking.previews import Previews
from jupyter_gpushare.session.parking.progress import Progress
from jupyter_gpushare.session.parking.sentences import FAR_AWAY, NOTHING_HELD, ended_parked
from jupyter_gpushare.session.parking.speeds import Speeds
from jupyter_gpushare.session.parking.surroundings import (
    CpuSinceCell,
    kernel_traits,
    machine_features,
    probe_kernel,
    settings_of,
)
from jupyter_gpushare.session.parking.tally import HandedBack, Tally
from jupyter_gpushare.session.parking.view import KernelParking
from jupyter_gpushare.session.parking.wishes import Wishes

if TYPE_CHECKING:
    import logging

    from jupyter_gpushare.devices.device import DeviceUse
    from jupyter_gpushare.parking.recovery import Recovered
    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.lease.agreement import Agreement
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.parking.host import ParkingHost
    from jupyter_gpushare.session.parking.settings import ParkingSettings
    from jupyter_gpushare.session.wire import ParkingMode

__all__ = ["ParkingSession"]

_TICK_S = 0.3


class ParkingSession:
    """Lives on the server's event loop.

    Args:
        host: the session.
        settings: what the admin decided.
        agreement: whoever keeps the books of the share.
        log: where trouble goes.
    """

    def __init__(
        self, host: ParkingHost, settings: ParkingSettings, *, agreement: Agreement, log: logging.Logger
    ) -> None:
        self._host = host
        self._agreement = agreement
        self._settings = settings
        self._log = log
        self.state_directory = state_directory(settings.state_directory, log)
        self._qualified: dict[str, bool] = {}
        self.speeds = Speeds(Path(jupyter_data_dir()) / "gpushare" / "speeds.json", lambda: self.driver.known)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self.notices = Notices()
        self.observer = Observer(lambda: self.mode)
        self.tally = Tally(lambda *move: self.speeds.learn(*move), self.observer.did)  # noqa: PLW0108  # not made yet
        self.handed_back = HandedBack()
        self.keeps = Keep(settings.keep_limit_s)
        self._progress = Progress()
        self._counted: dict[str, int] = {}
        self._cpu = CpuSinceCell(host.kernels)
        manager = host.server.kernel_manager
        self.overrides = Overrides(
            Defaults(settings.idle_timeout_s, allow_foreign=settings.allow_foreign, is_said=settings.says_timeout),
            pool=agreement.policy,
            kernel_spec=lambda kernel_id: kernel_spec_metadata(manager, kernel_id),
            notebooks=NotebookMetadata(host.server.contents_manager, log=log),
            log=log,
        )
        self.gates = Gates(
            manager,
            host.server.web_app,
            directory=gates_directory(self.state_directory),
            wake=lambda kernel_id: self.parkings.wake(kernel_id),  # noqa: PLW0108  # not made yet
            before_end=lambda kernel_id: self.parkings.before_end(kernel_id),  # noqa: PLW0108  # as above
            log=log,
        )
        self.driver = ParkingDriver(
            open_source=host.open_source,
            foreign=self._foreign,
            state=self.state_directory,
            shared=settings.shared_directory,
            budget=default_budget() if settings.budget is None else settings.budget,
            freeze=settings.freeze,
            log=log,
        )
        self.examiner = Examiner(self._surroundings(), foreign=agreement.foreign, pool=agreement.policy)
        self.previews = Previews(self.examiner, changed=host.changed)
        self.parkings = Parkings(self._moves(), changed=self._moved_on, log=log)
        self.watch = IdleWatch(
            host.kernels,
            PolicyParking(self.parkings, self.previews, self.held),
            policy=FixedTimeout(settings.warning_s),
            overrides=self.overrides,
            keep=self.keeps,
            observer=self.observer,
            reports=host.reports,
            changed=host.changed,
            log=log,
        )
        self.looks = Looks(
            host.kernels,
            ask=host.ask,
            is_wanted=lambda kernel_id: self._may_hold(kernel_id) and self.parkings.of(kernel_id).status == "running",
            previews=self.previews,
            examiner=self.examiner,
            log=log,
        )
        self.wishes = Wishes(
            kernels=host.kernels,
            parkings=self.parkings,
            gates=self.gates,
            keeps=self.keeps,
            overrides=self.overrides,
            previews=self.previews,
            watch=self.watch,
            changed=host.changed,
        )
        self._culling = Culling(
            manager,
            host.server.web_app.settings,
            is_parked=lambda kernel_id: self.parkings.of(kernel_id).is_off,
            hold_s=settings.hold_parked_s,
            log=log,
        )

    @property
    def mode(self) -> ParkingMode:
        """The mode that holds now: this server's own, or less where the pool of its share says so."""
        return parking_under(self._agreement.policy(), self.own_mode)

    @property
    def own_mode(self) -> ParkingMode:
        """The mode of this server, whatever its pool says."""
        sample = self._host.last()
        if sample is None:
            return resolve_mode(self._settings.mode, "none", qualified=False)
        version = sample.driver.version
        if version not in self._qualified:
            self._qualified[version] = is_qualified(version, jupyter_data_dir())
        return resolve_mode(self._settings.mode, sample.driver.vendor, qualified=self._qualified[version])

    def start(self) -> None:
        """Begin; called on the running event loop, once the session's kernels are followed."""
        self.gates.install()
        self._culling.install()
        self._hear_interrupts()
        self._begin(self._recover())

    async def stop(self) -> None:
        """End with the server; its kernels end after this."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.looks.stop()
        await self.watch.stop()
        labels = {parking.kernel_id: self._label(parking.kernel_id) for parking in self.parkings.all()}
        if left := await self.parkings.stop():
            self._log.warning("%s", ended_parked([labels[kernel_id] for kernel_id in left]).text)
        await self.driver.stop()

    def environment(self, kernel_id: str) -> dict[str, str]:
        """A process is about to start for this kernel, its first or a new one: what it needs to know."""
        self.parkings.forget(kernel_id)
        self.previews.forget(kernel_id)
        self._counted.pop(kernel_id, None)
        return dict(self.gates.environment(kernel_id))

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self.parkings.forget(kernel_id)
        self.previews.forget(kernel_id)
        self._progress.forget(kernel_id)
        self._counted.pop(kernel_id, None)
        self._cpu.forget(kernel_id)
        self.watch.forget(kernel_id)

    def take(self, sample: Sample) -> None:
        """Look at a new sample."""
        if self._is_stopped:
            return
        self.watch.take(sample)
        self._account()
        self.parkings.look_again()
        self.looks.take(sample)

    def cells_changed(self) -> None:
        """A cell began or ended somewhere."""
        self.parkings.look_again()

    def do_chores(self) -> None:
        """What is done now and then."""
        off = [parking.since for parking in self.parkings.all() if parking.parked is not None]
        if off:
            self._culling.look(off)

    def held(self, kernel_id: str) -> int:
        """How many messages wait for the kernel."""
        return self.gates.of(kernel_id).held if self.gates.can_gate(kernel_id) else 0

    def can_park(self, kernel: Kernel) -> bool:
        """Whether it may be parked in principle: what speaks against it now is another question."""
        return self.mode != "off" and kernel.releases_cache and self.gates.can_gate(kernel.id)

    def views(self) -> list[KernelParking]:
        """How it is with each kernel that runs: for one behind a gateway, that it cannot be parked from here."""
        pid, can_gate = self._host.kernels.pid, self.gates.can_gate
        return [
            self._view(each) for each in self._host.kernels.all() if pid(each.id) is not None or not can_gate(each.id)
        ]

    def _view(self, kernel: Kernel) -> KernelParking:
        parking, examined = self.parkings.of(kernel.id), self.previews.of(kernel.id)
        verdict = None if examined is None else examined.verdict
        if not self.gates.can_gate(kernel.id) or not self._may_hold(kernel.id):
            verdict = NOTHING_HELD if self.gates.can_gate(kernel.id) else FAR_AWAY
        if parking.status == "waiting" and (why := self._agreement.clause()) is not None:
            parking.why = why  # how long it still takes changes from moment to moment
        return KernelParking(
            record=parking,
            verdict=verdict,
            judgement=self.watch.judgement(kernel.id),
            ends_at=self.watch.parks_at(kernel.id),
            kept_until=self.keeps.until(kernel.id),
            held=self.held(kernel.id),
            moved=self._progress.moved(parking, self._host.last()),
            policy=self.overrides.of(kernel.id),
            speed=self.speeds.now(),
            now=time.time(),
            looked_at=self.previews.looked_at(kernel.id),
        )

    def _may_hold(self, kernel_id: str) -> bool:
        """Whether the kernel holds GPU memory, or that cannot be told."""
        sample = self._host.last()
        if sample is None or not sample.attributed.trusted:
            return True
        return any(use.owner.kind == "kernel" and use.owner.key == kernel_id for use in sample.attributed.owners)

    def _moves(self) -> Moves:
        kernels = self._host.kernels
        return Moves(
            gates=self.gates,
            parker=self.driver,
            kernels=KernelSight(
                is_working=lambda kernel_id: bool((kernel := kernels.get(kernel_id)) and kernel.cells),
                is_busy=lambda kernel_id: (
                    bool((kernel := kernels.get(kernel_id)) and kernel.cells)
                    or kernels.execution_state(kernel_id) == "busy"
                ),
                label=self._label,
            ),
            examine=self.examiner.examine,
            free_cache=self._free_cache,
            tally=self.tally,
            agreement=self._agreement,
            notices=self.notices,
            changed=self._moved_on,
            deadlines=self._settings.deadlines,
            log=self._log,
        )

    def _surroundings(self) -> Surroundings:
        kernels, manager = self._host.kernels, self._host.server.kernel_manager
        return Surroundings(
            kernel=kernels.get,
            kernel_ids=lambda: [kernel.id for kernel in kernels.all()],
            traits=kernel_traits(manager, self.gates.can_gate),
            last=self._host.last,
            fresh=self._host.ask,
            counted=lambda kernel_id: self._counted.get(kernel_id, 0),
            driver=lambda: self.driver.known,
            ask_driver=self.driver.driver,
            probe=probe_kernel(manager, 5.0),
            settings=settings_of(lambda: self.mode, self.overrides),
            cpu=self._cpu,
            speed=self.speeds.now,
            budget_left=self.driver.budget_left,
            features=machine_features(),
            name=self._host.process_name,
        )

    async def _free_cache(self, kernel_id: str) -> None:
        """Have less to move, and learn what the kernel itself counts. One that fails in it is parked all the same."""
        kernel = self._host.kernels.get(kernel_id)
        if kernel is None or not kernel.releases_cache or not self.gates.can_gate(kernel_id):
            return
        answer = await self._host.free_cache(kernel, self.gates.of(kernel_id).closing)
        self._counted[kernel_id] = answer.held
        if answer.troubles:
            self._log.info("Kernel %s did not free its cached memory: %s", kernel_id, answer.troubles)

    def _moved_on(self) -> None:
        for parking in self.parkings.all():
            if parking.is_moving:
                self._progress.note(parking)
        self._account()
        self._host.suspect()
        self._host.changed()
        self._tick()

    def _account(self) -> None:
        """Whether the share is handed back now."""
        sample = self._host.last()
        is_parked = any(parking.status in ("parked", "waiting") for parking in self.parkings.all())
        nothing_held = sample is not None and sample.attributed.memory.value == 0
        self.handed_back.look(is_so=is_parked and nothing_held)

    def _tick(self) -> None:
        """While bytes move, people see how many."""
        if self._timer is None and any(parking.is_moving for parking in self.parkings.all()):
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tock)

    def _tock(self) -> None:
        self._timer = None
        self._host.changed()
        self._tick()

    def _foreign(self, use: DeviceUse) -> int:
        """Bytes of a device's use that belong to no process of this session."""
        sample = self._host.last()
        owners = () if sample is None else sample.attributed.owners
        ours = {pid for owner in owners for pid in owner.pids}
        return sum(held.memory.value or 0 for held in use.processes or () if held.pid not in ours)

    def _hear_interrupts(self) -> None:
        """An interrupt has aborted what was held: what is still to come back may have no reason to any more."""
        manager = self._host.server.kernel_manager
        interrupt = manager.interrupt_kernel

        async def interrupt_kernel(kernel_id: str, *args: Any, **kwargs: Any) -> Any:
            answer = await ensure_async(interrupt(kernel_id, *args, **kwargs))
            self.parkings.interrupted(kernel_id)
            return answer

        manager.interrupt_kernel = interrupt_kernel

    async def _recover(self) -> None:
        """Clean up after servers that died, and tell people what was lost."""
        try:
            await asyncio.to_thread(remove_left_gates, self.state_directory)
            found = await self.driver.recover(self._announce_ending)
        except Exception:  # noqa: BLE001  # the notebooks must start, whatever a former server left behind
            self._log.exception("Cleaning up after a server that died failed; the next start tries again")
            return
        for each in found:
            self._log.warning("Kernel %s of a server that died: %s", each.kernel_id, each.message.text)
            self.notices.add("loss" if each.lost else "info", each.message)
        if found:
            self._host.changed()

    def _announce_ending(self, each: Recovered) -> None:
        if each.loss is not None:
            self._host.announce(each.loss, [each.kernel_id], "it was left over by a server that died")

    def _label(self, kernel_id: str) -> str:
        kernel = self._host.kernels.get(kernel_id)
        return kernel_id[:8] if kernel is None else kernel.label

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
