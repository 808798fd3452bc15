"""What there is to share: hosts and their devices, as the rules see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jupyter_gpushare.quantity import Fraction, Memory

__all__ = ["Condition", "GpuDevice", "Host"]

#: *draining* keeps what is there and takes nothing new; *gone* has disappeared, and nothing on it counts as capacity.
Condition = Literal["ready", "draining", "gone"]


@dataclass(frozen=True, slots=True)
class Host:
    """One machine.

    Attributes:
        name: unique.
        parking_budget: host memory that parked state may take.
        copies: how many parks and resumes may move memory at once.
        saves: how many jobs may save themselves to disk at once.
        condition: whether it takes anything new.
    """

    name: str
    parking_budget: Memory = Memory.UNLIMITED
    copies: int = 2
    saves: int = 4
    condition: Condition = "ready"


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One GPU or MIG instance.

    Attributes:
        uuid: as its driver writes it.
        host: where it is.
        kind: what shares ask for.
        pool: whose policy holds.
        usable: what holders can get of its memory.
        foreign: the part that processes of no lease hold: subtracted from capacity, never lent against.
        trespassed: whether an unleased process holds a context while the device is lent: it takes no new lease.
        condition: whether it takes anything new.
    """

    uuid: str
    host: str
    kind: str
    pool: str
    usable: Memory
    foreign: Fraction = Fraction.ZERO
    trespassed: bool = False
    condition: Condition = "ready"

    @property
    def capacity(self) -> Fraction:
        """What leases may have of it: at most one GPU, less what is foreign."""
        if self.condition == "gone":
            return Fraction.ZERO
        return max(Fraction.ZERO, Fraction.ONE - self.foreign)
