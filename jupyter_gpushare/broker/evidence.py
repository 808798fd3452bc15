"""Looks at the devices, in a thread of its own, and tells what follows from what it sees.

Often while somebody is said to have released, once a second while anything is held, and not at all while nothing is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.attestation import Attestations
from jupyter_gpushare.broker.inherited_claims import InheritedClaims, read
from jupyter_gpushare.broker.inventory import Inventories
from jupyter_gpushare.broker.overuse import OverUses
from jupyter_gpushare.broker.sighting import Look, Sighting
from jupyter_gpushare.broker.uses import uses
from jupyter_gpushare.devices.pid_namespace import find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jupyter_gpushare.broker.configuration import Configuration
    from jupyter_gpushare.broker.roster import Roster
    from jupyter_gpushare.devices.device import Source
    from jupyter_gpushare.devices.environment import Word
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Evidence"]

_LOG: Final = logging.getLogger(__name__)
_OFTEN_S: Final = 0.05
_SELDOM_S: Final = 1.0
_HIDDEN: Final = (
    "The processes of lease %s are in another pid namespace, as in a container, and this broker may not look into them "
    "(/proc/<pid>/ns/pid): what they hold counts as foreign. Run the broker as their user and group, or with "
    "CAP_SYS_PTRACE, or give the container the host's process ids."
)


class Evidence:
    """For one event loop.

    Args:
        source: the devices of this host, or of all hosts of a simulated machine. Closed at the end.
        roster: the processes of each lease.
        books: the newest books.
        tell: takes the events.
        configuration: which pool a device is in, and what a host may do.
        monotonic: seconds that only go forward.
        proc: where proc(5) is mounted, for processes in other pid namespaces, and for the environment of strangers.
        uid_of: the Unix user as whom a person's processes run; None for the broker's own.

    Attributes:
        last: what was seen last; None before the first look.
    """

    def __init__(
        self,
        source: Source,
        roster: Roster,
        books: Callable[[], Snapshot],
        tell: Callable[..., None],
        *,
        configuration: Configuration,
        monotonic: Callable[[], float] = time.monotonic,
        proc: str = "/proc",
        uid_of: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self.last: Sighting | None = None
        self._look = Look(source, monotonic)
        self._roster = roster
        self._books = books
        self._tell = tell
        self._monotonic = monotonic
        self._proc = proc
        self._inventories = Inventories(configuration)
        self._attestations = Attestations(roster, monotonic)
        self._over_uses = OverUses()
        self._inherited = InheritedClaims(roster, uid_of)
        self._thread = ThreadPoolExecutor(1, "gpushare-evidence")
        self._looking = asyncio.Lock()
        self._finding = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take the first look, and go on."""
        await self.look()
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Look no more, and let go of the devices."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        async with self._looking:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._look.close)
        self._thread.shutdown(wait=False)

    def configure(self, configuration: Configuration) -> None:
        """Another configuration is in force."""
        self._inventories.configuration = configuration
        self.ask()

    def released(self, lease: str, epoch: int) -> None:
        """The holder says that nothing of *lease* is on a device any more: have a look."""
        self._attestations.said(lease, epoch)
        self._wanted.set()

    def ask(self) -> None:
        """Something may have changed: look soon."""
        self._wanted.set()

    async def fresh(self, within_s: float) -> None:
        """Return when the last look is not older than *within_s*."""
        if self.last is None or self._monotonic() - self.last.began > within_s:
            await self.look()

    async def keep_roster(self) -> None:
        """Keep whose processes are whose before anything is promised to them: a broker that is killed forgets."""
        roots = self._roster.roots()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._keep_roster, roots)

    async def find(self) -> None:
        """Learn which processes those are that holders in other pid namespaces named by their own numbers.

        Every look begins with it, too, for those that were not found. Who comes at the same moment shares one search.
        """
        async with self._finding:
            if not (told := self._roster.unfound()):
                return
            found = await asyncio.get_running_loop().run_in_executor(self._thread, find, told, self._proc)
            for lease in self._roster.found(found):
                _LOG.warning(_HIDDEN, lease)

    async def look(self) -> Sighting:
        """Look now, and tell what follows."""
        async with self._looking:
            await self.find()
            seen = await self._see()
            if await self._recognise(seen):
                # Else what is a lease's own would be told as foreign, and taken back a moment later.
                seen = await self._see()
        await self.keep_roster()
        self.last = seen
        if events := list(self._events(seen)):
            self._tell(*events)
        return seen

    async def _see(self) -> Sighting:
        roots = self._roster.roots()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._look.take, roots)

    async def _recognise(self, seen: Sighting) -> bool:
        """Ask those who belong to no lease whose they are; whether that has made any a lease's."""
        said: Mapping[Identity, Word] = {}
        if unread := self._inherited.unread(seen, self._books()):
            said = await asyncio.get_running_loop().run_in_executor(self._thread, read, unread, self._proc)
        return self._inherited.take(said, self._books())

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):  # the usual way on: it is time for the next look
                async with asyncio.timeout(self._pause_s()):
                    await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.look()
            except Exception:  # noqa: BLE001  # logged; it must go on
                # Without a look nothing is attested, so nothing is freed: safe, and worth a line in the log.
                _LOG.exception("The devices could not be looked at; nothing is freed until they can")
                await asyncio.sleep(_SELDOM_S)
            await asyncio.sleep(_OFTEN_S)

    def _pause_s(self) -> float | None:
        if self._attestations.is_urgent:
            return 0
        books = self._books()
        # Who waits may wait for memory that no lease holds: only another look shows that it is free.
        is_watched = books.waiting or books.unsettled or any(each.held for each in books.device_books.values())
        return _SELDOM_S if is_watched else None

    def _events(self, seen: Sighting) -> Iterator[Event]:
        """Nothing while the driver is away: what was known holds."""
        if seen.is_ready:
            books = self._books()
            for lease, processes in seen.processes.items():
                if lease in books.leases:
                    self._roster.saw(lease, processes)
            yield from self._inventories.events(seen, books)
            yield from self._attestations.events(seen, books)
            yield from self._over_uses.events(seen, books)
            yield from uses(seen, books)

    def _keep_roster(self, roots: Mapping[Identity, str]) -> None:
        try:
            self._roster.write(roots)
        except OSError as error:
            _LOG.warning("Should this broker be killed, it cannot know whose processes are whose: %s", error)
