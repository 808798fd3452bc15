"""Ends jobs that ignore their call back, where an admin turned that loss on: in the audit before it is done."""

from __future__ import annotations

import asyncio
import functools
import logging
import pwd
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.privileged.asking import ask
from jupyter_gpushare.broker.reconciler import StoppedError
from jupyter_gpushare.rules.event import LossAnnounced
from jupyter_gpushare.rules.lease import Kind, Status
from jupyter_gpushare.rules.loss import Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_gpushare.broker.evidence import Evidence
    from jupyter_gpushare.broker.privileged.asking import Answer
    from jupyter_gpushare.broker.reconciler import Published, Reconciler
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Enforcement", "is_overdue"]

_LOG: Final = logging.getLogger(__name__)
_LOSS: Final = Loss.JOB_STOPPED_AFTER_GRACE


def is_overdue(lease: Lease) -> bool:
    """Whether *lease*, whose deadline passed, is one that may be ended for it.

    Only a job, and only one that was never parked: the driver may hang when a program is killed that it has restored.
    """
    return lease.kind is Kind.TRAINING and lease.status is Status.YIELDING and not lease.is_parkable


class Enforcement:
    """For one event loop.

    Args:
        reconciler: has the loss in the audit before anything is done.
        evidence: which processes of the lease hold a device, now.
        losses: what the admin's file turns on.
        ask: has one process ended. Blocking.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        evidence: Evidence,
        losses: Callable[[], Collection[Loss]],
        ask: Callable[[Identity, int, Loss, str], Answer] = ask,
    ) -> None:
        self._reconciler = reconciler
        self._evidence = evidence
        self._losses = losses
        self._ask = ask
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def published(self, published: Published) -> None:
        """The rules ask a holder again when its deadline has passed: that is the moment."""
        if _LOSS not in self._losses():
            return
        for line in published.change.audit:
            lease = published.new.leases.get(line.lease)
            if "again" in line.details and lease is not None and is_overdue(lease) and lease.id not in self._tasks:
                task = asyncio.create_task(self._end(lease))
                self._tasks[lease.id] = task
                task.add_done_callback(functools.partial(self._done, lease.id))

    def _done(self, lease: str, task: asyncio.Task[None]) -> None:
        del self._tasks[lease]
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("Lease %s is not ended for its deadline", lease, exc_info=error)

    async def stop(self) -> None:
        """End nothing more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self, lease: Lease) -> None:
        uid = _uid_of(lease.person)
        processes = (await self._evidence.look()).processes.get(lease.id, frozenset())
        if uid is None or not processes:
            return
        shown = " ".join(str(process.pid) for process in sorted(processes))
        try:
            await self._reconciler.submit([LossAnnounced(lease.id, _LOSS, shown)])
        except (LedgerError, StoppedError) as error:
            _LOG.warning("No job is ended while that cannot be kept in the audit: %s", error)
            return
        for process in sorted(processes):
            if not _is_same_turn(self._reconciler.committed, lease):
                return
            answer = await asyncio.to_thread(self._ask, process, uid, _LOSS, lease.id)
            _LOG.warning("%s of lease %s, process %d: %s (%s)", _LOSS, lease.id, process.pid, answer.code, answer.text)
        self._evidence.ask()


def _is_same_turn(books: Snapshot, lease: Lease) -> bool:
    now = books.leases.get(lease.id)
    return now is not None and now.epoch == lease.epoch and is_overdue(now)


def _uid_of(person: str) -> int | None:
    """The Unix user that a lease's person is; None for one of a network."""
    try:
        return pwd.getpwnam(person).pw_uid
    except KeyError:
        return int(person) if person.isascii() and person.isdigit() else None
