"""What the lease asks of the session that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.parking.parkings import Parkings
    from jupyter_gpushare.session.wire import ParkingMode

__all__ = ["Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the lease asks of its session.

    Attributes:
        last: the newest sample; *ask* has one taken now.
        parkings: the kernels' parkings.
        kernels: ids of all living kernels.
        idle_since: since when no kernel runs a cell, in seconds since the epoch; None while one does.
        mode: of parking.
        idle_timeout_s: after how long an idle session gives back a share of which it holds nothing; None for never.
        is_default_timeout: whether nobody configured that.
        notify: warns people.
        changed: called when people should see something new.
    """

    last: Callable[[], Sample | None]
    ask: Callable[[], object]
    parkings: Callable[[], Parkings]
    kernels: Callable[[], Iterable[str]]
    idle_since: Callable[[], float | None]
    mode: Callable[[], ParkingMode]
    idle_timeout_s: float | None
    notify: Callable[[Message], None]
    changed: Callable[[], None]
    is_default_timeout: bool = False
