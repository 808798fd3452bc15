"""Runs that take hours are kept one by one, so that an interrupted benchmark goes on where it was."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from benchmarks.replay.run import Conditions, Outcome, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from benchmarks.replay.policy import Policy
    from benchmarks.replay.trace import Session

__all__ = ["kept_replay"]

_DECODER = msgspec.json.Decoder(Outcome)


def kept_replay(
    folder: Path | None,
    sessions: Sequence[Session],
    policy: Policy,
    conditions: Conditions,
    *,
    say: Callable[[str], None],
) -> Outcome:
    """As `replay`, but what *folder* has of the very same run is taken from there, and what is new is kept in it.

    It does not see that the rules have changed: empty the folder then.
    """
    if folder is None:
        return replay(sessions, policy, conditions, say=say)
    path = folder / f"{_key(sessions, policy, conditions)}.json"
    if path.exists():
        say("kept from before")
        return _DECODER.decode(path.read_bytes())
    outcome = replay(sessions, policy, conditions, say=say)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(msgspec.json.encode(outcome))
    unfinished.replace(path)
    return outcome


def _key(sessions: Sequence[Session], policy: Policy, conditions: Conditions) -> str:
    return hashlib.sha256(repr((sessions, policy, conditions)).encode()).hexdigest()[:24]
