"""A small world for random histories: devices with contents, holders that obey or do not, and a broker that crashes.

Its books are kept in a ledger after each step, unless it crashes first.
What is true is kept apart from what the books say: which holder really has how much on which device.
"""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  # dataclasses look at it
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.event import (
    Attested,
    CouldNot,
    HostSeen,
    Inventory,
    PolicySet,
    Returned,
    Running,
    Vanished,
    Wanted,
)
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.rules.step import step

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.rules.event import Event

__all__ = ["Holder", "World", "everything", "reloaded"]

_LEAVES = (Status.PARKING, Status.YIELDING)
_BACKUPS = 0.02
_STARTS = (Status.GRANTED, Status.RESUMING)


@dataclass
class Holder:
    """One session or job: what it was told last, and what of it is really on devices, in millionths of a GPU.

    *came_alone*: it is there on its own proof of room, and nobody was told.
    """

    told: Lease
    on_device: dict[str, int] = field(default_factory=dict)
    is_connected: bool = True
    is_dead: bool = False
    has_given_up: bool = False
    came_alone: bool = False

    @property
    def is_resident(self) -> bool:
        return bool(self.on_device)

    def act(self, post: Callable[[Event], None], *, fails: Reason | None = None, has_room: bool = True) -> None:
        """Do what the status asks, and say so, or that it *fails*. What it says may get lost, and is then said again.

        Without room one that starts has failed; one that restores waits until there is some, and says nothing.
        """
        lease = self.told
        if lease.status in _STARTS and not self.is_resident and not has_room:
            if lease.status is Status.RESUMING:
                return
            fails = Reason.NOT_PARKABLE
        if self.has_given_up:
            return
        if fails and (lease.status in _STARTS or (lease.status in _LEAVES and self.is_resident)):
            self.has_given_up = True
            post(CouldNot(lease.id, lease.epoch, fails))
        elif lease.status in _STARTS:
            self.on_device = {grant.device: grant.amount.millionths for grant in lease.grants}
            post(Running(lease.id, lease.epoch))
        elif lease.status in _LEAVES:
            self.on_device, self.came_alone = {}, False
            post(Attested(lease.id, lease.epoch))
        elif lease.status is Status.RUNNING and self.is_resident:
            # Its share may have changed, live.
            self.on_device = {grant.device: grant.amount.millionths for grant in lease.grants}
        elif lease.status is Status.RUNNING:
            # It parked after all, and its word that it could not came later: it asks for what is so.
            post(Wanted(lease.id, Target.PARKED))

    def hears(self, lease: Lease) -> None:
        """How its lease is now."""
        self.told, self.has_given_up = lease, False

    def comes_back(self) -> Returned:
        """What it says when it has found a broker again."""
        return Returned(self.told, self.told.epoch, self.is_resident)


@dataclass
class World:
    """The broker's books, what of them is kept, and everybody else. *violations* is what must not have happened."""

    choose: random.Random
    snapshot: Snapshot
    make_ledger: Callable[[], Ledger] = MemoryLedger
    now: float = 1_000_000.0
    holders: dict[str, Holder] = field(default_factory=dict)
    post: list[Event] = field(default_factory=list)
    past: list[Event] = field(default_factory=list)
    backups: list[Snapshot] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    checks: list[Callable[[World, Snapshot, Snapshot, Change, Sequence[Event]], None]] = field(default_factory=list)
    look_again: float | None = None
    steps: int = 0
    is_truth_known: bool = True
    gone: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.first = self.snapshot
        self.ledger = self._fresh_ledger(self.snapshot)

    def _fresh_ledger(self, books: Snapshot) -> Ledger:
        """A ledger that has never kept anything but *books*: what a backup of them gives."""
        ledger = self.make_ledger()
        ledger.take_over("history")
        ledger.commit(everything(books))
        return ledger

    def send(self, event: Event) -> None:
        """A message on its way: it may come late, twice, after others, or never."""
        self.post.append(event)
        self.past.append(event)

    def take(self, *events: Event, crash: str = "") -> None:
        """One step of the broker. *crash*: it dies before it has kept the step, or after, before anybody is told."""
        self._devices_change(events)
        before, done = self.snapshot, step(self.snapshot, events, self.now)
        self.steps += 1
        for check in self.checks:
            check(self, before, done.snapshot, done.change, events)
        if crash == "before":
            self.restart()
            return
        self.snapshot, self.look_again = done.snapshot, done.look_again
        if done.change:
            self.ledger.commit(done.change)
        if self.choose.random() < _BACKUPS:
            self.backups.append(self.snapshot)
        if crash == "after":
            self.restart()
            return
        self._tell(done.change)

    def _devices_change(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Inventory):
                there = {device.uuid for device in event.devices}
                ours = {uuid for uuid, device in self.first.devices.items() if device.host == event.host}
                self.gone = (self.gone - ours) | (ours - there)

    def _tell(self, change: Change) -> None:
        for key, lease in change.leases.items():
            holder = self.holders.get(key)
            if holder is None and not lease.is_over:
                holder = self.holders[key] = Holder(lease)
            if holder is not None and holder.is_connected:
                self._hears(holder, lease)

    def _hears(self, holder: Holder, lease: Lease) -> None:
        holder.hears(lease)
        if lease.is_over:
            del self.holders[lease.id]

    def restart(self, backup: Snapshot | None = None) -> None:
        """A new broker on what was kept, or on a *backup*: messages are lost, and holders come back as they find it."""
        if backup is not None:
            self.ledger = self._fresh_ledger(backup)
            self.is_truth_known = False
        self.ledger.take_over("history")
        self.snapshot = reloaded(self.ledger.load())
        self.post.clear()
        self.look_again = None
        self.take()
        for key, holder in list(self.holders.items()):
            holder.is_connected = holder.is_connected and self.choose.random() < 0.9
            if holder.is_connected and key in self.holders:
                self.reconnect(holder)
        for key in [key for key in self.snapshot.leases if key not in self.holders]:
            self.send(Vanished(key, is_dead=True))

    def reconnect(self, holder: Holder) -> None:
        """The holder is back, and hears how things are."""
        holder.is_connected = True
        self.take(holder.comes_back())
        lease = self.snapshot.leases.get(holder.told.id)
        if lease is not None:
            holder.hears(lease)
        else:
            # Its lease is over, or another of its has its key: it lets go of everything.
            self.holders.pop(holder.told.id, None)

    def evidence(self) -> None:
        """The devices are looked at: whoever is missing and is not there any more is attested."""
        for key, lease in self.snapshot.leases.items():
            holder = self.holders.get(key)
            is_gone = holder is None or not holder.is_resident
            if is_gone and lease.status is Status.MISSING and not (holder and holder.told.status in _STARTS):
                self.send(Attested(key, lease.epoch))

    def used(self, uuid: str) -> int:
        """What is really on a device."""
        return sum(holder.on_device.get(uuid, 0) for holder in self.holders.values())

    def acts(self, holder: Holder, fails: Reason | None = None) -> None:
        """*holder* does as it was told. It starts and restores only where it has proof of room, as all of them do.

        What keeps it away must have come alone. Where the broker itself has promised too much, it goes there all the
        same, and the devices show it.
        """
        there = {uuid for other in self.holders.values() if other.came_alone for uuid in other.on_device}
        has_room = there.isdisjoint(holder.told.devices) or self._has_room(holder)
        holder.act(self.send, fails=fails, has_room=has_room)

    def _has_room(self, holder: Holder) -> bool:
        """Whether its devices are there, with room for it."""
        return all(
            grant.device not in self.gone and self.used(grant.device) + grant.amount.millionths <= Fraction.PER_GPU
            for grant in holder.told.grants
        )

    def resumes_alone(self, holder: Holder) -> None:
        """Without a broker a parked session restores where it finds room: it cannot know who else was told to come."""
        if self._has_room(holder):
            holder.on_device = {grant.device: grant.amount.millionths for grant in holder.told.grants}
            holder.came_alone = True

    def settle(self) -> None:
        """Everything works again and everybody does as told, until there is nothing left to do."""
        self._mend()
        for _ in range(300):
            before = self.snapshot
            self._one_round()
            if self.snapshot == before and not self.post and not self._is_anything_left():
                if self.look_again is None:
                    return
                self.now = max(self.now, self.look_again)
        self.violations.append(f"the books come to no rest: {sorted(self.snapshot.unsettled)}")

    def _is_anything_left(self) -> bool:
        return any(holder.told.status in (*_LEAVES, *_STARTS) for holder in self.holders.values())

    def _mend(self) -> None:
        first = self.first
        self.take(PolicySet(tuple(first.projects.values()), tuple(first.pools.values())))
        for name, host in first.hosts.items():
            self.take(HostSeen(host), Inventory(name, tuple(d for d in first.devices.values() if d.host == name)))
        for key, holder in list(self.holders.items()):
            if holder.is_dead:
                del self.holders[key]
                self.take(Vanished(key, is_dead=True))
            elif not holder.is_connected:
                self.reconnect(holder)

    def _one_round(self) -> None:
        while self.post:
            self.take(self.post.pop(0))
        for key in list(self.holders):
            if key in self.holders:
                self.acts(self.holders[key])
        for key in [key for key in self.snapshot.leases if key not in self.holders]:
            self.send(Vanished(key, is_dead=True))
        while self.post:
            self.take(self.post.pop(0))
        self.now += 1
        self.take()


def everything(books: Snapshot) -> Change:
    """A change that makes *books* of none."""
    return Change(
        leases=books.leases,
        projects=books.projects,
        pools=books.pools,
        hosts=books.hosts,
        devices=books.devices,
        is_parking_stopped=books.is_parking_stopped,
    )


def reloaded(books: Snapshot) -> Snapshot:
    """What a ledger gives back: the parts, counted anew."""
    return Snapshot.of(
        projects=books.projects.values(),
        pools=books.pools.values(),
        hosts=books.hosts.values(),
        devices=books.devices.values(),
        leases=books.leases.values(),
        is_parking_stopped=books.is_parking_stopped,
    )
