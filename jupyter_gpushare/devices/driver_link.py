"""Keeping a driver open: absent, ready or lost, tried again with back-off, opened anew after a fork."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from jupyter_gpushare.devices.device import Driver, DriverState

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.devices.guard import Failure

__all__ = ["DriverLink", "Opened"]

H = TypeVar("H")

_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_ABSENT_WAIT_S: Final = 30.0
_TRIED_AGAIN: Final = "It is tried again by itself."


@dataclass(frozen=True, slots=True)
class Opened(Generic[H]):
    """A driver that answered: its version and a handle per device."""

    version: str
    handles: tuple[H, ...]


class DriverLink(Generic[H]):
    """One driver's state. The last known handles stay while it is lost, so that people see which devices are missing.

    Args:
        vendor: as in `Driver`.
        connect: opens the driver and lists its devices, or says why not.
        disconnect: closes it; must not raise.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        vendor: str,
        connect: Callable[[], Opened[H] | Failure],
        disconnect: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._vendor = vendor
        self._connect = connect
        self._disconnect = disconnect
        self._clock = clock
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._state = DriverState.ABSENT
        self._reason = ""
        self._opened: Opened[H] = Opened("", ())
        self._connected = False
        self._due = float("-inf")
        self._wait_s = _FIRST_WAIT_S

    @property
    def lock(self) -> threading.RLock:
        """Held while the driver is asked. A fork may copy a lock that no thread of the child will ever release."""
        if self._pid != os.getpid():
            self._forget_parent()
        return self._lock

    @property
    def handles(self) -> tuple[H, ...]:
        """The devices, as last seen."""
        return self._opened.handles

    def ensure(self) -> bool:
        """Open the driver if it is not and the time for a try has come; whether it is ready."""
        if self._state is not DriverState.READY and self._clock() >= self._due:
            self._try()
        return self._state is DriverState.READY

    def driver(self) -> Driver:
        """The state as it stands."""
        return Driver(self._vendor, self._state, self._opened.version, self._reason)

    def lose(self, reason: str) -> None:
        """The driver stopped answering, because of *reason*."""
        self._drop()
        self._state, self._reason = DriverState.LOST, f"{reason} {_TRIED_AGAIN}"
        self._back_off()

    def settle(self) -> None:
        """The driver answered: the next loss starts with the shortest wait again."""
        self._wait_s = _FIRST_WAIT_S

    def reopen(self) -> None:
        """List the devices anew although the driver is ready, not more often than the back-off allows."""
        if self._clock() >= self._due:
            self._back_off()
            self._drop()
            self._try()

    def close(self) -> None:
        """Let go of the driver; the next `ensure` opens it again at once."""
        self._drop()
        if self._state is DriverState.READY:
            self._state = DriverState.ABSENT
        self._due = float("-inf")

    def _try(self) -> None:
        found = self._connect()
        if not isinstance(found, Opened):
            self._fail(found.reason)
            return
        self._opened, self._connected = found, True
        self._state, self._reason = DriverState.READY, ""

    def _fail(self, reason: str) -> None:
        if self._state is DriverState.ABSENT and not self._opened.handles:
            self._reason, self._due = reason, self._clock() + _ABSENT_WAIT_S
        else:
            self.lose(reason)

    def _back_off(self) -> None:
        self._due = self._clock() + self._wait_s
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)

    def _drop(self) -> None:
        if self._connected:
            self._connected = False
            self._disconnect()

    def _forget_parent(self) -> None:
        """The child of a fork shares its parent's driver connection; it needs one of its own."""
        self._pid, self._lock = os.getpid(), threading.RLock()
        self.close()
