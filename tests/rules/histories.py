"""Random histories: what people, holders, devices and bad luck do to the books, repeatable by their seed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.event import (
    Drained,
    HostSeen,
    Idle,
    Inventory,
    OutageOver,
    OverUse,
    Parkable,
    ParkingSwitched,
    PolicySet,
    Reclaimed,
    Returned,
    ShareChanged,
    Submitted,
    TimePassed,
    Using,
    Vanished,
    Wanted,
)
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.over_commitment import promised_excess
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.share import Share
from tests.rules.builders import books, job, session
from tests.rules.checks import check_step
from tests.rules.worlds import Holder, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["EVENTS", "History", "play"]

#: Events of one history.
EVENTS = 200
_MOST_LEASES = 12
_SELDOM = 0.1
_SHARES = ("0.25", "0.25..0.5", "0.5", "0.5", "0.5..1", "20GiB", "1", "2x0.5", "2")


def play(seed: int, events: int = EVENTS, make_ledger: Callable[[], Ledger] = MemoryLedger) -> World:
    """One history; its world, in which `violations` says what went wrong."""
    history = History(seed, make_ledger)
    for _ in range(events):
        if history.world.violations:
            return history.world
        history.happen()
    history.come_to_rest()
    return history.world


class History:
    """One history and the dice that make it."""

    def __init__(self, seed: int, make_ledger: Callable[[], Ledger] = MemoryLedger) -> None:
        self.choose = random.Random(f"history {seed}")  # noqa: S311  # a seed repeats it
        self.world = World(self.choose, _beginning(self.choose), make_ledger)
        self.world.checks.append(check_step)
        self._made = 0
        self._happenings: list[tuple[int, Callable[[], None]]] = [
            (40, self._deliver),
            (40, self._somebody_acts),
            (18, self._somebody_comes),
            (34, self._somebody_wants),
            (12, self._time_passes),
            (6, self._repeat_the_past),
            (4, self._somebody_idles),
            (4, self._devices_show_use),
            (3, self._somebody_says_it_is_there),
            (1, self._an_outage_is_over),
            (3, self._share_changes),
            (2, self._somebody_vanishes),
            (4, self._somebody_returns),
            (1, self._somebody_dies),
            (2, self._crash),
            (2, self._admin_does),
            (2, self._devices_change),
        ]

    def happen(self) -> None:
        """One more thing."""
        weights = [weight for weight, _ in self._happenings]
        self.choose.choices([each for _, each in self._happenings], weights)[0]()

    def come_to_rest(self) -> None:
        """In the end everything works and everybody obeys: nobody may be stuck, and all can end."""
        world = self.world
        world.take(ParkingSwitched(is_stopped=False, by="admin"))
        self._undo_drains()
        world.settle()
        if world.violations:
            return
        stuck = [each for each in world.snapshot.leases.values() if _is_stuck(world.snapshot, each)]
        world.violations += [f"{each.id} is stuck, {each.status.value}: {each.reason}" for each in stuck]
        for key in list(world.snapshot.leases):
            world.take(Wanted(key, Target.ENDED))
        world.settle()
        world.violations += [f"{key} does not end" for key in world.snapshot.leases]

    def _undo_drains(self) -> None:
        for host in self.world.snapshot.hosts:
            self.world.take(Drained(host=host, undo=True))
        for device in list(self.world.snapshot.devices):
            self.world.take(Drained(device=device, undo=True))

    def _any_lease(self) -> Lease | None:
        leases = [self.world.snapshot.leases[key] for key in sorted(self.world.snapshot.leases)]
        return self.choose.choice(leases) if leases else None

    def _any_holder(self, *, connected: bool) -> Holder | None:
        fitting = [each for _, each in sorted(self.world.holders.items()) if each.is_connected is connected]
        fitting = [each for each in fitting if not each.is_dead]
        return self.choose.choice(fitting) if fitting else None

    def _deliver(self) -> None:
        """One to three messages reach the broker, in any order, together or with a crash."""
        world = self.world
        events = [
            world.post.pop(self.choose.randrange(len(world.post)))
            for _ in range(min(len(world.post), self.choose.randint(1, 3)))
        ]
        world.take(*events, crash=self.choose.choices(["", "before", "after"], [96, 2, 2])[0])

    def _somebody_acts(self) -> None:
        for _ in range(self.choose.randint(1, 4)):
            holder = self._any_holder(connected=True)
            if holder is not None:
                # It may name any reason, also one that is not a holder's to give.
                fails = self.choose.choice(list(Reason)) if self.choose.random() < 0.05 else None
                self.world.acts(holder, fails)
        self.world.evidence()

    def _somebody_comes(self) -> None:
        if len(self.world.snapshot.leases) >= _MOST_LEASES:
            return
        self._made += 1
        make = session if self.choose.random() < 0.55 else job
        lease = make(
            f"{make.__name__}-{self._made}",
            self.choose.choice(_SHARES[:-1] if make is session else _SHARES),
            self.choose.choice(["team-a", "team-a", "team-b", "team-c"]),
            submitted=self.world.now,
            since=self.world.now,
            person=self.choose.choice(["ada", "bo"]),
            key=f"key-{self._made}",
            is_parkable=self.choose.random() < 0.8,
            grace_s=self.choose.choice([None, 5.0]),
            start_cost_s=self.choose.choice([0.0, 0.0, 500.0]),
            most_turns_lost=self.choose.choice([None, None, 2]),
        )
        self.world.take(*[Submitted(lease)] * self.choose.choice([1, 1, 2]))

    def _somebody_wants(self) -> None:
        lease = next((each for each in (self._any_lease() for _ in range(3)) if each and each.is_session), None)
        lease = lease or self._any_lease()
        if lease is None:
            return
        wishes = [Target.PARKED, Target.RUNNING, Target.ENDED]
        target = self.choose.choices(wishes, [20, 20, 1] if lease.is_session else [0, 3, 1])[0]
        memory = self.choose.choice([None, Memory(0), Memory.parse("10GiB"), Memory.parse("4TiB")])
        self.world.send(Wanted(lease.id, target, memory=memory))
        if self.choose.random() < 0.7:
            self._deliver()

    def _time_passes(self) -> None:
        world = self.world
        next_one = world.look_again if world.look_again is not None else world.now
        world.now = max(world.now, self.choose.choice([world.now + 1, world.now + 40, world.now + 200, next_one]))
        world.take(TimePassed())

    def _repeat_the_past(self) -> None:
        """A message comes a second time, perhaps long after its time."""
        if self.world.past:
            self.world.take(self.choose.choice(self.world.past))

    def _somebody_idles(self) -> None:
        lease = self._any_lease()
        if lease is not None:
            self.world.take(Idle(lease.id, self.choose.choice([None, self.world.now - 50, self.world.now - 500])))
            if self.choose.random() < _SELDOM:
                self.world.take(OverUse(lease.id), Parkable(lease.id, is_parkable=self.choose.random() < 0.7))

    def _devices_show_use(self) -> None:
        lease = self._any_lease()
        if lease is not None:
            self.world.take(Using(lease.id, Memory.parse(self.choose.choice(["0GiB", "10GiB", "70GiB", "4TiB"]))))

    def _somebody_says_it_is_there(self) -> None:
        """Who is parked speaks up as if it were on its device: an older record, or a lie."""
        leases = [self.world.snapshot.leases[key] for key in sorted(self.world.snapshot.leases)]
        parked = [lease for lease in leases if lease.status is Status.PARKED and not lease.is_session]
        if parked:
            lease = self.choose.choice(parked)
            self.world.take(Returned(lease, lease.epoch, is_resident=True))

    def _an_outage_is_over(self) -> None:
        self.world.take(OutageOver())

    def _share_changes(self) -> None:
        lease = self._any_lease()
        holder = self.world.holders.get(lease.id) if lease is not None else None
        if lease is not None and holder is not None and holder.is_connected:
            self.world.take(ShareChanged(lease.id, Share.parse(self.choose.choice(_SHARES))))
            self.world.acts(holder)

    def _somebody_vanishes(self) -> None:
        holder = self._any_holder(connected=True)
        if holder is not None:
            holder.is_connected = False
            self.world.take(Vanished(holder.told.id))

    def _somebody_returns(self) -> None:
        holder = self._any_holder(connected=False)
        if holder is None:
            return
        if holder.told.status is Status.PARKED and holder.told.is_session and self.choose.random() < 0.3:
            self.world.resumes_alone(holder)
        self.world.reconnect(holder)

    def _somebody_dies(self) -> None:
        holder = self._any_holder(connected=self.choose.random() < 0.7)
        if holder is not None:
            holder.is_dead, holder.is_connected, holder.on_device = True, False, {}
            holder.came_alone = False
            self.world.send(Vanished(holder.told.id, is_dead=True))

    def _crash(self) -> None:
        """The broker is killed; now and then what it finds is a backup of long ago."""
        world = self.world
        is_restored = world.backups and self.choose.random() < 0.2
        world.restart(self.choose.choice(world.backups) if is_restored else None)

    def _admin_does(self) -> None:
        world, lease = self.world, self._any_lease()
        device, host = self.choose.choice(sorted(world.first.devices)), self.choose.choice(sorted(world.first.hosts))
        undo, evacuate = self.choose.random() < 0.6, self.choose.random() < 0.5
        projects = [replace(each, quota=self.choose.choice([each.quota, Fraction.ONE])) for each in _projects(world)]
        wishes: list[Event] = [
            Drained(device=device, by="admin", undo=undo, evacuate=evacuate),
            Drained(host=host, by="admin", undo=undo, evacuate=evacuate),
            ParkingSwitched(is_stopped=not world.snapshot.is_parking_stopped, by="admin"),
            PolicySet(tuple(projects[self.choose.choice([0, 0, 1]) :]), tuple(world.first.pools.values())),
        ]
        if lease is not None:
            wishes.append(Reclaimed(lease.id, by="admin"))
        world.take(self.choose.choice(wishes))

    def _devices_change(self) -> None:
        world = self.world
        name = self.choose.choice(sorted(world.first.hosts))
        there = [device for device in world.first.devices.values() if device.host == name]
        odd = self.choose.choice(there)
        changed = self.choose.choice(
            [
                replace(odd, foreign=Fraction.parse("0.3")),
                replace(odd, trespassed=True),
                odd,
                None,
            ]
        )
        devices = [device for device in (changed if each == odd else each for each in there) if device is not None]
        budget = self.choose.choice([world.first.hosts[name].parking_budget, Memory.parse("60GiB")])
        world.take(Inventory(name, tuple(devices)), HostSeen(replace(world.first.hosts[name], parking_budget=budget)))


def _projects(world: World) -> list[Project]:
    return [world.first.projects[name] for name in sorted(world.first.projects)]


def _beginning(choose: random.Random) -> Snapshot:
    is_class = choose.random() < 0.25
    return books(
        hosts=2,
        per_host=2,
        quotas={"team-a": "2", "team-b": "1", "team-c": "6" if is_class else "1"},
        host_changes={
            "parking_budget": choose.choice([Memory.UNLIMITED, Memory.parse("200GiB"), Memory.parse("100GiB")]),
            "copies": choose.choice([1, 2]),
            "saves": choose.choice([1, 3]),
        },
        resume="best-effort" if is_class else "guaranteed",
        oversubscribe=Fraction.parse("3") if is_class else Fraction.ONE,
        placement=choose.choice(["binpack", "spread"]),
        consolidation=choose.random() < 0.3,
        minimum_turn_s=choose.choice([0.0, 120.0]),
    )


def _is_stuck(snapshot: Snapshot, lease: Lease) -> bool:
    """Whether it should have come back, or settled, by now."""
    if lease.id in snapshot.unsettled:
        is_over_promised = any(promised_excess(snapshot, uuid) for uuid in lease.devices)
        pools = {snapshot.devices[uuid].pool for uuid in lease.devices if uuid in snapshot.devices}
        takes_turns = any(snapshot.pools[pool].resume == "best-effort" for pool in pools)
        return not is_over_promised and not (takes_turns and lease.status is Status.PARKED)
    return False
