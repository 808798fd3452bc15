"""The ledger of a broker that was killed, beside what its holders were told."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.sql.ledger import SqlLedger
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.invariants import excesses, mistakes
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.room import free_room, takes_more
from scripts.soak.record import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from jupyter_gpushare.broker.ledger import Recorded
    from jupyter_gpushare.rules.invariants import Violation
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot
    from scripts.soak.broker_holders import Holder
    from scripts.soak.record import Block

__all__ = ["compare", "excess_on", "keep", "lines_of", "load", "read_audit", "rests_though_there_is_room", "told"]

_ALL_LINES: Final = 1_000_000


def load(address: str) -> Snapshot:
    """The books as they were committed last."""
    ledger = SqlLedger.open(address)
    try:
        return ledger.load()
    finally:
        ledger.close()


def lines_of(address: str) -> Sequence[Recorded]:
    """The whole audit."""
    ledger = SqlLedger.open(address)
    try:
        return ledger.audit(limit=_ALL_LINES)
    finally:
        ledger.close()


def compare(
    block: Block, moment: str, books: Snapshot, holders: Sequence[Holder], audit: Callable[[], Sequence[Recorded]]
) -> set[str]:
    """No invariant is violated, no lease is lost or doubled, and no epoch is older than one that was told.

    Where a lease is not there any more, the *audit* must say that its holder left as it was told and was not heard of.
    Devices come back on which somebody came back alone, so that for now more is there than fits: they are looked at
    again when everybody is heard.
    """
    alone: set[str] = set()
    told = {key for holder in holders for key in holder.known}
    for violation in (*excesses(books), *mistakes(books)):
        if _came_back_alone(books, violation, told):
            block.counts["came back alone, and not heard of yet"] += 1
            alone.add(violation.of)
            continue
        foreign = {each.uuid: str(each.foreign) for each in books.devices.values() if each.uuid == violation.of}
        concerned = [_shown(each) for each in books.leases.values() if violation.of in each.devices]
        block.violated(f"{moment}: {violation}: foreign {foreign}, {concerned}")
    for holder in holders:
        for key, epoch in holder.known.items():
            lease = books.leases.get(key)
            if lease is not None:
                block.require(lease.epoch >= epoch, f"{moment}: {holder.told()}: kept is epoch {lease.epoch}")
            elif key not in holder.over and key not in holder.ending:
                is_unheard = key in left_unheard(audit())
                block.require(is_unheard, f"{moment}: the lease {key} of {holder.name} is lost")
    doubled = [key for key, count in Counter(each.key for each in books.leases.values()).items() if count > 1]
    block.require(not doubled, f"{moment}: doubled leases: {doubled}")
    return alone


def excess_on(books: Snapshot, devices: Collection[str]) -> list[str]:
    """What is promised or held above what there is on *devices*."""
    return [str(each) for each in excesses(books) if each.of in devices]


def rests_though_there_is_room(books: Snapshot, key: str) -> str:
    """That lease, if it is parked and waits for its device, which has room for it; empty otherwise."""
    lease = books.leases.get(key)
    if lease is None or lease.status is not Status.PARKED or lease.reason is not Reason.WAITING_FOR_SAME_DEVICE:
        return ""
    has_room = all(
        grant.device in books.devices
        and takes_more(books, books.devices[grant.device])
        and free_room(books, grant.device) >= grant.amount.millionths
        for grant in lease.grants
    )
    return _shown(lease) if has_room else ""


def read_audit(block: Block, lines: Sequence[Recorded], holders: Sequence[Holder]) -> None:
    """Nobody lost a lease, and nobody was given devices twice in one epoch."""
    given: Counter[str] = Counter()
    known = {key for holder in holders for key in holder.known}
    excused = {key for holder in holders for key in holder.ending}
    verbs: defaultdict[str, list[Verb]] = defaultdict(list)
    for line in lines:
        entry, past = line.entry, verbs[line.entry.lease]
        given[entry.lease] += entry.verb in (Verb.GRANTED, Verb.RESUMING)
        # Who asked for the end and never heard of it may come back to ask again.
        is_adopted = entry.verb is Verb.ADOPTED
        block.counts["came back to end once more"] += is_adopted and entry.lease in excused
        is_gone = entry.reason is Reason.HOLDER_GONE
        if is_gone and entry.lease in excused:
            continue  # it was to end, and could not be heard when it had
        if is_gone and _has_left_unheard(past):
            # Its device is free and nobody speaks for its claim: it claims anew when it is back.
            block.counts["left as it was told, and could not say so"] += 1
            excused.add(entry.lease)
            continue
        is_lost = is_gone or entry.verb is Verb.FAILED or (is_adopted and entry.lease not in excused)
        # A real job that is ended while it cannot be heard is gone, and only then known to be.
        block.require(not is_lost or entry.lease not in known, f"the audit: after {', '.join(past[-6:])}: {entry}")
        past.append(entry.verb)
    for holder in holders:
        for key, epoch in holder.known.items():
            block.require(given[key] <= epoch, f"{holder.name} was given devices {given[key]} times in {epoch} epochs")
    block.counts["lines of the audit"] += len(lines)


def left_unheard(lines: Sequence[Recorded]) -> set[str]:
    """The leases that ended since their holders left as they were told, and could not say so."""
    verbs: defaultdict[str, list[Verb]] = defaultdict(list)
    found: set[str] = set()
    for line in lines:
        entry, past = line.entry, verbs[line.entry.lease]
        if entry.reason is Reason.HOLDER_GONE and _has_left_unheard(past):
            found.add(entry.lease)
        past.append(entry.verb)
    return found


def _has_left_unheard(past: Sequence[Verb]) -> bool:
    """Whether it was to leave its device, to save itself and not to park, and was not heard of since."""
    return tuple(past[-2:]) in {(Verb.CALLED_BACK, Verb.VANISHED), (Verb.RECLAIMED, Verb.VANISHED)}


def _came_back_alone(books: Snapshot, violation: Violation, light: Collection[str]) -> bool:
    """Whether a real notebook resumed while brokers came and went, and what it has is foreign until one hears of it.

    It proved that there was room; what stands on its loan uses less than it may. Light holders never act alone.
    """
    device = books.devices.get(violation.of)
    if device is None or not 0 < violation.excess <= device.foreign.millionths:
        return False
    there = [books.leases[key] for key in books.device_books[device.uuid].leases]
    alone = [each for each in there if each.is_session and each.status is Status.PARKED and each.id not in light]
    own = [grant.amount.millionths for each in alone for grant in each.grants if grant.device == device.uuid]
    return violation.excess <= sum(own)


def keep(block: Block, root: Path) -> None:
    """Keep ledger and log of a block with violations, for whoever looks for their cause."""
    if block.violations:
        kept = LOG.parent / f"{block.part}-{block.seed}"
        shutil.copytree(root / "books", kept, dirs_exist_ok=True)
        shutil.copy(root / "broker.log", kept)


def told(books: Snapshot) -> str:
    """Everything in *books*, a lease or a device to a line."""
    leases = (f"{_shown(lease)}, {lease.reason}" for lease in books.leases.values())
    devices = (f"{device.uuid[:8]} on {device.host}: {device}" for device in books.devices.values())
    return "\n  ".join(("", *leases, *devices))


def _shown(lease: Lease) -> str:
    own = ", ".join(f"{grant.amount} of {grant.device[:8]}" for grant in lease.grants)
    return f"{lease.key}: {lease.status.value} to {lease.target.value}, was {lease.was}, epoch {lease.epoch}, has {own}"
