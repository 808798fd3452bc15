"""What the sources of all real drivers have in common: opened late, each device read on its own, nothing raises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from jupyter_gpushare.devices.device import DeviceUse, Driver, Reading
from jupyter_gpushare.devices.device_files import DeviceFiles
from jupyter_gpushare.devices.driver_link import DriverLink, Opened
from jupyter_gpushare.devices.guard import Failure, Guard

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Sequence

    from jupyter_gpushare.devices.device import Device

__all__ = ["DriverSource"]


class _HasDevice(Protocol):
    @property
    def device(self) -> Device: ...


H = TypeVar("H", bound=_HasDevice)


class DriverSource(ABC, Generic[H]):
    """A `Source` behind a binding's functions. Nothing is imported or opened before the first question.

    Args:
        vendor: as in `Driver`.
        device_files: matches the device files that a holder has open.
        clock: seconds that only go forward, for back-off.
    """

    def __init__(self, vendor: str, device_files: re.Pattern[str], clock: Callable[[], float]) -> None:
        self._guard: Guard | None = None
        self._files = DeviceFiles(device_files)
        self._link: DriverLink[H] = DriverLink(vendor, self._connect, self._disconnect, clock)
        self._installed = False

    @property
    def calls(self) -> int:
        """How many calls of the library were made."""
        return self._guard.calls if self._guard is not None else 0

    @property
    def installed(self) -> bool:
        """Whether a part of the driver was found when it was last looked for."""
        return self._installed

    def driver(self) -> Driver:
        """The driver's state."""
        with self._link.lock:
            self._link.ensure()
            return self._link.driver()

    def devices(self) -> Sequence[Device]:
        """The visible devices."""
        with self._link.lock:
            self._link.ensure()
            return tuple(handle.device for handle in self._link.handles)

    def read(self) -> Sequence[DeviceUse]:
        """Each device's use now. A device that is gone reads as not available and is looked for again by itself."""
        with self._link.lock:
            if not self._link.ensure() or self._guard is None:
                reason = self._link.driver().reason
                return tuple(_unavailable(handle.device, reason) for handle in self._link.handles)
            handles = self._link.handles
            answers = [_attempt(self._read_device, self._guard, handle) for handle in handles]
            self._judge([answer for answer in answers if isinstance(answer, Failure)], len(answers))
            return tuple(
                _unavailable(handle.device, answer.reason) if isinstance(answer, Failure) else answer
                for handle, answer in zip(handles, answers, strict=True)
            )

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        """Which of *pids* have a device file of this driver open."""
        return self._files.opened_by(pids)

    def close(self) -> None:
        """Let go of the driver; the next question opens it again."""
        with self._link.lock:
            self._link.close()

    @abstractmethod
    def _load(self) -> Guard | Failure:
        """The binding, imported now, or why it cannot be."""

    @abstractmethod
    def _start(self, guard: Guard) -> Failure | None:
        """Open the driver, or say why not."""

    @abstractmethod
    def _list(self, guard: Guard) -> Opened[H] | Failure:
        """The visible devices of the open driver, or why none answers."""

    @abstractmethod
    def _shut(self, guard: Guard) -> None:
        """Let go of the driver."""

    @abstractmethod
    def _read_device(self, guard: Guard, handle: H) -> DeviceUse | Failure:
        """One device's use; a failure only if the device itself is gone."""

    def _judge(self, failures: Sequence[Failure], asked: int) -> None:
        """All devices gone: the driver is lost. Some gone: the rest go on, and the list is made anew."""
        if not failures:
            self._link.settle()
        elif len(failures) == asked:
            self._link.lose(failures[0].reason)
        else:
            self._link.reopen()

    def _connect(self) -> Opened[H] | Failure:
        if self._guard is None:
            guard = self._load()
            if isinstance(guard, Failure):
                return guard
            self._guard = guard
        refused = self._start(self._guard)
        if refused is not None:
            return refused
        listed: Opened[H] | Failure = _attempt(self._list, self._guard)
        if isinstance(listed, Failure):
            # The library counts its users, and others in this process may be among them.
            self._shut(self._guard)
        return listed

    def _disconnect(self) -> None:
        if self._guard is not None:
            self._shut(self._guard)


def _attempt(function: Callable[..., Any], *arguments: object) -> Any:
    """A driver may answer with anything; what cannot be understood is a failure of that one question."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001  # no method of a source raises for what a driver does
        return Failure(None, f"The driver's answer makes no sense: {type(error).__name__}: {error}"[:200])


def _unavailable(device: Device, reason: str) -> DeviceUse:
    missing = Reading.unavailable(reason)
    return DeviceUse(device.uuid, missing, missing, None, reason)
