"""What became of starts, counted for Prometheus: on the hub's own page of metrics, without anybody's name."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from prometheus_client import Counter

__all__ = ["Outcome", "count"]


class Outcome(StrEnum):
    """One for each way in which a start, or the end of a server, can go on."""

    GRANTED = "granted"
    NO_GPU = "no_gpu"
    #: Asked for something that the hub does not offer.
    NOT_OFFERED = "not_offered"
    #: The broker says that waiting would not help.
    REFUSED = "refused"
    #: There is no room now.
    WAITS = "waits"
    #: The broker was away, and the start was refused.
    AWAY_CLOSED = "away_closed"
    #: The broker was away, and the server started without a share.
    AWAY_OPEN = "away_open"
    #: `setup_gpushare` was not called last.
    WRONG_SET_UP = "wrong_set_up"
    #: A server is gone and its lease could not be ended now.
    NOT_ENDED = "not_ended"


_STARTS: Final = Counter("gpushare_hub_starts", "Starts of servers, by what became of them.", ["outcome"])
for _outcome in Outcome:
    # A counter that appears with its first start would hide that very start from an alert.
    _STARTS.labels(outcome=_outcome.value)


def count(outcome: Outcome) -> None:
    """Count one more."""
    _STARTS.labels(outcome=outcome.value).inc()
