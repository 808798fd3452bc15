"""What a job does while no broker answers: it goes on, and gives back what is lent to it when the lender asks."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from jupyter_gpushare.broker.job_socket import LONGEST_LINE, YieldAnswer, YieldRequest
from jupyter_gpushare.broker.places import private_directory
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.training.safe_points import peer

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = ["Alone", "Deputy", "listen"]

#: For so long a broker that restarts is waited for before the lender's own word counts.
AWAY_S: Final = 10.0
_GRACE_S: Final = 30.0
_LONGEST_WAIT_S: Final = 600.0
_LOOK_S: Final = 0.1


class Deputy(Protocol):
    """The supervisor, as those see it who ask in the broker's place."""

    def call(self, request: YieldRequest) -> YieldAnswer | None:
        """Begin to give back what is asked for: None; or the refusal."""

    @property
    def has_left(self) -> bool:
        """Whether nothing of the job is on its devices."""


class Alone:
    """Whether the lender called while the broker was away, and until when the job has time.

    Args:
        away_s: for how long the broker must have been away.
        grace_s: what the job gets to save its work.
    """

    def __init__(self, *, away_s: float = AWAY_S, grace_s: float | None = None) -> None:
        self._away_s = away_s
        self._grace_s = _GRACE_S if grace_s is None else grace_s
        self._deadline: float | None = None

    @property
    def is_called(self) -> bool:
        """Whether the job is to leave, on the lender's own word."""
        return self._deadline is not None

    def call(self, request: YieldRequest, lease: LeaseModel | None, away_since: float | None) -> YieldAnswer | None:
        """Take a call: None; or the refusal. *away_since* is None while the broker answers."""
        if away_since is None:
            return _refusal("The broker answers: it decides.")
        if lease is None or Fraction.parse(lease.lent) == Fraction.ZERO:
            return _refusal("Nothing is lent to this job.")
        if {grant.device for grant in lease.grants}.isdisjoint(request.devices):
            return _refusal("This job is on none of these devices.")
        if (left_s := away_since + self._away_s - time.time()) > 0:
            return _refusal("The broker answered a moment ago: it is waited for.", left_s)
        if self._deadline is None:
            self._deadline = time.time() + self._grace_s
        return None

    def forget(self) -> None:
        """The broker decides again."""
        self._deadline = None

    def seen(self, lease: LeaseModel, *, can_park: bool) -> LeaseModel:
        """*lease* as the broker would tell it now; as it is while nobody calls, or once it has left."""
        if self._deadline is None or lease.status not in ("granted", "running"):
            return lease
        status = "parking" if can_park else "yielding"
        return msgspec.structs.replace(lease, status=status, deadline=self._deadline)


async def listen(deputy: Deputy, directory: Path, name: str) -> asyncio.Server:
    """Answer on the socket *name* in *directory*, which is made for this user alone.

    Raises:
        OSError: the directory or the socket cannot be had.
    """
    await asyncio.to_thread(private_directory, directory)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, msgspec.DecodeError):
            if peer(writer):
                request = msgspec.json.decode(await reader.readline(), type=YieldRequest)
                writer.write(msgspec.json.encode(await _answer(deputy, request)) + b"\n")
                await writer.drain()
        writer.close()

    return await asyncio.start_unix_server(serve, directory / name, limit=LONGEST_LINE)


async def _answer(deputy: Deputy, request: YieldRequest) -> YieldAnswer:
    if (refusal := deputy.call(request)) is not None:
        return refusal
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while not deputy.has_left:
        if time.monotonic() > deadline:
            return _refusal("The job did not leave in time.")
        await asyncio.sleep(_LOOK_S)
    return YieldAnswer(released=True)


def _refusal(why: str, again_s: float = 0.0) -> YieldAnswer:
    return YieldAnswer(released=False, why=why, again_s=again_s)
