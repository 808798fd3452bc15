"""What the process beside a killed `run` does: ends its job, and speaks for its lease until that is over.

So what it ends is announced to the broker beforehand and becomes a line of the audit, as everything that `run` itself
ends. A broker that is away meanwhile hears of it afterwards.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.wire import ClaimModel, ProcessModel
from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.training.child import end_all, marked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_gpushare.broker.client import Holding

__all__ = ["Trust", "execute"]

_LOOK_S: Final = 0.1
_HEARS_WITHIN_S: Final = 2.0
_GONE_WITHIN_S: Final = 10.0
#: For so long a broker that is away is told what it has missed; nobody waits for that.
_TOLD_WITHIN_S: Final = 600.0
_TRIES_AFTER_S: Final = 1.0


class Trust(msgspec.Struct, frozen=True):
    """With what one speaks for a lease: where the broker is, the *claim*, and the *token* of this lease alone.

    Nobody gets another lease with it, should this one be over.
    """

    url: str
    socket: str
    token: str
    claim: ClaimModel


def execute(mark: str, grace_s: float, trust: bytes) -> None:
    """End what carries *mark* in its environment: SIGTERM, *grace_s* seconds, and then the end.

    *trust* is a `Trust` as JSON; empty where there was no lease.
    """
    if marked(mark):
        asyncio.run(_execute(mark, grace_s, trust))


async def _execute(mark: str, grace_s: float, trust: bytes) -> None:
    _say(f"`jupyter gpushare run` was killed. Its job gets SIGTERM and has {grace_s:g} s to save its work.")
    end_all(marked(mark), signal.SIGTERM)
    end_all(marked(mark), signal.SIGCONT)  # one that is stopped hears nothing else
    speaker = _speaker(trust, marked(mark))
    await _within(grace_s, lambda: not marked(mark))
    family = marked(mark)
    if family:
        _say(f"The job still runs after its grace and is ended. loss: {Loss.JOB_STOPPED_AFTER_GRACE.value}")
        await _announce(speaker, family)
        end_all(family, signal.SIGKILL)
        await _within(_GONE_WITHIN_S, lambda: not marked(mark))
    if speaker is not None:
        await _within(_TOLD_WITHIN_S if family else 0.0, lambda: _is_heard(speaker))
        await speaker.end()


def _speaker(trust: bytes, family: Collection[int]) -> Holding | None:
    """Holds the lease in the place of `run`; None where that had none."""
    try:
        known = msgspec.json.decode(trust, type=Trust)
    except msgspec.DecodeError:  # none, or half of one: `run` was killed while it wrote
        return None
    client = BrokerClient(Endpoint(known.url, known.socket, known.token), pauses=Pauses(last_s=_TRIES_AFTER_S))
    processes = [found for pid in (os.getpid(), *sorted(family)) if (found := identify(pid)) is not None]
    return client.hold(known.claim, [ProcessModel(each.pid, each.start) for each in processes])


async def _announce(speaker: Holding | None, family: Collection[int]) -> None:
    if speaker is not None:
        await _within(_HEARS_WITHIN_S, lambda: _is_heard(speaker))
        speaker.announce(Loss.JOB_STOPPED_AFTER_GRACE.value, " ".join(map(str, sorted(family))))


def _is_heard(speaker: Holding) -> bool:
    """Whether the broker hears it, or never will."""
    return speaker.is_over or (speaker.connected and speaker.lease is not None)


async def _within(at_most_s: float, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + at_most_s
    while not holds() and time.monotonic() < deadline:  # noqa: ASYNC110  # processes of others end without a word
        await asyncio.sleep(_LOOK_S)


def _say(text: str) -> None:
    with suppress(OSError):  # whoever read it is gone, too
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
