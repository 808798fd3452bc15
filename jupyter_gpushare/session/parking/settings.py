"""What the admin decided about parking, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jupyter_gpushare.session.parking.moves import ParkingDeadlines

__all__ = ["ParkingSettings"]


@dataclass(frozen=True, slots=True)
class ParkingSettings:
    """Times in seconds, memory in bytes.

    Attributes:
        mode: *auto* parks on simulated devices, and on real ones where this host is qualified; elsewhere it observes.
        idle_timeout_s: how long a kernel must be idle before it is parked by itself; None for never.
        says_timeout: whether somebody configured that; if not, the pool of a broker may set a longer one.
        warning_s: how long before that people are warned.
        keep_limit_s: the longest that an owner may keep a kernel.
        allow_foreign: whether to park although other people's processes are on the device.
        freeze: whether parked kernels are stopped, too.
        budget: host memory for everything parked on this host; None for half of the host's.
        hold_parked_s: how long a parked kernel keeps the whole server from looking idle.
        state_directory: where this user's servers on this host keep their journal; empty for the usual place.
        shared_directory: where all servers of this host meet; None for the usual place.
        deadlines: of the single steps.
    """

    mode: Literal["auto", "off", "observe", "park"] = "auto"
    idle_timeout_s: float | None = 600.0
    says_timeout: bool = False
    warning_s: float = 300.0
    keep_limit_s: float = 28800.0
    allow_foreign: bool = False
    freeze: bool = False
    budget: int | None = None
    hold_parked_s: float = 12 * 3600.0
    state_directory: str = ""
    shared_directory: str | None = None
    deadlines: ParkingDeadlines = field(default_factory=ParkingDeadlines)
