"""What a holder has said and the broker has not yet shown to have heard: said again after each reconnect.

The holder's socket is level-triggered, so a wish is kept only until the lease shows it, and repeating one does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from jupyter_gpushare.broker.wire import CouldNotMessage, DidMessage, LossMessage, UsageMessage, WantMessage

if TYPE_CHECKING:
    from jupyter_gpushare.broker.wire import LeaseModel, LeaseTarget, ToBroker

__all__ = ["Wishes"]

_MOST_LOSSES: Final = 100
#: In these the broker waits for a step that its holder may not be able to make.
_ASKED: Final = frozenset({"granted", "resuming", "parking"})


@dataclass(slots=True)
class Wishes:
    """The latest of each kind, None when the lease shows it.

    Attributes:
        given_up: the epoch of a step of which it was said that it could not be made, until the lease shows another one.
    """

    target: WantMessage | None = None
    share: WantMessage | None = None
    did: DidMessage | None = None
    could_not: CouldNotMessage | None = None
    given_up: int | None = None
    losses: list[LossMessage] = field(default_factory=list)
    _computed_s: float = 0.0

    def want(self, target: LeaseTarget, memory: int) -> ToBroker:
        """It is to be elsewhere; *memory* in bytes, for the target parked."""
        self.target = WantMessage(target, memory)
        return self.target

    def want_share(self, share: str) -> ToBroker:
        """It is to have another share."""
        self.share = WantMessage(share=share)
        return self.share

    def has_done(self, what: Literal["running", "released"], epoch: int) -> ToBroker:
        """It was done, with that epoch."""
        self.did, self.could_not = DidMessage(what, epoch), None
        return self.did

    def has_failed(self, epoch: int, code: str, text: str) -> ToBroker:
        """It could not be done."""
        self.could_not, self.did = CouldNotMessage(epoch, code[:64], text[:2000]), None
        self.given_up = epoch
        return self.could_not

    def has_given_up(self, lease: LeaseModel) -> bool:
        """Whether it was said that what *lease* asks for could not be done. Broker and holder then count on that.

        The broker undoes that step whenever it hears so, and gives the next one a new epoch: who made the step after
        all would have its memory elsewhere than the books say.
        """
        return lease.epoch == self.given_up and lease.status in _ASKED

    def announces(self, loss: str, processes: str, *, can_be_sent: bool) -> ToBroker:
        """Processes of its own are about to be ended; kept for the next hello where nobody can be told now."""
        message = LossMessage(loss, processes[:500])
        if not can_be_sent:
            self.losses = [*self.losses, message][-_MOST_LOSSES:]
        return message

    def usage(
        self, memory: int | None, computed_s: float | None, idle_s: float | None, *, can_be_sent: bool
    ) -> UsageMessage | None:
        """What is used now, with what was computed while nobody could be told; None while nobody can."""
        total = self._computed_s + (computed_s or 0.0)
        if not can_be_sent:
            self._computed_s = total
            return None
        self._computed_s = 0.0
        return UsageMessage(memory, None if computed_s is None and not total else min(total, 1e6), idle_s)

    def refused(self) -> None:
        """The broker said no to what was wanted last."""
        self.target = self.share = None

    def begin_anew(self) -> None:
        """The lease is another one: what was done with the one before says nothing of it."""
        self.did = self.could_not = self.given_up = None

    def take(self, lease: LeaseModel) -> None:
        """Forget what *lease* shows to be heard."""
        if self.target is not None and lease.target == self.target.target:
            self.target = None
        if self.did is not None and not _is_awaited(lease, self.did):
            self.did = None
        if not self.has_given_up(lease):
            self.could_not = self.given_up = None

    def unheard(self) -> list[ToBroker]:
        """What is to be said again, in the order in which it was meant."""
        losses, self.losses = self.losses, []
        return [*losses, *(wish for wish in (self.target, self.could_not, self.did, self.share) if wish is not None)]


def _is_awaited(lease: LeaseModel, did: DidMessage) -> bool:
    """Whether the broker still waits for the holder to say just this."""
    awaiting = ("granted", "resuming") if did.what == "running" else ("parking", "yielding")
    return lease.epoch == did.epoch and lease.status in awaiting
