"""What every isolation mode offers, and what it is told. A mode is an admin's choice for a whole pool (DESIGN 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.share import ShareError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.parking.verdict import NotParkable
    from jupyter_gpushare.quantity import Fraction, Memory
    from jupyter_gpushare.session.own_share import OwnShare

__all__ = ["Isolation", "IsolationError", "Mode", "Slice", "needs_one_device", "parts", "slices_of"]

Mode = Literal["none", "caps", "hami-core", "mps", "mig"]


class IsolationError(RuntimeError):
    """The mode cannot do its work here; *message* says why and what would help."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.text)
        self.message = message


@dataclass(frozen=True, slots=True)
class Slice:
    """One device of the session: it may hold *memory* there, and have *compute* of the device's time."""

    device: Device
    memory: Memory
    compute: Fraction

    @property
    def percent(self) -> int:
        """The compute in whole per cent, at least 1."""
        return max(1, self.compute.millionths * 100 // self.compute.PER_GPU)


def slices_of(own: OwnShare, visible: Sequence[Device]) -> list[Slice]:
    """Where the session's share lies on the *visible* devices, up to its limit; empty where it does not fit."""
    try:
        return [_slice(own, device) for device in own.devices(visible)]
    except ShareError:
        return []


def _slice(own: OwnShare, device: Device) -> Slice:
    limit = own.share.resolve(device.usable).limit
    return Slice(device, limit, limit.fraction_of(device.usable))


class Isolation:
    """One mode. A mode that needs nothing of these leaves them as they are here.

    Attributes:
        name: as an admin writes it.
        memory: how memory is held to the share, for the table in the documentation.
        compute: the same of compute.
        notes: what else an admin should know.
        enforces_memory: whether an allocation beyond the share fails when it is tried.
        enforces_compute: whether compute is *enforced*, not *shared*.
        guards: whether `overrun.Overrun` watches the session.
        limits: how the environment variables begin that say what a process may have. A kernel spec, which its owner can
            write, has no say in them; the server's own environment has.
        not_parkable: why its kernels are not parked, None where they are.
        most_kernels: how many kernels can have a GPU at once, None for any number.
    """

    name: ClassVar[Mode]
    memory: ClassVar[str]
    compute: ClassVar[str]
    notes: ClassVar[str]
    enforces_memory: ClassVar[bool] = False
    enforces_compute: ClassVar[bool] = False
    guards: ClassVar[bool] = False
    limits: ClassVar[tuple[str, ...]] = ()
    not_parkable: NotParkable | None = None
    most_kernels: int | None = None

    def problem(self, slices: Sequence[Slice]) -> Message | None:  # noqa: ARG002  # the interface
        """Why the mode cannot hold the session to its share here, None when it can."""
        return None

    def environment(
        self,
        slices: Sequence[Slice],  # noqa: ARG002  # the interface
        given: Mapping[str, str],  # noqa: ARG002  # the interface
    ) -> dict[str, str]:
        """What a kernel's process needs in its environment, beside what is *given*.

        Where that has a limit already, the server's own environment has it, from an admin or a hub, and it stays.
        """
        return {}

    async def prepare(self, slices: Sequence[Slice]) -> None:
        """Have everything ready before a kernel starts.

        Raises:
            IsolationError: it cannot be had.
        """

    async def before_kill(self, pids: Collection[int]) -> None:
        """Do what the mode needs before processes of a kernel are killed."""

    async def close(self) -> None:
        """Let go of what `prepare` made, as far as nobody else uses it."""


def needs_one_device(mode: str, slices: Sequence[Slice]) -> Message | None:
    """The refusal of a mode that holds a session on a single device only."""
    if len(slices) == 1:
        return None
    template = "Isolation {mode} works on one GPU, and this server's share has {count}. Ask for a share of one GPU."
    return Message("ISOLATION_ONE_DEVICE", template, {"mode": mode, "count": str(len(slices))})


def parts(memory: Memory, count: int) -> int:
    """An equal part of *memory* for each of *count* processes, in whole MiB, at least one."""
    return max(1, memory.mib // count)
