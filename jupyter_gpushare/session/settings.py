"""What the admin decided for one session, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_gpushare.session.isolation.choose import IsolationSettings
from jupyter_gpushare.session.lease.settings import LeaseSettings
from jupyter_gpushare.session.parking.settings import ParkingSettings

if TYPE_CHECKING:
    from jupyter_gpushare.session.meter import Cadence

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds: how often to read, how much to remember, how long to wait."""

    cadence: Cadence
    history_s: float = 3600.0
    release_deadline_s: float = 15.0
    answer_deadline_s: float = 5.0
    hangs_after_s: float = 15.0
    paths_every_s: float = 10.0
    settle_s: float = 0.25
    parking: ParkingSettings = field(default_factory=ParkingSettings)
    isolation: IsolationSettings = field(default_factory=IsolationSettings)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
