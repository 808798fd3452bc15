"""Books to which one thing happens after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.event import Attested, Running, TimePassed, Wanted
from jupyter_gpushare.rules.invariants import mistakes
from jupyter_gpushare.rules.step import step
from tests.rules.builders import NOW

if TYPE_CHECKING:
    from jupyter_gpushare.rules.change import Change, Verb
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.lease import Lease, Target
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Story"]


class Story:
    """What the books say after each event. *change* is what the last one altered."""

    def __init__(self, snapshot: Snapshot, now: float = NOW) -> None:
        self.snapshot = snapshot
        self.now = now
        self.change: Change
        self.look_again: float | None = None

    def then(self, *events: Event, after: float = 1.0) -> Change:
        """*events* happen together, *after* seconds later; whatever they are, the books stay sound."""
        self.now += after
        done = step(self.snapshot, events, self.now)
        assert not list(map(str, mistakes(done.snapshot)))
        self.snapshot, self.change, self.look_again = done.snapshot, done.change, done.look_again
        return done.change

    def lease(self, key: str) -> Lease:
        """The lease as it is now; as it ended, if that was the last thing to happen."""
        return self.snapshot.leases.get(key) or self.change.leases[key]

    def status(self, *keys: str) -> list[str]:
        """The statuses of these leases."""
        return [self.lease(key).status.value for key in keys]

    def verbs(self, key: str = "") -> list[Verb]:
        """What the audit says of the last event, of one lease or of all."""
        return [line.verb for line in self.change.audit if key in ("", line.lease)]

    def passes(self, seconds: float) -> None:
        """Nothing happens but time."""
        self.then(TimePassed(), after=seconds)

    def wants(self, key: str, target: Target) -> None:
        """Its holder wants it elsewhere."""
        self.then(Wanted(key, target))

    def obeys(self, *keys: str) -> None:
        """Their holders do what is asked, and the device shows it."""
        for key in keys:
            lease = self.lease(key)
            if lease.status.value in ("granted", "resuming"):
                self.then(Running(key, lease.epoch))
            elif lease.status.value in ("parking", "yielding"):
                self.then(Attested(key, lease.epoch))
