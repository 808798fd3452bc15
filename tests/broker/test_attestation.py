"""Who has left its devices: what is believed of an empty list, and when."""

from __future__ import annotations

import os

import pytest

from jupyter_gpushare.broker.attestation import Attestations
from jupyter_gpushare.broker.roster import Roster
from jupyter_gpushare.broker.sighting import Sighting
from jupyter_gpushare.devices.device import Driver, DriverState
from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.event import Attested
from jupyter_gpushare.rules.lease import Lease, Status
from tests.rules.builders import books, running, session

_LONG_ENOUGH_S = 60
_LAG_S = 1


class Looks:
    """Looks at a device, where a holder that lives is missing."""

    def __init__(self) -> None:
        self.now = 0.0
        roster = Roster(None)
        roster.put("a", [myself()], os.getuid())
        self._attestations = Attestations(roster, lambda: self.now)

    def gone(self, lease: Lease, after_s: float, *, holds: bool = False) -> list[Attested]:
        """What is attested of *lease* so much later."""
        self.now += after_s
        held = {lease.id: {"h1-0": 1 << 30}} if holds else {}
        seen = Sighting(self.now, Driver("simulated", DriverState.READY), (), frozenset({"h1-0"}), held)
        return list(self._attestations.events(seen, books(lease)))


def missing(was: Status, since: float = 0.0, host_memory: Memory = Memory.ZERO) -> Lease:
    """A session that was just to start, to come back, or ran."""
    return running(session("a", "0.5"), "h1-0", status=Status.MISSING, was=was, since=since, host_memory=host_memory)


@pytest.mark.parametrize("was", [Status.GRANTED, Status.RESUMING])
def test_who_was_told_to_begin_is_gone_when_it_would_have_to_ask_again(was: Status) -> None:
    """A holder that was stopped right after its grant (Ctrl-Z) and lives keeps its device closed for a minute only."""
    looks, lease = Looks(), missing(was)
    assert not looks.gone(lease, 0)
    assert not looks.gone(lease, _LONG_ENOUGH_S - 1)
    assert not looks.gone(lease, 1)  # the driver's list may lag
    assert looks.gone(lease, _LAG_S) == [Attested("a", lease.epoch)]


def test_a_copy_has_its_time_besides() -> None:
    """What began to come back in time may be on its way for as long as its memory takes."""
    looks, lease = Looks(), missing(Status.RESUMING, host_memory=Memory(40 * 10**9))
    looks.gone(lease, 0)
    assert not looks.gone(lease, _LONG_ENOUGH_S)
    assert not looks.gone(lease, 39)
    looks.gone(lease, 1)
    assert looks.gone(lease, _LAG_S)


def test_what_is_on_the_device_is_not_gone_however_long_nobody_heard_of_it() -> None:
    """The time is only for what does not show: the device has the last word."""
    looks, lease = Looks(), missing(Status.GRANTED)
    for _ in range(10):
        assert not looks.gone(lease, 3600, holds=True)


def test_who_was_back_meanwhile_has_its_time_again() -> None:
    """A holder that returned, and is missing a second time, may be about to begin once more."""
    looks = Looks()
    looks.gone(missing(Status.GRANTED), 0)
    again = missing(Status.GRANTED, since=50.0)
    looks.gone(again, _LONG_ENOUGH_S)
    assert not looks.gone(again, _LONG_ENOUGH_S - 1)


def test_who_ran_is_gone_when_nothing_shows() -> None:
    """It was to begin nothing: only the driver's lag is waited for."""
    looks, lease = Looks(), missing(Status.RUNNING)
    looks.gone(lease, 0)
    assert looks.gone(lease, _LAG_S) == [Attested("a", lease.epoch)]
