"""Why something is refused, waits or yields: a constant each, and the one place that makes the sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Reason", "explain"]


class Reason(StrEnum):
    """One for each "no" and each "wait" (DESIGN 5, rule 7)."""

    # Refused: asking again changes nothing until something else does.
    EXCEEDS_PROJECT_QUOTA = "EXCEEDS_PROJECT_QUOTA"
    EXCEEDS_PROJECT_LIMIT = "EXCEEDS_PROJECT_LIMIT"
    EXCEEDS_PERSON_LIMIT = "EXCEEDS_PERSON_LIMIT"
    NO_SUCH_PROJECT = "NO_SUCH_PROJECT"
    NOT_A_MEMBER = "NOT_A_MEMBER"
    NO_SUCH_POOL = "NO_SUCH_POOL"
    NO_SUCH_DEVICE = "NO_SUCH_DEVICE"
    PARKED_MEMORY_IS_LARGER = "PARKED_MEMORY_IS_LARGER"
    # Waits.
    WAITING_FOR_QUOTA = "WAITING_FOR_QUOTA"
    WAITING_FOR_DEVICE = "WAITING_FOR_DEVICE"
    WAITING_FOR_SAME_DEVICE = "WAITING_FOR_SAME_DEVICE"
    WAITING_FOR_CALL_BACK = "WAITING_FOR_CALL_BACK"
    WAITING_FOR_MINIMUM_TURN = "WAITING_FOR_MINIMUM_TURN"
    WAITING_FOR_COPIES = "WAITING_FOR_COPIES"
    WAITING_FOR_BACK_OFF = "WAITING_FOR_BACK_OFF"
    BLOCKED_BY_FRAGMENTATION = "BLOCKED_BY_FRAGMENTATION"
    BLOCKED_BY_FOREIGN_MEMORY = "BLOCKED_BY_FOREIGN_MEMORY"
    BLOCKED_BY_DRAIN = "BLOCKED_BY_DRAIN"
    LOAN_TOO_SHORT = "LOAN_TOO_SHORT"
    PARKING_STOPPED = "PARKING_STOPPED"
    # Not parked.
    NO_HOST_MEMORY = "NO_HOST_MEMORY"
    NOT_PARKABLE = "NOT_PARKABLE"
    PARKING_IS_OFF = "PARKING_IS_OFF"
    # Yields.
    CALLED_BACK = "CALLED_BACK"
    RECLAIMED = "RECLAIMED"
    MOVED = "MOVED"
    DRAINED = "DRAINED"
    TURN_IS_OVER = "TURN_IS_OVER"
    # Ended or failed.
    TOO_MANY_RECLAIMS = "TOO_MANY_RECLAIMS"
    HOLDER_GONE = "HOLDER_GONE"
    NOT_TAKEN_UP = "NOT_TAKEN_UP"
    DEVICE_GONE = "DEVICE_GONE"
    OVER_COMMITTED = "OVER_COMMITTED"


_TEMPLATES: Final[Mapping[Reason, str]] = {
    Reason.EXCEEDS_PROJECT_QUOTA: (
        "{project} has {quota} GPU for notebooks, and {used} is taken or asked for by those in line; "
        "ask for less, or later."
    ),
    Reason.EXCEEDS_PROJECT_LIMIT: "{project} may use at most {limit} GPU, whatever is free.",
    Reason.EXCEEDS_PERSON_LIMIT: (
        "One person of {project} may have {limit} GPU for notebooks; you have or wait for {used}."
    ),
    Reason.NO_SUCH_PROJECT: "There is no project {project}; you may ask for: {projects}.",
    Reason.NOT_A_MEMBER: "You are no member of {project}; ask its admin to add you.",
    Reason.NO_SUCH_POOL: "There is no pool {pool}.",
    Reason.NO_SUCH_DEVICE: "No GPU here could ever hold {share}, even when all are free.",
    Reason.PARKED_MEMORY_IS_LARGER: "What is parked is kept, and would not fit into {share}.",
    Reason.WAITING_FOR_QUOTA: "{project} uses its fair share; this job goes on when others need less.",
    Reason.WAITING_FOR_DEVICE: "Waits for a GPU with {share} free.",
    Reason.WAITING_FOR_SAME_DEVICE: "Waits for the GPU that its memory belongs to.",
    Reason.WAITING_FOR_CALL_BACK: "Training that uses this share saves its work first.",
    Reason.WAITING_FOR_MINIMUM_TURN: "Those who use the GPU now have just got it.",
    Reason.WAITING_FOR_COPIES: "Others are brought back first on this machine.",
    Reason.WAITING_FOR_BACK_OFF: "Had to yield a moment ago; tries again shortly.",
    Reason.BLOCKED_BY_FRAGMENTATION: "Enough is free, but in pieces: no GPU has {share} in one place.",
    Reason.BLOCKED_BY_FOREIGN_MEMORY: "Programs that take part in no share hold memory on the GPU.",
    Reason.BLOCKED_BY_DRAIN: "An admin empties GPUs that could hold this; nothing new begins there.",
    Reason.LOAN_TOO_SHORT: "Only short loans are free, and this job's start or grace takes longer than they last.",
    Reason.PARKING_STOPPED: "An admin has stopped all parking; everybody is brought back in order.",
    Reason.NO_HOST_MEMORY: "The machine's memory for parked notebooks is full.",
    Reason.NOT_PARKABLE: "This notebook cannot be parked now.",
    Reason.PARKING_IS_OFF: "Parking is off in this pool.",
    Reason.CALLED_BACK: "The notebook whose share this was runs again.",
    Reason.RECLAIMED: "A project below its fair share needs the GPU.",
    Reason.MOVED: "Goes on elsewhere, so that a larger claim fits.",
    Reason.DRAINED: "An admin empties the GPU.",
    Reason.TURN_IS_OVER: "Idle, while others of the class wait.",
    Reason.TOO_MANY_RECLAIMS: "Had to yield more often than --max-reclaims allows.",
    Reason.HOLDER_GONE: "Its holder is gone, and its GPU memory with it.",
    Reason.NOT_TAKEN_UP: "Nobody came for this share in time, so others have it; ask again.",
    Reason.DEVICE_GONE: "Its GPU is gone.",
    Reason.OVER_COMMITTED: "More is promised than there is; nothing new begins here until that is over.",
}


def explain(reason: Reason, **values: str) -> Message:
    """The sentence for *reason*. Every name in its template must be among *values*; others do no harm.

    Raises:
        KeyError: a value is missing.
    """
    message = Message(reason.value, _TEMPLATES[reason], values)
    _ = message.text  # a missing value shows here, and not when somebody reads it
    return message
