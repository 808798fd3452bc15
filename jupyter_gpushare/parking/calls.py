"""What travels between a server and its checkpoint process: one JSON object on each line, either way."""

from __future__ import annotations

import msgspec

from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.parking.checkpoint import CheckpointDriver, ErrorCode, ProcessState

__all__ = [
    "LONGEST_LINE",
    "Answer",
    "AnyCall",
    "AskDriver",
    "AskState",
    "CheckpointCall",
    "Claim",
    "DropTokens",
    "Freeze",
    "Lock",
    "Request",
    "Restore",
    "TakeToken",
    "Thaw",
    "Unlock",
]

#: Bytes; far above the longest honest line, a freeze of some thousand processes.
LONGEST_LINE = 1 << 18


class _Call(msgspec.Struct, frozen=True, tag_field="call", forbid_unknown_fields=True):
    pass


class AskDriver(_Call, frozen=True, tag="driver"):
    """Which driver this is; answered with `Answer.driver`."""


class AskState(_Call, frozen=True, tag="state"):
    """What *process* may do now; answered with `Answer.state`."""

    process: Identity


class Lock(_Call, frozen=True, tag="lock"):
    """RUNNING to LOCKED, waiting at most *timeout_ms* for work that was submitted."""

    process: Identity
    timeout_ms: int


class CheckpointCall(_Call, frozen=True, tag="checkpoint"):
    """LOCKED to CHECKPOINTED."""

    process: Identity


class Restore(_Call, frozen=True, tag="restore"):
    """CHECKPOINTED to LOCKED. Refused unless *holder* has the token of every one of *devices*, and claimed there."""

    process: Identity
    holder: str
    devices: tuple[str, ...]


class Unlock(_Call, frozen=True, tag="unlock"):
    """LOCKED to RUNNING."""

    process: Identity


class Claim(_Call, frozen=True, tag="claim"):
    """Prove *size* bytes of room on *device*, whose token *holder* has."""

    device: str
    size: int
    holder: str


class TakeToken(_Call, frozen=True, tag="take_token"):
    """The right to restore on *device*; answered with `Answer.taken`."""

    device: str
    holder: str


class DropTokens(_Call, frozen=True, tag="drop_tokens"):
    """Give every token of *holder* back."""

    holder: str


class Freeze(_Call, frozen=True, tag="freeze"):
    """Stop *processes*. They are continued when the checkpoint process sees its server go."""

    processes: tuple[Identity, ...]


class Thaw(_Call, frozen=True, tag="thaw"):
    """Continue *processes*."""

    processes: tuple[Identity, ...]


AnyCall = (
    AskDriver | AskState | Lock | CheckpointCall | Restore | Unlock | Claim | TakeToken | DropTokens | Freeze | Thaw
)


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call with its number, which the answer repeats."""

    id: int
    do: AnyCall


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What came of the request *id*: an *error* with its *text*, or what was asked for, or nothing: it is done."""

    id: int
    error: ErrorCode | None = None
    text: str = ""
    state: ProcessState | None = None
    driver: CheckpointDriver | None = None
    taken: bool | None = None
