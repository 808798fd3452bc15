"""Lives beside one job for as long as its lease does: starts it, parks and resumes it, stops it, starts it again.

One loop does one step at a time, the one that `decision` names; whatever happens meanwhile only wakes it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from jupyter_gpushare.broker.wire import ProcessModel
from jupyter_gpushare.parking.sequence import GpuStateLost, NoRoom, ParkFailed
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.training import memory_cap
from jupyter_gpushare.training.alone import Alone
from jupyter_gpushare.training.child import Child
from jupyter_gpushare.training.decision import SAYINGS, Act, Job, leave, next_act, saying
from jupyter_gpushare.training.environment import job_environment
from jupyter_gpushare.training.held import may_begin
from jupyter_gpushare.training.job import SOCKET
from jupyter_gpushare.training.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_gpushare.broker.job_socket import YieldAnswer, YieldRequest
    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.training.child import Command
    from jupyter_gpushare.training.gpu_state import GpuState
    from jupyter_gpushare.training.held import Held
    from jupyter_gpushare.training.safe_points import SafePoints, What
    from jupyter_gpushare.training.terminal import Terminal

__all__ = ["OWN_GRACE_S", "TRY_LATER", "UNAVAILABLE", "Supervisor"]

#: How ``run`` ends when the job did not end by itself (sysexits.h): its share was refused, or taken for good.
UNAVAILABLE: Final = 69
TRY_LATER: Final = 75
_SIGNALLED: Final = 128
#: How a job ends that did not catch the signals that we send.
_OURS: Final = frozenset({_SIGNALLED + signal.SIGTERM, _SIGNALLED + signal.SIGKILL})
_NOT_FOUND, _NOT_STARTED = 127, 126

_LOOK_AT_LEAST_S, _LOOK_S = 1.0, 0.1
_AGAIN_S: Final = 0.5
#: For so long a job that could not be parked is not tried again.
_NOT_AGAIN_S: Final = 60.0
_NO_SAFE_POINT: Final = "The job came to no safe point in time."
_GIVEN_UP: Final = "The broker counted this job as gone: the job saves its work, and starts again with its next share."
OWN_GRACE_S: Final = 30.0  # where nobody says otherwise
#: What of the grace is kept for taking note of the end before the broker's deadline.
_FOR_THE_ANSWER: Final = 0.9


class Supervisor:
    """One job and its lease. Lives on the event loop.

    Args:
        command: what is run.
        gpu: moves the job's GPU state.
        tell: what happens, a line for people.
        beside: the processes that are the holder's and not the job's.
        announce: called before each loss of ours.
        terminal: where ``run`` was started, to be lent to a job that reads from it.
    """

    def __init__(
        self,
        command: Command,
        gpu: GpuState,
        *,
        tell: Callable[[str], None],
        beside: Sequence[ProcessModel] = (),
        announce: Callable[[Loss], None] | None = None,
        terminal: Terminal | None = None,
    ) -> None:
        self.restarts = 0
        self.job = Job(grace_s=OWN_GRACE_S if command.grace_s is None else command.grace_s)
        self.child: Child | None = None
        self._command = command
        self._gpu = gpu
        self._tell = tell
        self._beside = beside
        self._announce = announce or (lambda _: None)
        self._terminal = terminal
        self._alone = Alone(grace_s=command.grace_s)
        self._held: Held
        self._points: SafePoints
        self._woken = asyncio.Event()
        self._said: tuple[str | None, str, int, str] | None = None
        self._stopped_by_us = False
        self._owner_ends: signal.Signals | None = None
        self._code: int | None = None
        self._obstacle: str | None = None
        self._parks_again_at = 0.0
        self._cap: int | None = None
        self._again_at = 0.0
        self._usage = Usage(gpu)

    def wake(self) -> None:
        """Something has changed: look again."""
        self._woken.set()

    async def run(self, held: Held, points: SafePoints) -> int:
        """From the first grant to the end of the job; its exit code, or why there is none (sysexits.h).

        Args:
            held: the lease; it calls `wake` when that changes.
            points: where the job offers its safe points; it calls `wake` too.
        """
        self._held, self._points = held, points
        obstacle = await self._gpu.obstacle()
        self._obstacle = None if obstacle is None else obstacle.text
        while True:
            self._woken.clear()
            await self._look()
            act = self._next()
            if act is Act.LEAVE:
                break
            if act is Act.WAIT:
                await self._pause()
            else:
                await self._do(act)
        await self._held.end()
        return self._exit_code()

    def forward(self, number: signal.Signals) -> bool:
        """Send the owner's signal to the job; False when there is none that could get it."""
        if self.child is None or self.child.code is not None or self.job.place == "parked":
            return False
        self.child.send(number)
        return True

    def end(self, number: signal.Signals) -> None:
        """The owner ends the job with this signal: SIGTERM, its grace, and then the end. What waits just leaves."""
        self._owner_ends = number
        self.wake()

    @property
    def is_resident(self) -> bool:
        """Whether something of the job may be on its devices now."""
        return self.job.place in ("running", "stopping")

    @property
    def points_asked(self) -> What | None:
        """What the job is asked to come to a safe point for."""
        return self._points.asked

    @property
    def is_parked(self) -> bool:
        """Whether the job's GPU state is in host memory now."""
        return self.job.place == "parked"

    async def _look(self) -> None:
        """Take note of what the job did by itself."""
        points, child = self._points, self.child
        offers = bool(points.offered_by)
        # What it said that it could not do it must not do after all, however late the broker hears of it.
        may_park = self._obstacle is None and not self._held.has_given_up and time.monotonic() >= self._parks_again_at
        # Several processes rarely stop at the same step: one that waits for another in there would never come.
        can_park = may_park and len(points.offered_by) == 1
        if (offers, can_park) != (self.job.offers, self.job.can_park):
            self.job = replace(self.job, offers=offers, can_park=can_park)
            self._say_processes()
        self.job = replace(self.job, is_reached=points.is_reached)
        if child is not None and child.code is not None:
            await self._ended(child)

    async def _ended(self, child: Child) -> None:
        """The command has ended; what it left behind ends with it."""
        assert child.code is not None  # noqa: S101  # the caller looked
        if self._code is None and not self._stopped_by_us:
            self._code = child.code
        child.reap()
        if rest := child.family():
            if self.job.place != "stopping":
                child.end_rest(rest, signal.SIGTERM)
                self._is_stopping()
            return
        if self._gpu.parked is not None:
            await self._gpu.forget()
        self._settle(child)

    def _settle(self, child: Child) -> None:
        if self._code is None and self._owner_ends is not None:
            self._code = _SIGNALLED + self._owner_ends if child.code in _OURS else child.code
        self.restarts += self._code is None
        if self._terminal is not None:
            self._terminal.take_back()
        self.child, self._stopped_by_us = None, False
        self.job = Job(lease=self.job.lease, epoch=self.job.epoch, grace_s=self.job.grace_s)
        self._say_processes()

    def call(self, request: YieldRequest) -> YieldAnswer | None:
        """The lender asks in the broker's place: None when the job begins to leave; or the refusal."""
        away_since = None if self._held.connected else self._held.since
        refusal = self._alone.call(request, self._held.lease, away_since)
        self.wake()
        return refusal

    @property
    def has_left(self) -> bool:
        """Whether nothing of the job is on its devices, and the broker will hear of it."""
        lease = self._held.lease
        return not self.is_resident and lease is not None and lease.status not in ("granted", "running")

    def _lease(self) -> LeaseModel | None:
        """The lease as it is to be acted on."""
        lease = self._held.lease
        if self._held.connected:
            self._alone.forget()
        return lease if lease is None else self._alone.seen(lease, can_park=self.job.can_park)

    def _next(self) -> Act:
        now = time.time()
        lease = self._lease()
        if self._owner_ends is not None or self._code is not None or self._held.refusal is not None:
            return leave(self.job, now)
        if lease is None or now < self._again_at:
            return Act.WAIT
        act = next_act(lease, self.job, now)
        if act in (Act.START, Act.RESUME) and not may_begin(self._held, now):
            return Act.WAIT
        return Act.WAIT if act in SAYINGS and self._said == saying(SAYINGS[act], lease) else act

    async def _do(self, act: Act) -> None:
        lease = self._lease()
        if lease is not None and lease.status == "queued" and self.job.asked is None and act is not Act.KILL:
            self._tell(_GIVEN_UP)
        if act is Act.STOP:
            await self._stop(lease)
        elif act is Act.KILL:
            await self._kill()
        elif lease is not None:
            await self._with(act, lease)

    async def _with(self, act: Act, lease: LeaseModel) -> None:
        match act:
            case Act.START:
                await self._start(lease)
            case Act.SAY_RUNNING:
                self._say_running(lease)
            case Act.SAY_RELEASED:
                self._say("released", lease)
            case Act.SAY_NOT_PARKED:
                await self._say_not_parked(lease, "NO_SAFE_POINT", self._obstacle or _NO_SAFE_POINT)
            case Act.ASK_TO_PARK | Act.ASK_TO_STOP:
                self._ask("park" if act is Act.ASK_TO_PARK else "stop")
            case Act.LET_GO_ON:
                self._let_go_on()
            case Act.PARK:
                await self._park(lease)
            case Act.RESUME:
                await self._resume(lease)

    async def _start(self, lease: LeaseModel) -> None:
        totals, part = await self._gpu.totals(lease)
        if not may_begin(self._held, time.time()):
            return
        environment = job_environment(
            self._command.environ, lease, totals, socket=self._points.path, restarts=self.restarts
        )
        try:
            self.child = Child.start(self._command.argv, environment, SOCKET, self.wake)
        except OSError as error:
            self._tell(f"{self._command.argv[0]} cannot be started: {error.strerror or error}")
            self._code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED
            return
        self._cap = self._command.memory_cap(part)
        memory_cap.cap(self.child.process.pid, self._cap)
        devices = tuple(grant.device for grant in lease.grants)
        self.job = replace(self.job, place="running", devices=devices)
        self._say_processes()
        self._say_running(lease)

    def _ask(self, what: Literal["park", "stop"]) -> None:
        self._points.ask(what)
        self.job = replace(self.job, asked=what, asked_at=time.time(), is_reached=False)

    def _let_go_on(self) -> None:
        self._points.go_on()
        self.job = replace(self.job, asked=None, is_reached=False)

    async def _park(self, lease: LeaseModel) -> None:
        assert self.child is not None  # noqa: S101  # one that runs has one
        # The copy lands in the job's own memory, beyond what it may take for itself.
        memory_cap.cap(self.child.process.pid, None)
        try:
            memory = await self._gpu.park(self.child.family())
        except ParkFailed as failure:
            await self._not_parked(lease, failure)
            return
        self.job = replace(self.job, place="parked", lease=lease.id, epoch=lease.epoch)
        self._say("released", lease, memory)

    async def _not_parked(self, lease: LeaseModel, failure: ParkFailed) -> None:
        if failure.leftover is not None:
            self.job = replace(self.job, place="parked", lease=lease.id, epoch=lease.epoch)
            return
        assert self.child is not None  # noqa: S101
        memory_cap.cap(self.child.process.pid, self._cap)
        await self._say_not_parked(lease, failure.message.code, failure.message.text)

    async def _resume(self, lease: LeaseModel) -> None:
        assert self.child is not None  # noqa: S101
        try:
            await self._gpu.resume()
        except NoRoom:
            self._again_at = time.time() + _AGAIN_S
            return
        except GpuStateLost as loss:
            self._tell(f"The job's GPU memory could not be brought back: {loss.message.text} It is started again.")
            self.job = replace(self.job, place="running", lease=lease.id, epoch=lease.epoch)
            await self._gpu.forget()
            await self._stop(lease)
            return
        memory_cap.cap(self.child.process.pid, self._cap)
        self.job = replace(self.job, place="running")
        self._let_go_on()
        self._say_running(lease)

    async def _stop(self, lease: LeaseModel | None) -> None:
        """SIGTERM. A job that stands at its safe point goes on, so that its own handler can run."""
        self._stopped_by_us = True
        self._is_stopping(lease)
        if self.child is not None:
            if not self.child.catches(signal.SIGTERM):
                await self._gpu.before_kill()
            self.child.send(signal.SIGTERM)
        self._let_go_on()

    def _is_stopping(self, lease: LeaseModel | None = None) -> None:
        now, grace_s = time.time(), self.job.grace_s
        if lease is not None and lease.deadline is not None and self._owner_ends is None:
            grace_s = max(0.0, lease.deadline - now) * _FOR_THE_ANSWER
        self.job = replace(self.job, place="stopping", kill_at=now + grace_s)

    async def _kill(self) -> None:
        if self.child is None:
            return
        self._tell("The job is ended." if self.is_parked else "The job still runs after its grace and is ended.")
        family = self.child.family()
        if not self.child.is_announced:
            self.child.is_announced = True
            self._announce(Loss.JOB_STOPPED_AFTER_GRACE)
            self._held.announce(Loss.JOB_STOPPED_AFTER_GRACE.value, " ".join(map(str, sorted(family))))
        self._stopped_by_us = True
        await self._gpu.before_kill()
        self.child.send(signal.SIGKILL)
        self.child.end_rest(family, signal.SIGKILL)
        if self.is_parked:
            await self._gpu.forget()
        self.job = replace(self.job, place="stopping", kill_at=time.time() + _AGAIN_S)

    def _say_running(self, lease: LeaseModel) -> None:
        self.job = replace(self.job, lease=lease.id, epoch=lease.epoch)
        self._say("running", lease)

    def _say(self, what: Literal["running", "released"], lease: LeaseModel, memory: int = 0) -> None:
        self._said = saying(what, lease)
        self._held.did(what, lease.epoch)
        if what == "released" and self._alone.is_called:
            # Also of one that was stopped: it waits for its devices either way.
            self._held.acted_alone("parked", memory)

    async def _say_not_parked(self, lease: LeaseModel, code: str, text: str) -> None:
        """The broker then asks it to save itself instead; for a while it counts as one that cannot be parked."""
        self._parks_again_at = time.monotonic() + _NOT_AGAIN_S
        self._said = saying("not_parked", lease)
        if self.job.asked is not None:
            self._let_go_on()
        await self._look()
        self._held.could_not(lease.epoch, code, text)

    def _say_processes(self) -> None:
        processes = list(self._beside)
        if self.child is not None:
            processes.append(ProcessModel(self.child.process.pid, self.child.process.start))
        self._held.set_processes(processes, is_parkable=self.job.can_park)

    async def _pause(self) -> None:
        """Until something happens, or it is time to look again."""
        is_moving = self.job.place in ("stopping", "parked") or self.job.asked is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), _LOOK_S if is_moving else _LOOK_AT_LEAST_S)
        if self.child is not None and self._terminal is not None and self.child.code is None:
            self._terminal.look(self.child)
        if self.child is not None:
            await self._usage.report(self._held, self.child)

    def _exit_code(self) -> int:
        if self._code is not None:
            return self._code
        if self._owner_ends is not None:
            return _SIGNALLED + self._owner_ends
        return UNAVAILABLE if self._held.refusal is not None else TRY_LATER
