"""Whether a server is to be stopped: one pure function, for the idle culler's hook, for our own rounds, for warnings.

Times are seconds since the epoch, lengths are seconds. The clock is passed in.

The idle culler's hook and our own rounds ask the same function, so that a hub may change from one to the other.

A server whose notebook side is ours gives evidence itself: since when nobody and nothing has used it, by cells, CPU
time, GPU, terminals and saved files. That alone counts then, not the hub's ``last_activity``, which an open tab keeps
fresh through most proxies, and which a cell that computes silently does not. Nothing is stopped on less than sufficient
evidence, and no server that can show a warning without the whole of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from jupyter_gpushare.broker.cull_policy import Limits

__all__ = ["UNKNOWN", "Due", "ServerSight", "ShareSight", "Verdict", "Why", "due", "verdict"]


class Why(StrEnum):
    """Why a server goes on, or is stopped."""

    #: Goes on: the hub starts or stops it right now.
    PENDING = "PENDING"
    #: Goes on: the hub has not seen it answer.
    NOT_READY = "NOT_READY"
    #: Goes on: who would know whether it is used does not say so.
    NO_EVIDENCE = "NO_EVIDENCE"
    #: Goes on: its GPU state is on the move, or it waits for its share.
    MOVING = "MOVING"
    #: Goes on: it is used.
    IN_USE = "IN_USE"
    #: Goes on: no limit is set.
    NO_LIMIT = "NO_LIMIT"
    #: Goes on: its limit is not reached.
    NOT_YET = "NOT_YET"
    #: Goes on: its person has not had the whole warning.
    WARNING = "WARNING"
    #: Is stopped: idle for longer than its limit.
    IDLE = "IDLE"
    #: Is stopped: idle for longer than the limit of what is parked.
    PARKED_TOO_LONG = "PARKED_TOO_LONG"
    #: Is stopped: as old as a server may be.
    TOO_OLD = "TOO_OLD"


class Verdict(NamedTuple):
    """Whether a server is stopped now, and why or why not."""

    stops: bool
    why: Why


class Due(NamedTuple):
    """When a server would be stopped if nothing changed, its warning not counted, and why."""

    at: float
    why: Why


class ServerSight(NamedTuple):  # of which thousands are made at a time
    """A server as the hub shows it.

    Attributes:
        is_pending: whether the hub starts or stops it.
        is_ready: whether the hub has seen it answer.
        active: when it was last active, as the hub knows; None where it does not say.
        started: when it started; None where the hub does not say.
    """

    is_pending: bool
    is_ready: bool
    active: float | None
    started: float | None


@dataclass(frozen=True, slots=True)
class ShareSight:
    """A server's GPU share as the broker shows it.

    Attributes:
        status: of its lease; ``none`` of a server without a share that gives evidence all the same.
        since: when that began.
        speaks: whether a notebook side of ours gives evidence.
        idle_since: since when, by that evidence, nobody and nothing has used the server; None while somebody does, and
            where that cannot be told.
        kept_until: until when its person keeps it.
        warned_since: since when its person has been shown that it will be stopped; None while nothing is shown.
    """

    status: str
    since: float
    speaks: bool = False
    idle_since: float | None = None
    kept_until: float | None = None
    warned_since: float | None = None


#: A server of which nobody could say whether it has a share: the broker was not to be reached.
UNKNOWN: Final = ShareSight("unknown", 0.0)

#: Stopping one of these would cut a copy short, or end what somebody waits for.
_MOVING: Final = frozenset({"queued", "parking", "resuming", "yielding"})
_OVER: Final = frozenset({"ended", "failed"})
_GOES_ON: Final = {why: Verdict(stops=False, why=why) for why in Why}
_STOPS: Final = {why: Verdict(stops=True, why=why) for why in Why}


def verdict(server: ServerSight, share: ShareSight | None, limits: Limits, now: float) -> Verdict:
    """Whether *server* is stopped *now*.

    Args:
        server: as the hub shows it.
        share: its GPU share; None where it has none, `UNKNOWN` where nobody could be asked.
        limits: what the admin wants of such servers.
        now: when.
    """
    untouchable = _untouchable(server, share)
    if untouchable is not None:
        return _GOES_ON[untouchable]
    if share is None or share.status in _OVER:
        return _by_the_hub(server, limits, now)
    return _by_its_word(server, share, limits, now) if share.speaks else _silent(server, share, limits, now)


def due(share: ShareSight, limits: Limits, started: float | None) -> Due | None:
    """When the server of a *share* that speaks would be stopped if nothing changed; None for never.

    Args:
        share: its GPU share.
        limits: what the admin wants of such servers.
        started: when the server started; None where nobody knows.
    """
    by_age = None if started is None or limits.max_age_s is None else Due(started + limits.max_age_s, Why.TOO_OLD)
    by_idleness = _due_by_idleness(share, limits)
    if by_age is None or by_idleness is None:
        return by_age or by_idleness
    return min(by_age, by_idleness)


def _due_by_idleness(share: ShareSight, limits: Limits) -> Due | None:
    is_parked = share.status == "parked"
    limit_s = limits.stop_parked_after_s if is_parked else limits.stop_after_s
    if share.idle_since is None or limit_s is None:
        return None
    # A lock that ends has a warning of its own after it.
    kept = 0.0 if share.kept_until is None else share.kept_until + limits.warning_s
    return Due(max(share.idle_since + limit_s, kept), Why.PARKED_TOO_LONG if is_parked else Why.IDLE)


def _untouchable(server: ServerSight, share: ShareSight | None) -> Why | None:
    """Why nothing is judged here at all, whatever its age."""
    if server.is_pending:
        return Why.PENDING
    if not server.is_ready:
        return Why.NOT_READY
    if share is UNKNOWN:
        return Why.NO_EVIDENCE
    return Why.MOVING if share is not None and share.status in _MOVING else None


def _silent(server: ServerSight, share: ShareSight, limits: Limits, now: float) -> Verdict:
    """It has a share, and gives no evidence."""
    if _is_too_old(server, limits, now):
        return _STOPS[Why.TOO_OLD]
    # One that never said hello runs something else than our notebook side: then the hub's word is all there is. One
    # that said hello and is silent is of another version, or has vanished: that is not enough to stop it.
    return _by_the_hub(server, limits, now) if share.status == "granted" else _GOES_ON[Why.NO_EVIDENCE]


def _by_its_word(server: ServerSight, share: ShareSight, limits: Limits, now: float) -> Verdict:
    when = due(share, limits, server.started)
    if when is None or now < when.at:
        return _GOES_ON[_why_not(share, limits, when)]
    if share.warned_since is None or now < share.warned_since + limits.warning_s:
        return _GOES_ON[Why.WARNING]
    return _STOPS[when.why]


def _why_not(share: ShareSight, limits: Limits, when: Due | None) -> Why:
    if limits.stops_nothing:
        return Why.NO_LIMIT
    if share.idle_since is None:
        return Why.IN_USE
    return Why.NO_LIMIT if when is None else Why.NOT_YET


def _by_the_hub(server: ServerSight, limits: Limits, now: float) -> Verdict:
    """Where there is no other evidence than when the hub last saw it active."""
    if _is_too_old(server, limits, now):
        return _STOPS[Why.TOO_OLD]
    if limits.stop_after_s is None:
        return _GOES_ON[Why.NO_LIMIT]
    active = server.started if server.active is None else server.active
    if active is None:
        return _GOES_ON[Why.NO_EVIDENCE]
    return _STOPS[Why.IDLE] if now - active >= limits.stop_after_s else _GOES_ON[Why.NOT_YET]


def _is_too_old(server: ServerSight, limits: Limits, now: float) -> bool:
    return limits.max_age_s is not None and server.started is not None and now - server.started >= limits.max_age_s
