"""The part of `broker.client.Holding` that a job needs of its lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.broker.client import BrokerError
    from jupyter_gpushare.broker.wire import LeaseModel, LeaseStatus, ProcessModel

__all__ = ["Held", "may_begin"]

#: For so long after the connection was lost what the broker told last may still be begun. It counts on no longer.
_STILL_TOLD_S: Final = 10.0


class Held(Protocol):
    """A lease, as the broker told it last, and what is said of it."""

    @property
    def lease(self) -> LeaseModel | None:
        """The lease as the broker told it last."""

    @property
    def refusal(self) -> BrokerError | None:
        """Why the claim was refused for good."""

    @property
    def connected(self) -> bool:
        """Whether the broker hears us now."""

    @property
    def since(self) -> float:
        """Since when that is so, in seconds since the epoch."""

    @property
    def has_given_up(self) -> bool:
        """Whether it was said that what the lease asks for could not be done, and the lease has not moved since."""

    def acted_alone(self, status: LeaseStatus, memory: int = 0) -> None:
        """While the broker is away, it is there now, with so many bytes in host memory."""

    def did(self, what: Literal["running", "released"], epoch: int) -> None:
        """It was done."""

    def could_not(self, epoch: int, code: str, text: str) -> None:
        """It could not be done."""

    def announce(self, loss: str, processes: str) -> None:
        """Processes of the holder are about to be ended."""

    def report(self, memory: int | None, computed_s: float | None) -> None:
        """What is used now."""

    def set_processes(self, processes: Sequence[ProcessModel], *, is_parkable: bool | None = None) -> None:
        """Whose memory it is."""

    async def end(self) -> None:
        """Give it back for good."""


def may_begin(held: Held, now: float) -> bool:
    """Whether the job may start or restore on what it was given; *now* in seconds since the epoch.

    After longer without being heard it has to ask again first: the broker may have given it to somebody else.
    """
    return held.connected or now - held.since <= _STILL_TOLD_S
