"""The one sampler of a server: a thread that reads devices only as often as somebody needs it.

Drivers block, sometimes for seconds, so no driver call ever runs on the server's event loop. While nobody
watches and the session holds no GPU memory, the driver is not called at all: only the kernel's file tables
are looked at now and then, for a process that has opened a device.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.attribution import attribute
from jupyter_gpushare.devices.ownership import Ownership

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from jupyter_gpushare.devices.attribution import Attributed, Owner
    from jupyter_gpushare.devices.device import Device, DeviceUse, Driver, Source

__all__ = ["Cadence", "Meter", "Sample"]

# The shortest pause between two readings, for those that cannot wait.
_AT_ONCE_S = 0.05


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often to read, in seconds: *watched*, *held* (unwatched, memory held), *evidence* (file tables only)."""

    watched: float = 1.0
    held: float = 10.0
    evidence: float = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Every device at one moment, with the use of each owner in this session.

    *at* is the time of day, for people; *taken* only goes forward, for ages.
    """

    at: float
    taken: float
    driver: Driver
    devices: Sequence[Device]
    uses: Sequence[DeviceUse]
    attributed: Attributed

    @property
    def holds(self) -> bool:
        """Whether this session holds GPU memory, or may hold some that cannot be told."""
        return self.attributed.memory.value != 0 and bool(self.devices)


class Meter:
    """Reads *source* in a thread and hands each `Sample` to *deliver*, on that thread.

    Args:
        source: the devices.
        owner_of: the owner of a pid in this session, None for others' processes; called in the thread.
        roots: the processes from which this session's owners descend; called in the thread.
        descendants: all processes below some; called in the thread.
        host_pids: whether this process runs in the host's pid namespace.
        deliver: called with each sample.
        cadence: how often.
        log: where trouble goes.
    """

    def __init__(
        self,
        source: Source,
        *,
        owner_of: Callable[[int], Owner | None],
        roots: Callable[[], Mapping[int, Owner]],
        descendants: Callable[[Collection[int]], frozenset[int]],
        host_pids: bool,
        deliver: Callable[[Sample], None],
        cadence: Cadence,
        log: logging.Logger,
    ) -> None:
        self._source = source
        self._ownership = Ownership(owner_of, source.has_open)
        self._roots = roots
        self._descendants = descendants
        self._host_pids = host_pids
        self._deliver = deliver
        self._cadence = self._usual = cadence
        self._log = log
        self._condition = threading.Condition()
        self._watchers = 0
        self._asked: list[Future[Sample]] = []
        self._at_once = False
        self._suspect = False
        self._stopping = False
        self._last: Sample | None = None
        self._last_read = -float("inf")
        self._last_look = -float("inf")
        self._took = 0.0
        self._reading_since: float | None = None
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="gpushare-meter", daemon=True)

    @property
    def last(self) -> Sample | None:
        """The newest sample, None before the first."""
        return self._last

    @property
    def reading_for_s(self) -> float:
        """For how long the reading under way has been going on, 0 when there is none."""
        since = self._reading_since
        return 0.0 if since is None else time.monotonic() - since

    def hasten(self, *, is_needed: bool) -> None:
        """Read as often as if somebody looked, or as usual again: a guard must see an overrun within seconds."""
        watched = self._usual.watched
        self._cadence = Cadence(watched, watched, watched) if is_needed else self._usual

    def hangs_for_s(self, after_s: float) -> int:
        """For how many seconds the driver has kept a reading waiting; 0 while that is not longer than *after_s*."""
        waited = self.reading_for_s
        return int(waited) if waited > after_s else 0

    @property
    def watchers(self) -> int:
        """How many look now."""
        return self._watchers

    @property
    def sleeps(self) -> bool:
        """Whether nothing is due: nobody looks, nothing is held or asked for."""
        with self._condition:
            return self._reading_since is None and self._due() > time.monotonic()

    def start(self) -> None:
        """Start the thread. It sleeps until somebody watches or something is held."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a driver call that hangs is left behind, as nothing can end it."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def watch(self) -> None:
        """One more watcher; the first one gets a sample at once."""
        with self._condition:
            self._watchers += 1
            self._condition.notify()

    def unwatch(self) -> None:
        """One watcher less."""
        with self._condition:
            self._watchers -= 1

    def suspect(self) -> None:
        """Something may have opened a device, such as a cell that ended: look for evidence soon."""
        with self._condition:
            self._suspect = True
            if not self._watchers:
                self._condition.notify()

    def ask(self, *, at_once: bool = False) -> Future[Sample]:
        """A sample that starts after this call, at the latest one watched interval from now.

        Args:
            at_once: for the rare moment in which somebody waits for it, as when a notebook is parked: almost now.
        """
        future: Future[Sample] = Future()
        with self._condition:
            self._at_once = self._at_once or at_once
            # While a driver hangs, those who gave up waiting must not pile up.
            self._asked = [waiting for waiting in self._asked if not waiting.cancelled()]
            self._asked.append(future)
            self._condition.notify()
        return future

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._await_turn():
                    break
                asked, self._asked, self._suspect, self._at_once = self._asked, [], False, False
            sample = self._read_if_due(wanted=bool(asked) or self._watchers > 0)
            for future in asked:
                _settle(future, sample)
        for future in self._asked:
            future.cancel()
        self._source.close()

    def _await_turn(self) -> bool:
        """Sleep until the next turn is due, False for the end; called and returned with the condition held."""
        while not self._stopping:
            wait = self._due() - time.monotonic()
            if wait <= 0:
                return True
            self._condition.wait(None if wait == float("inf") else wait)
        return False

    def _due(self) -> float:
        """When the next turn is. Never sooner than one watched interval after the last read: drivers lock.

        A driver that needs long is left alone for as long again.
        """
        pause = max(_AT_ONCE_S if self._at_once else self._cadence.watched, 2 * self._took)
        if self._watchers or self._asked:
            return self._last_read + pause
        last_turn = max(self._last_look, self._last_read)
        if self._suspect:
            return last_turn + pause
        if self._holds():
            return self._last_read + max(self._cadence.held, pause)
        return last_turn + self._cadence.evidence if _apart_from_server(self._roots()) else float("inf")

    def _holds(self) -> bool:
        return self._last is not None and self._last.holds

    def _read_if_due(self, *, wanted: bool) -> Sample | None:
        try:
            if not (wanted or self._holds() or self._has_evidence()):
                return None
            self._last_read = self._reading_since = time.monotonic()
            sample = self._read()
        except Exception:  # noqa: BLE001  # the meter must outlive any fault of a driver
            self._note_failure()
            return None
        finally:
            if self._reading_since is not None:
                self._took = time.monotonic() - self._reading_since
            self._reading_since = None
        self._failing = False
        self._last = sample
        self._deliver(sample)
        return sample

    def _note_failure(self) -> None:
        """Tell the log once, not at every reading until it works again."""
        if not self._failing:
            self._log.exception("Reading the GPUs failed; it is tried again until it works")
        self._failing = True

    def _has_evidence(self) -> bool:
        """Whether a process of this session has a device open, from the kernel's file tables alone."""
        self._last_look = time.monotonic()
        return bool(self._source.has_open(self._descendants(_apart_from_server(self._roots()))))

    def _read(self) -> Sample:
        at = time.time()
        uses = self._source.read()
        # The driver's state is asked after the read, because it says how that went.
        driver = self._source.driver()
        roots = self._roots()
        self._ownership.begin(frozenset(process.pid for use in uses for process in use.processes or ()), roots)
        attributed = attribute(
            uses,
            self._ownership.owner_of,
            has_open=self._ownership.has_open,
            roots=_members(roots, self._descendants),
            host_pids=self._host_pids and driver.vendor != "simulated",
        )
        return Sample(at, time.monotonic(), driver, tuple(self._source.devices()), tuple(uses), attributed)


def _apart_from_server(roots: Mapping[int, Owner]) -> list[int]:
    """The roots without the server itself, which has devices open merely because it reads them."""
    return [pid for pid, owner in roots.items() if owner.kind != "server"]


def _members(roots: Mapping[int, Owner], descendants: Callable[[Collection[int]], frozenset[int]]) -> Iterator[int]:
    """All processes of the session; looked up only when somebody asks, which is when the driver lists none of them."""
    yield from descendants(_apart_from_server(roots))


def _settle(future: Future[Sample], sample: Sample | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if sample is None:
        future.set_exception(RuntimeError("the GPUs could not be read"))
    else:
        future.set_result(sample)
