"""What a ledger keeps beside the books: people's groups, what they ask for, and what the GPUs did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from jupyter_gpushare.quantity import Fraction

__all__ = ["OPEN", "Ask", "AskState", "Idle", "Membership", "Moment"]

AskState = Literal["open", "approved", "denied", "withdrawn"]
OPEN: Final = "open"


@dataclass(frozen=True, slots=True)
class Membership:
    """The *groups* that a person is in, as was told last at *seen*."""

    groups: frozenset[str]
    seen: float


@dataclass(frozen=True, slots=True)
class Moment:
    """What the GPUs did in the five minutes that begin at *at*: GPU-seconds of *seconds* that were looked at.

    *at* is in seconds since the epoch; see `hub_wire.DayModel` for what each part is.
    """

    at: int
    seconds: float = 0.0
    running: float = 0.0
    parked: float = 0.0
    lent: float = 0.0
    training: float = 0.0
    foreign: float = 0.0
    free: float = 0.0


@dataclass(frozen=True, slots=True)
class Idle:
    """GPU-hours in which sessions of a project ran idle for longer than their pool allows, in the hour from *hour* on.

    *parks* is how often a session became that idle in it.
    """

    hour: int
    project: str
    pool: str
    idle: float = 0.0
    parks: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """A member of *project* asks for *amount* GPUs: see `hub_wire.AskModel`. The ledger gives it its *number*."""

    project: str
    person: str
    what: Literal["limit", "quota"]
    amount: Fraction
    at: float
    why: str = ""
    number: int = 0
    state: AskState = "open"
    decided_by: str = ""
    decided_at: float | None = None
    answer: str = ""
