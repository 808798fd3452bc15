"""What can go wrong with a GPU, by name. A fault is set on a machine, and every process there suffers it.

A fault overrides the questions of `Fault` that it concerns; everybody else asks them of `Faults`, all faults set.
A new fault is a new class in `AnyFault`; a new step that can fail is a new name in `Call`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.devices.simulated.driver_wire import Code

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AnyFault",
    "Call",
    "DiesAt",
    "DriverAbsent",
    "DriverLost",
    "DriverVersion",
    "FailsAt",
    "Fault",
    "Faults",
    "HangsAt",
    "HostPids",
    "Lag",
    "MisreportedPids",
    "NoProcessMemory",
    "OutOfMemory",
    "OwnerDiesAt",
    "ParkingCall",
    "Slow",
    "When",
    "decode",
    "encode",
]

# What a controller asks about another process's GPU state.
ParkingCall = Literal["get_state", "lock", "checkpoint", "restore", "unlock", "claim"]
Call = Literal[
    # what a source asks the driver
    "memory",
    "utilisation",
    "processes",
    "process_memory",
    "process_utilisation",
    # what a program asks of its GPU
    "open_context",
    "allocate",
    "free",
    "write",
    "read",
    "compute",
    "synchronize",
    ParkingCall,
]


When = Literal["before", "after"]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="fault"):
    """Nothing wrong: the answers of a good driver. Each fault changes some of them."""

    @property
    def key(self) -> str:
        """What this fault replaces when it is set: a fault of the same key."""
        return type(self).__name__

    def driver(self) -> tuple[DriverState, str] | None:
        """The driver's state and why, where it is not ready."""
        return None

    def failure(self, call: Call) -> str | None:  # noqa: ARG002 - the signature is for those who override it
        """Why *call* fails, or None."""
        return None

    def delay_s(self, call: Call) -> float:  # noqa: ARG002 - as above
        """How many seconds *call* takes longer."""
        return 0.0

    def lag_s(self) -> float:
        """How many seconds old the driver's readings are."""
        return 0.0

    def pid(self, pid: int) -> int:
        """The process id that the driver reports for *pid*."""
        return pid

    def is_full(self, uuid: str) -> bool:  # noqa: ARG002 - as above
        """Whether the device refuses memory whatever is free."""
        return False

    def hangs(self, call: Call) -> bool:  # noqa: ARG002 - as above
        """Whether *call* does not return."""
        return False

    def kills_caller(self, call: Call, when: When) -> bool:  # noqa: ARG002 - as above
        """Whether the process that makes *call* dies of it, before or after its effect."""
        return False

    def kills_owner(self, call: Call) -> bool:  # noqa: ARG002 - as above
        """Whether the process that *call* is about dies in the middle of it."""
        return False

    def version(self) -> str:
        """The driver's version, empty when this fault does not change it."""
        return ""


class DriverAbsent(Fault, frozen=True, tag="driver_absent"):
    """No driver, as on a machine where none was installed. Contexts that were open are lost for good."""

    reason: str = "the simulated driver is not installed on this machine"

    def driver(self) -> tuple[DriverState, str]:
        """Absent."""
        return DriverState.ABSENT, self.reason

    def failure(self, call: Call) -> str:  # noqa: ARG002 - every call fails
        """Every call fails."""
        return self.reason


class DriverLost(Fault, frozen=True, tag="driver_lost"):
    """The driver worked and stopped. Contexts that were open are lost for good."""

    reason: str = "the simulated GPU has fallen off the bus (XID 79)"

    def driver(self) -> tuple[DriverState, str]:
        """Lost."""
        return DriverState.LOST, self.reason

    def failure(self, call: Call) -> str:  # noqa: ARG002 - every call fails
        """Every call fails."""
        return self.reason


class FailsAt(Fault, frozen=True, tag="fails_at"):
    """One named call fails before it does anything, everything else works.

    *code* is what a controller's call fails with, of the errors in `driver_wire`.
    """

    call: Call
    reason: str = "unknown error"
    code: Code = "unknown"

    def __post_init__(self) -> None:
        _check(self.call)

    @property
    def key(self) -> str:
        """Several calls may fail at once."""
        return f"{type(self).__name__}:{self.call}"

    def failure(self, call: Call) -> str | None:
        """The reason, for this call."""
        return f"{call}: {self.reason}" if call == self.call else None


class NoProcessMemory(Fault, frozen=True, tag="no_process_memory"):
    """The driver lists processes without their memory, as some drivers and virtual GPUs do."""

    reason: str = "this driver does not report memory per process"

    def failure(self, call: Call) -> str | None:
        """The reason, for the memory of a process."""
        return self.reason if call == "process_memory" else None


class Slow(Fault, frozen=True, tag="slow"):
    """Every call, or one, takes this many seconds longer."""

    seconds: float
    call: Call | None = None

    def delay_s(self, call: Call) -> float:
        """The delay of this call."""
        return self.seconds if self.call in (None, call) else 0.0


class Lag(Fault, frozen=True, tag="lag"):
    """Readings are this many seconds old: memory that was freed still shows, a process that ended is still listed."""

    seconds: float

    def lag_s(self) -> float:
        """The age of readings."""
        return self.seconds


class HostPids(Fault, frozen=True, tag="host_pids"):
    """The driver reports ids of the host's processes, which mean nothing here, as in a container without host pids."""

    offset: int = 1_000_000

    def pid(self, pid: int) -> int:
        """An id that no process has here."""
        return pid + self.offset


class MisreportedPids(Fault, frozen=True, tag="misreported_pids"):
    """The driver reports every process under the id of one other process, as host ids do when they collide."""

    reported: int

    def pid(self, pid: int) -> int:  # noqa: ARG002 - the true id is what it hides
        """The other process's id."""
        return self.reported


class OutOfMemory(Fault, frozen=True, tag="out_of_memory"):
    """A device, or every device, refuses new memory whatever is free."""

    uuid: str | None = None

    def is_full(self, uuid: str) -> bool:
        """Whether it is this device."""
        return self.uuid in (None, uuid)


class HangsAt(Fault, frozen=True, tag="hangs_at"):
    """One named call does not return until this fault is cleared. It has no effect before."""

    call: Call

    def __post_init__(self) -> None:
        _check(self.call)

    @property
    def key(self) -> str:
        """Several calls may hang at once."""
        return f"{type(self).__name__}:{self.call}"

    def hangs(self, call: Call) -> bool:
        """This call."""
        return call == self.call


class DiesAt(Fault, frozen=True, tag="dies_at"):
    """The process that makes one named call, such as the checkpoint process, dies of SIGKILL before or after it."""

    call: Call
    when: When = "before"

    def __post_init__(self) -> None:
        _check(self.call)

    @property
    def key(self) -> str:
        """Several calls may be deadly at once."""
        return f"{type(self).__name__}:{self.call}:{self.when}"

    def kills_caller(self, call: Call, when: When) -> bool:
        """This call, at this time."""
        return (call, when) == (self.call, self.when)


class OwnerDiesAt(Fault, frozen=True, tag="owner_dies_at"):
    """The program dies of SIGKILL in the middle of one named call about it, such as a checkpoint or an allocation."""

    call: Call

    def __post_init__(self) -> None:
        _check(self.call)

    @property
    def key(self) -> str:
        """Several calls may be deadly at once."""
        return f"{type(self).__name__}:{self.call}"

    def kills_owner(self, call: Call) -> bool:
        """This call."""
        return call == self.call


class DriverVersion(Fault, frozen=True, tag="driver_version"):
    """The driver says that it has this version, such as one that is known to damage state."""

    number: str

    def version(self) -> str:
        """This one."""
        return self.number


def _check(call: Call) -> None:
    if call not in get_args(Call):
        raise ValueError(f"call: {call!r} is not one of {', '.join(get_args(Call))}")


AnyFault = (
    DriverAbsent
    | DriverLost
    | FailsAt
    | NoProcessMemory
    | Slow
    | Lag
    | HostPids
    | MisreportedPids
    | OutOfMemory
    | HangsAt
    | DiesAt
    | OwnerDiesAt
    | DriverVersion
)

_decoder: msgspec.json.Decoder[AnyFault] = msgspec.json.Decoder(AnyFault)


def encode(fault: AnyFault) -> bytes:
    """*fault* as JSON, to be kept on the machine."""
    return msgspec.json.encode(fault)


def decode(body: bytes) -> AnyFault:
    """A fault that `encode` wrote.

    Raises:
        msgspec.ValidationError: it is none; the message names the field.
    """
    return _decoder.decode(body)


class Faults:
    """All faults set on a machine at one moment; none of them set is the usual case."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.all = tuple(faults)

    def driver(self) -> tuple[DriverState, str]:
        """The driver's state and why, empty when it is ready."""
        troubles = [trouble for fault in self.all if (trouble := fault.driver())]
        return troubles[0] if troubles else (DriverState.READY, "")

    def failure(self, call: Call) -> str | None:
        """Why *call* fails, or None."""
        return next((reason for fault in self.all if (reason := fault.failure(call))), None)

    def code(self, call: Call) -> Code:
        """What a controller's *call* fails with, where it does."""
        return next((fault.code for fault in self.all if isinstance(fault, FailsAt) and fault.call == call), "unknown")

    def hangs(self, call: Call) -> bool:
        """Whether *call* does not return."""
        return any(fault.hangs(call) for fault in self.all)

    def kills_caller(self, call: Call, when: When) -> bool:
        """Whether the process that makes *call* dies of it."""
        return any(fault.kills_caller(call, when) for fault in self.all)

    def kills_owner(self, call: Call) -> bool:
        """Whether the process that *call* is about dies of it."""
        return any(fault.kills_owner(call) for fault in self.all)

    def version(self) -> str:
        """The driver's version, empty when no fault changes it."""
        return next((number for fault in self.all if (number := fault.version())), "")

    def delay_s(self, call: Call) -> float:
        """How many seconds *call* takes longer."""
        return sum(fault.delay_s(call) for fault in self.all)

    def lag_s(self) -> float:
        """How many seconds old the driver's readings are."""
        return max((fault.lag_s() for fault in self.all), default=0.0)

    def pid(self, pid: int) -> int:
        """The process id that the driver reports for *pid*."""
        for fault in self.all:
            pid = fault.pid(pid)
        return pid

    def is_full(self, uuid: str) -> bool:
        """Whether the device *uuid* refuses memory whatever is free."""
        return any(fault.is_full(uuid) for fault in self.all)
