"""What people read when parking or resuming did not go as wished. One place for each code.

Reasons to wait are clauses, as they stand inside a sentence; all others are sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from jupyter_gpushare.parking.checkpoint import CheckpointError
    from jupyter_gpushare.parking.sequence import Step

__all__ = [
    "budget_short",
    "cgroup_short",
    "claim_refused",
    "device_missing",
    "gone",
    "gone_while_parking",
    "host_short",
    "interrupted",
    "not_recorded",
    "poisoned",
    "recovered",
    "restore_to_be_repeated",
    "room_short",
    "room_unknown",
    "state_unknown",
    "step_failed",
    "token_taken",
    "unexpected_state",
    "unsettled",
]

_STILL_RUNS = "Nothing is lost, the notebook goes on."


def budget_short(needed: int, left: int, budget: int) -> Message:
    """This host's budget for parked notebooks has no room."""
    return Message(
        "NO_HOST_MEMORY",
        "{needed} of host memory are needed to park it, and {left} of this host's {budget} for parked notebooks are"
        " left. " + _STILL_RUNS + " Wait until another one has come back, or ask for a larger host_memory_budget.",
        {"needed": Memory(needed).human, "left": Memory(left).human, "budget": Memory(budget).human},
    )


def cgroup_short(needed: int, left: int) -> Message:
    """The kernel's own memory limit would be exceeded: the system would end it in the middle of the copy."""
    return Message(
        "NO_HOST_MEMORY",
        "{needed} of host memory are needed to park it, and this notebook's memory limit leaves {left}. "
        + _STILL_RUNS
        + " Free host memory in the notebook, or ask for a larger memory limit.",
        {"needed": Memory(needed).human, "left": Memory(left).human},
    )


def host_short(needed: int, left: int) -> Message:
    """The host itself has too little memory."""
    return Message(
        "NO_HOST_MEMORY",
        "{needed} of host memory are needed to park it, and this host has {left} available. "
        + _STILL_RUNS
        + " Wait until memory is free again.",
        {"needed": Memory(needed).human, "left": Memory(left).human},
    )


def step_failed(step: Step, error: CheckpointError) -> Message:
    """The driver did not do a step of parking."""
    template = _STEP_FAILURES.get(error.code, "The driver did not park it: {problem}. " + _STILL_RUNS)
    code = {"not_ready": "GPU_BUSY", "not_supported": "DRIVER_REFUSED"}.get(error.code, "PARK_FAILED")
    return Message(code, template, {"step": step.value, "problem": error.text})


_STEP_FAILURES = {
    "not_ready": "A computation still runs on the GPU. " + _STILL_RUNS + " Try again when it has ended.",
    "not_supported": "The driver cannot park what this notebook uses: {problem}. " + _STILL_RUNS,
    "deadline": "The driver did not answer in time. " + _STILL_RUNS + " Try again later.",
    "died": "The checkpoint process ended in the middle. " + _STILL_RUNS + " Try again.",
}


def unexpected_state(step: Step, found: str) -> Message:
    """A process is not what it should be at *step*: somebody else moves it, or the driver did not do what it said."""
    return Message(
        "UNEXPECTED_STATE",
        "The driver says that a process of the notebook is {found}. " + _STILL_RUNS + " Try again later.",
        {"step": step.value, "found": found},
    )


def state_unknown(why: Message) -> Message:
    """The driver does not say what a process is."""
    return Message("PARK_FAILED", "The notebook was not parked: {problem}. Try again later.", {"problem": why.text})


def gone_while_parking() -> Message:
    """A process of the kernel is not there any more."""
    return Message(
        "PROCESSES_CHANGED", "A process of the notebook ended while it was about to be parked. Try again.", {}
    )


def not_recorded(problem: str) -> Message:
    """The journal or the bookings cannot be written, so nothing may begin."""
    return Message(
        "NOT_RECORDED",
        "Parking could not be written down first ({problem}). " + _STILL_RUNS + " See to it that its disk has room.",
        {"problem": problem},
    )


def interrupted() -> Message:
    """Whoever asked gave up."""
    return Message("PARK_FAILED", "Parking was broken off. " + _STILL_RUNS, {})


def gone() -> Message:
    """A process that held GPU state has ended."""
    return Message(
        "PROCESS_GONE", "A process of this notebook that held GPU memory has ended, and what it held is lost.", {}
    )


def poisoned(problem: str) -> Message:
    """The driver can never restore this process again."""
    return Message(
        "GPU_STATE_LOST",
        "The driver could not bring this notebook's GPU memory back, and never will: {problem}. "
        "Variables in host memory are intact: save them, then restart the kernel.",
        {"problem": problem},
    )


def unsettled(problem: str) -> Message:
    """Nobody knows the state now: to be asked again."""
    return Message(
        "STATE_UNKNOWN", "the driver does not say what became of the notebook ({problem})", {"problem": problem}
    )


def token_taken(_device: str) -> Message:
    """Somebody else has the device's token."""
    return Message("DEVICE_TOKEN_TAKEN", "another notebook is coming back on this device", {})


def room_short(needed: int, free: int) -> Message:
    """The device is too full."""
    return Message(
        "NO_ROOM",
        "{free} of {needed} are free on its GPU",
        {"needed": Memory(needed).human, "free": Memory(free).human},
    )


def room_unknown(reason: str) -> Message:
    """The driver does not say how full the device is."""
    return Message("ROOM_UNKNOWN", "its GPU does not say how much is free ({reason})", {"reason": reason})


def device_missing(uuid: str) -> Message:
    """The device is not there now."""
    return Message("DEVICE_MISSING", "its GPU {device} is not there", {"device": uuid})


def claim_refused(problem: str) -> Message:
    """The books said that there is room, the device said no."""
    return Message("CLAIM_REFUSED", "its GPU had no room when it was tried ({problem})", {"problem": problem})


def restore_to_be_repeated(problem: str) -> Message:
    """A restore did not happen, and may be tried again."""
    return Message("RESTORE_TO_BE_REPEATED", "the driver did not bring it back yet ({problem})", {"problem": problem})


def recovered(outcome: str, size: int, pids: str) -> Message:
    """What became of a kernel whose server died while it was parking, resuming, or parked."""
    return Message(f"RECOVERED_{outcome.upper()}", _RECOVERED[outcome], {"memory": Memory(size).human, "pids": pids})


_RECOVERED = {
    "ended_itself": "A notebook server died while a notebook of its was parked. The notebook ended with it, and its"
    " {memory} of GPU memory are lost.",
    "ended_by_us": "A notebook server died while a notebook of its was parked. Its {memory} of GPU memory could not be"
    " brought back without that server; what was left of it (process {pids}) is ended.",
    "runs": "A notebook server died while it was parking a notebook. Process {pids} still runs, with its GPU memory.",
    "unknown": "A notebook server died while a notebook of its was parked, and the driver does not say what became of"
    " it. Look at process {pids}, and end it if nobody needs it.",
}
