"""What a job's supervisor does next: a function of the lease as the broker tells it and of the job as it is.

Level-triggered: it may be asked again at any moment, nothing here remembers anything, and a message that was lost or
came twice changes no answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.training.safe_points import What

__all__ = ["SAYINGS", "Act", "Job", "leave", "next_act", "saying"]

#: What of the grace is left for the end by SIGTERM, when the job does not come to its safe point.
_KEPT_FOR_STOPPING: Final = 0.5
#: Waiting for a safe point ends this long before the deadline, so that there is time to say so.
_ANSWER_S: Final = 1.0
#: Less than every epoch that there is.
_OF_ANOTHER: Final = -1


class Act(StrEnum):
    """One step."""

    WAIT = "wait"
    START = "start"
    SAY_RUNNING = "say_running"
    ASK_TO_PARK = "ask_to_park"
    ASK_TO_STOP = "ask_to_stop"
    LET_GO_ON = "let_go_on"
    PARK = "park"
    SAY_NOT_PARKED = "say_not_parked"
    RESUME = "resume"
    STOP = "stop"
    KILL = "kill"
    SAY_RELEASED = "say_released"
    LEAVE = "leave"


#: The acts that only say something: it is not said again while the lease is as it was.
SAYINGS: Final = {
    Act.SAY_RUNNING: "running",
    Act.SAY_RELEASED: "released",
    Act.SAY_NOT_PARKED: "not_parked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job as it is.

    Attributes:
        place: *none* has no process; *running* has its GPU; *stopping* was told to end; *parked* has its GPU state in
            host memory and stands at its safe point.
        epoch: with which it started or came back last, on *devices*, as the holder of *lease*.
        asked: for what it was asked to come to a safe point; *since* when.
        is_reached: whether it stands there.
        offers: whether it offers safe points at all.
        can_park: whether it can be parked at one of them.
        kill_at: when a job that was told to end is ended; None while it was not told.
        grace_s: what it gets to save itself where the broker gives it no deadline, in seconds.
    """

    place: Literal["none", "running", "stopping", "parked"] = "none"
    lease: str = ""
    epoch: int = 0
    devices: tuple[str, ...] = ()
    asked: What | None = None
    asked_at: float = 0.0
    is_reached: bool = False
    offers: bool = False
    can_park: bool = False
    kill_at: float | None = None
    grace_s: float = 30.0


def next_act(lease: LeaseModel, job: Job, now: float) -> Act:
    """What to do now, with times in seconds since the epoch. Nothing while it is parked or missing.

    A lease that is older than what the job acted on says nothing any more: who follows it would restore or start on a
    device that is somebody else's by now. Epochs of another lease than the job's tell nothing about that.
    """
    if job.lease not in ("", lease.id):
        job = replace(job, epoch=_OF_ANOTHER)
    decide = _BY_STATUS.get(lease.status)
    if decide is None or lease.epoch < job.epoch:
        return Act.WAIT
    return decide(lease, job, now)


def saying(what: str | None, lease: LeaseModel) -> tuple[str | None, str, int, str]:
    """That *what* of `SAYINGS` was said of *lease* as it is."""
    return what, lease.id, lease.epoch, lease.status


def leave(job: Job, now: float) -> Act:
    """What to do when nobody wants the job any more: its lease is over, or its owner ends it."""
    if job.place == "none":
        return Act.LEAVE
    if job.place == "parked":
        return Act.KILL
    if job.place == "running" or job.kill_at is None:
        return Act.STOP
    return Act.KILL if now >= job.kill_at else Act.WAIT


def _run(lease: LeaseModel, job: Job, now: float) -> Act:
    """It is to have its GPU: granted, running or resuming."""
    if job.place == "none":
        return Act.START
    if job.place == "stopping":
        return leave(job, now)
    if set(job.devices) != {grant.device for grant in lease.grants}:
        return Act.KILL if job.place == "parked" else Act.STOP  # its GPU memory fits no other device
    if job.place == "parked":
        is_new = lease.epoch > job.epoch or lease.status == "running"  # a park that was withdrawn keeps its epoch
        return Act.RESUME if is_new else Act.WAIT
    if job.asked is not None:
        return Act.LET_GO_ON
    return Act.WAIT if lease.status == "running" and lease.epoch == job.epoch else Act.SAY_RUNNING


def _park(lease: LeaseModel, job: Job, now: float) -> Act:
    if job.place in ("none", "parked"):
        return Act.SAY_RELEASED
    if job.place == "stopping":
        return leave(job, now)
    if not job.can_park:
        return Act.SAY_NOT_PARKED
    if job.asked != "park":
        return Act.ASK_TO_PARK
    if job.is_reached:
        return Act.PARK
    is_late = lease.deadline is not None and now > lease.deadline - _ANSWER_S
    return Act.SAY_NOT_PARKED if is_late else Act.WAIT


def _yield(lease: LeaseModel, job: Job, now: float) -> Act:
    if job.place == "none" or (job.place == "parked" and lease.target != "ended"):
        return Act.SAY_RELEASED
    if job.place != "running":
        return leave(job, now)
    return _stop(job, now, job.asked_at if lease.deadline is None else lease.deadline)


def _wait(_lease: LeaseModel, job: Job, now: float) -> Act:
    """It has no device: a job that runs on one all the same was given up for gone, and saves itself."""
    if job.place in ("none", "parked"):
        return Act.WAIT
    return _stop(job, now, job.asked_at + job.grace_s) if job.place == "running" else leave(job, now)


def _stop(job: Job, now: float, deadline: float) -> Act:
    if not job.offers or job.is_reached:
        return Act.STOP
    if job.asked != "stop":
        return Act.ASK_TO_STOP
    return Act.STOP if now >= job.asked_at + (deadline - job.asked_at) * _KEPT_FOR_STOPPING else Act.WAIT


def _over(_lease: LeaseModel, job: Job, now: float) -> Act:
    return leave(job, now)


_BY_STATUS: Final[Mapping[str, Callable[[LeaseModel, Job, float], Act]]] = {
    "queued": _wait,
    "granted": _run,
    "running": _run,
    "resuming": _run,
    "parking": _park,
    "yielding": _yield,
    "ended": _over,
    "failed": _over,
}
