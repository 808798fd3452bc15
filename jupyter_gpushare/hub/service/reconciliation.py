"""What the hub's servers have, and what the books say that they have, made the same again.

A hub that died in the middle of a start or a stop could not say that it was over. At the start and every few minutes
the claims of the hub (`hub.claim_key`) are compared with the hub's own list of servers:

* A lease of no server, for which no page waits, is ended: nobody could ever release it. Where its holder is connected
  all the same, only if the next comparison finds so too: a hub that has just begun may not know all yet.
* A lease whose server starts or runs is left alone, parked or not. One that runs and has never said hello, as a server
  without our extension, is kept: its share was granted to it, and it may well use the GPU.

What is not certain ends nothing: while the hub cannot be asked for all, or a lease is as young as the question, it
stays.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.public_error import PublicError
from jupyter_gpushare.hub.claim_key import PREFIX, claim_key
from jupyter_gpushare.hub.service.hub_rest import HubAwayError
from jupyter_gpushare.rules.lease import Status, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from jupyter_gpushare.hub.service.hub_rest import HubRest, UserModel
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Outcome", "Reconciliation"]

_LOG: Final = logging.getLogger(__name__)
#: A claim is made, and its server in the hub's list, within this time of each other.
_TOO_YOUNG_S: Final = 30.0
_EVERY_S: Final = 180.0
_FIRST_PAUSE_S: Final = 2.0
#: After the start of a hub that died, until what was too young then, and after a doubt, is looked at once more.
_SOON_S: Final = _TOO_YOUNG_S + 5.0
_KEPT_S: Final = 2 * _EVERY_S + 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one comparison came to: ids of leases."""

    ended: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


class Reconciliation:
    """Compares, again and again. For one event loop.

    Args:
        hub: asked which servers there are.
        books: the newest books.
        now: the broker's time, in seconds since the epoch.
        end: ends a person's claim by its key; may raise PublicError.
        keep: keeps a grant whose server runs and has not said hello, for so many seconds; as above.
        is_connected: whether a lease's holder is.
        every_s: how often.
    """

    def __init__(
        self,
        hub: HubRest,
        books: Callable[[], Snapshot],
        now: Callable[[], float],
        *,
        end: Callable[[str, str], Awaitable[object]],
        keep: Callable[[str, str, float], Awaitable[object]],
        is_connected: Callable[[str], bool],
        every_s: float = _EVERY_S,
    ) -> None:
        self._hub = hub
        self._books = books
        self._now = now
        self._end = end
        self._keep = keep
        self._is_connected = is_connected
        self._doubted: set[str] = set()
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Compare at once, and from then on."""
        self._task = asyncio.create_task(self._go_on())

    async def stop(self) -> None:
        """Compare no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _go_on(self) -> None:
        pause, is_first = _FIRST_PAUSE_S, True
        while True:
            try:
                outcome = await self.compare()
                if outcome.ended:
                    _LOG.warning("%d leases of servers that the hub has no more are ended", len(outcome.ended))
                pause = min(_SOON_S, self._every_s) if is_first or self._doubted else self._every_s
                is_first = False
            except HubAwayError as error:
                # The hub starts its services before it answers them.
                _LOG.warning("The servers could not be compared: %s", error)
                pause = min(2 * pause, self._every_s)
            except Exception:  # noqa: BLE001  # logged; it must go on
                _LOG.exception("The servers could not be compared")
                pause = self._every_s
            await asyncio.sleep(pause)

    async def compare(self) -> Outcome:
        """Compare once.

        Raises:
            HubAwayError: the hub cannot be asked; nothing is ended then.
        """
        asked = self._now()
        suspects = [lease for lease in self._of_hub() if lease.submitted <= asked - _TOO_YOUNG_S]
        outcome = Outcome()
        if not suspects:
            return outcome
        there = await self._servers()
        self._doubted &= {lease.id for lease in suspects if (lease.person, lease.key) not in there}
        for lease in suspects:
            state = there.get((lease.person, lease.key))
            if state is None:
                await self._end_if_gone(lease, outcome)
            elif state == "ready" and lease.status is Status.GRANTED and lease.hold is not None:
                await self._keep_running(lease, outcome)
        return outcome

    def _of_hub(self) -> Collection[Lease]:
        return [
            lease
            for lease in self._books().leases.values()
            if lease.key.startswith(PREFIX) and lease.is_session and lease.target is not Target.ENDED
        ]

    async def _servers(self) -> dict[tuple[str, str], str]:
        """Every active server, by its person and claim, and how it is."""
        found: dict[tuple[str, str], str] = {}
        async for user in self._hub.users():
            found.update(_servers_of(user))
        return found

    async def _end_if_gone(self, lease: Lease, outcome: Outcome) -> None:
        """End it, unless it is waited for, or its server has come since the list was made."""
        now = self._books().leases.get(lease.id)
        if now is None or (now.hold is not None and not now.hold.is_starting):
            return  # a page waits, and has its own time
        user = await self._hub.user(lease.person)
        if user is not None and (lease.person, lease.key) in _servers_of(user):
            return
        if self._is_connected(lease.id) and lease.id not in self._doubted:
            self._doubted.add(lease.id)
            return
        with suppress(PublicError):  # the ledger is away: the next time
            await self._end(lease.person, lease.key)
            outcome.ended.append(lease.id)

    async def _keep_running(self, lease: Lease, outcome: Outcome) -> None:
        with suppress(PublicError):  # it has said hello just now, or the ledger is away
            await self._keep(lease.person, lease.key, max(_KEPT_S, 2 * self._every_s + 60))
            outcome.kept.append(lease.id)


def _servers_of(user: UserModel) -> dict[tuple[str, str], str]:
    return {
        (user.name, claim_key(user.name, name)): "ready" if server.ready and not server.pending else "moving"
        for name, server in user.servers.items()
        if not server.stopped
    }
