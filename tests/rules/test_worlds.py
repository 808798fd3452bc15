"""The world of the histories is as hostile as the real one, and no more: holders have their own proof of room."""

from __future__ import annotations

import random

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.event import Inventory, Vanished, Wanted
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.over_commitment import held_excess
from tests.rules.builders import books, parked, running, session
from tests.rules.checks import check_step
from tests.rules.worlds import Holder, World


def _class(*leases: Lease) -> World:
    """One device, promised up to four times; everybody's holder is there, and what runs is on the device."""
    world = World(
        random.Random(1),  # noqa: S311  # a small world, not a secret
        books(*leases, resume="best-effort", oversubscribe=Fraction.parse("4"), quotas={"team-a": "8"}),
    )
    world.checks.append(check_step)
    for lease in leases:
        holder = world.holders[lease.id] = Holder(lease)
        if lease.status is Status.RUNNING:
            holder.on_device = {grant.device: grant.amount.millionths for grant in lease.grants}
    return world


def _comes_back_alone(world: World, key: str) -> None:
    world.holders[key].is_connected = False
    world.take(Vanished(key))
    world.resumes_alone(world.holders[key])


def test_who_is_told_to_restore_where_somebody_came_back_alone_waits_and_has_its_turn() -> None:
    """No device has more on it than it has, before the broker hears of it or after; and in the end all is in order."""
    world = _class(parked(session("alone", "0.75"), "h1-0"), parked(session("told", "0.5"), "h1-0"))
    _comes_back_alone(world, "alone")
    world.take(Wanted("told", Target.RUNNING))
    told = world.holders["told"]
    world.acts(told)
    assert (told.told.status, told.is_resident, world.used("h1-0")) == (Status.RESUMING, False, 750_000)
    world.reconnect(world.holders["alone"])
    world.settle()
    assert (world.snapshot.leases["told"].status, held_excess(world.snapshot, "h1-0")) == (Status.PARKED, 0)
    world.take(Wanted("alone", Target.PARKED))
    world.settle()
    assert (told.told.status, told.is_resident, world.violations) == (Status.RUNNING, True, [])


def test_nobody_comes_back_alone_without_room_or_without_its_device() -> None:
    """Neither beside one that fills the device, nor on one that has left its host."""
    world = _class(running(session("busy", "0.5"), "h1-0"), parked(session("alone", "0.75"), "h1-0"))
    _comes_back_alone(world, "alone")
    assert world.used("h1-0") == 500_000
    world = _class(parked(session("alone", "0.75"), "h1-0"))
    world.take(Inventory("h1", ()))
    _comes_back_alone(world, "alone")
    assert world.used("h1-0") == 0


def test_what_the_broker_itself_promises_twice_shows_on_the_device() -> None:
    """The proof of room hides no mistake of ours: where nobody came alone, whoever is told to restore goes there."""
    world = _class(running(session("busy", "0.75"), "h1-0"), parked(session("told", "0.5"), "h1-0"))
    told = world.holders["told"]
    told.hears(told.told.evolve(status=Status.RESUMING, target=Target.RUNNING))
    world.acts(told)
    world.take()
    assert any("are really on h1-0" in violation for violation in world.violations)
