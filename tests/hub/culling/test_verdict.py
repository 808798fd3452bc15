"""Whether a server is stopped: a table of everything that there is, and what may never happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.broker.cull_policy import CullPolicy, Limits
from jupyter_gpushare.hub.culling.verdict import UNKNOWN, Due, ServerSight, ShareSight, Why, due, verdict

NOW = 1_800_000_000.0
HOUR = 3600.0
LIMITS = Limits(stop_after_s=12 * HOUR, stop_parked_after_s=72 * HOUR, max_age_s=240 * HOUR, warning_s=600.0)
READY = ServerSight(is_pending=False, is_ready=True, active=NOW - 60, started=NOW - 100 * HOUR)


def server(**changes: Any) -> ServerSight:
    """A ready server, active a minute ago, but for *changes*."""
    return READY._replace(**changes)


def share(status: str = "running", idle_h: float | None = 0.0, **more: Any) -> ShareSight:
    """A share whose session speaks, and warned an hour ago."""
    idle_since = None if idle_h is None else NOW - idle_h * HOUR
    usual: dict[str, Any] = {"speaks": True, "idle_since": idle_since, "warned_since": NOW - HOUR}
    return ShareSight(status, NOW - 90 * HOUR, **{**usual, **more})


def silent(status: str) -> ShareSight:
    """A share whose session gives no evidence."""
    return ShareSight(status, NOW - 90 * HOUR)


OLD, LONG_AGO = NOW - 241 * HOUR, NOW - 200 * HOUR

# What it is about, the server, its share, its limits, and the verdict.
TABLE = [
    ("it starts", server(is_pending=True, active=LONG_AGO), None, LIMITS, Why.PENDING),
    ("it stops, and is too old", server(is_pending=True, started=OLD), share(), LIMITS, Why.PENDING),
    ("it does not answer", server(is_ready=False, active=LONG_AGO), None, LIMITS, Why.NOT_READY),
    ("the broker is away", server(active=LONG_AGO, started=OLD), UNKNOWN, LIMITS, Why.NO_EVIDENCE),
    # No share: the hub's word is all there is.
    ("no share, active", server(), None, LIMITS, Why.NOT_YET),
    ("no share, idle", server(active=NOW - 12 * HOUR), None, LIMITS, Why.IDLE),
    ("no share, idle for a moment less", server(active=NOW - 12 * HOUR + 1), None, LIMITS, Why.NOT_YET),
    ("no share, never active, started long ago", server(active=None), None, LIMITS, Why.IDLE),
    ("no share, nothing known", server(active=None, started=None), None, LIMITS, Why.NO_EVIDENCE),
    ("no share, no limit", server(active=LONG_AGO), None, Limits(), Why.NO_LIMIT),
    ("no share, too old", server(started=OLD), None, LIMITS, Why.TOO_OLD),
    ("its share is over", server(active=NOW - 13 * HOUR), silent("ended"), LIMITS, Why.IDLE),
    # A session that speaks: its word alone counts.
    ("a tab is open, and nobody used it", server(), share(idle_h=13), LIMITS, Why.IDLE),
    ("a silent cell computes", server(active=LONG_AGO), share(idle_h=None), LIMITS, Why.IN_USE),
    ("idle, and not long enough", server(active=LONG_AGO), share(idle_h=11), LIMITS, Why.NOT_YET),
    ("kept", server(active=LONG_AGO), share(idle_h=20, kept_until=NOW + 60), LIMITS, Why.NOT_YET),
    ("its lock has just ended", server(), share(idle_h=20, kept_until=NOW - 60), LIMITS, Why.NOT_YET),
    ("its lock ended a warning ago", server(), share(idle_h=20, kept_until=NOW - 601), LIMITS, Why.IDLE),
    ("nobody was warned", server(), share(idle_h=20, warned_since=None), LIMITS, Why.WARNING),
    ("the warning runs", server(), share(idle_h=20, warned_since=NOW - 599), LIMITS, Why.WARNING),
    ("the warning is over", server(), share(idle_h=20, warned_since=NOW - 600), LIMITS, Why.IDLE),
    ("parked, for less than its own limit", server(active=LONG_AGO), share("parked", 71), LIMITS, Why.NOT_YET),
    ("parked, for its own limit", server(), share("parked", 72), LIMITS, Why.PARKED_TOO_LONG),
    ("parked, without a limit of its own", server(active=LONG_AGO), share("parked", 99), Limits(stop_after_s=1), Why.NO_LIMIT),
    ("nothing is ever stopped", server(active=LONG_AGO), share(idle_h=99), Limits(), Why.NO_LIMIT),
    ("on its way to the host", server(started=OLD), share("parking", 99), LIMITS, Why.MOVING),
    ("on its way back", server(started=OLD), share("resuming", 99), LIMITS, Why.MOVING),
    ("waits for its share", server(active=LONG_AGO, started=OLD), share("queued", 99), LIMITS, Why.MOVING),
    ("used, and too old", server(started=OLD), share(idle_h=None), LIMITS, Why.TOO_OLD),
    ("too old, kept", server(started=OLD), share(idle_h=None, kept_until=NOW + HOUR), LIMITS, Why.TOO_OLD),
    ("too old, not warned", server(started=OLD), share(idle_h=None, warned_since=None), LIMITS, Why.WARNING),
    # One that gives no evidence.
    ("an older session", server(active=LONG_AGO), silent("running"), LIMITS, Why.NO_EVIDENCE),
    ("an older session, parked", server(active=LONG_AGO), silent("parked"), LIMITS, Why.NO_EVIDENCE),
    ("it has vanished", server(active=LONG_AGO), silent("missing"), LIMITS, Why.NO_EVIDENCE),
    ("an older session, too old", server(started=OLD), silent("running"), LIMITS, Why.TOO_OLD),
    ("no session of ours, such as RStudio", server(active=NOW - 13 * HOUR), silent("granted"), LIMITS, Why.IDLE),
    ("the same, active", server(), silent("granted"), LIMITS, Why.NOT_YET),
]  # fmt: skip
STOPS = {Why.IDLE, Why.PARKED_TOO_LONG, Why.TOO_OLD}


@pytest.mark.parametrize(("sight", "its_share", "limits", "why"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE])
def test_every_kind_of_server(sight: ServerSight, its_share: ShareSight | None, limits: Limits, why: Why) -> None:
    """Each gets the verdict that the table says, and is stopped for a reason to stop and for no other."""
    found = verdict(sight, its_share, limits, NOW)
    assert (found.why, found.stops) == (why, why in STOPS)


def test_the_table_knows_every_reason() -> None:
    """There is no reason that no server ever has."""
    assert {row[4] for row in TABLE} == set(Why)


def test_what_comes_first_is_what_people_are_told() -> None:
    """A server that is idle and old is announced for what stops it sooner."""
    started = NOW - 239 * HOUR
    assert due(share(idle_h=1), LIMITS, started) == Due(started + 240 * HOUR, Why.TOO_OLD)
    assert due(share(idle_h=11.5), LIMITS, started) == Due(NOW + HOUR / 2, Why.IDLE)
    assert due(share("parked", 71.5), LIMITS, started) == Due(NOW + HOUR / 2, Why.PARKED_TOO_LONG)
    assert due(share(idle_h=None), LIMITS, None) is None


def seconds(most: float = 1e6) -> st.SearchStrategy[float | None]:
    """A length of time, or none."""
    return st.none() | st.floats(0, most)


def ago(most: float = 1e6) -> st.SearchStrategy[float | None]:
    """A moment of the past, or none."""
    return seconds(most).map(lambda length: None if length is None else NOW - length)


SHARES = st.builds(
    ShareSight,
    st.sampled_from(["queued", "granted", "running", "parking", "parked", "resuming", "yielding", "missing", "ended"]),
    st.just(NOW - 1e6),
    st.booleans(),
    ago(),
    st.none() | st.floats(NOW - 1e4, NOW + 1e4),
    ago(2000),
)
SERVERS = st.builds(ServerSight, st.booleans(), st.booleans(), ago(), ago())
ALL_LIMITS = st.builds(
    Limits, stop_after_s=seconds(), stop_parked_after_s=seconds(), max_age_s=seconds(), warning_s=st.floats(1, 1000)
).map(Limits.settled)


@given(SERVERS, SHARES, ALL_LIMITS)
def test_nothing_is_stopped_on_less_than_evidence(sight: ServerSight, its_share: ShareSight, limits: Limits) -> None:
    """Whatever is known: a session that speaks is stopped only when it says that it is idle, and had its warning."""
    stops, why = verdict(sight, its_share, limits, NOW)
    if not stops:
        return
    assert sight.is_ready
    assert not sight.is_pending
    assert its_share.status not in ("queued", "parking", "resuming", "yielding")
    if its_share.speaks and its_share.status != "ended":
        assert its_share.warned_since is not None
        assert NOW - its_share.warned_since >= limits.warning_s
        if why is not Why.TOO_OLD:
            assert its_share.idle_since is not None
            assert its_share.kept_until is None or its_share.kept_until + limits.warning_s <= NOW


@given(SERVERS, SHARES, ALL_LIMITS)
def test_what_is_parked_is_never_stopped_sooner(sight: ServerSight, its_share: ShareSight, limits: Limits) -> None:
    """Whoever parked what it holds is not punished for it."""
    parked, running = (replace(its_share, status=status, speaks=True) for status in ("parked", "running"))
    if verdict(sight, parked, limits, NOW).why is Why.PARKED_TOO_LONG:
        assert limits.stop_after_s is None or verdict(sight, running, limits, NOW).stops


def test_the_stronger_word_holds() -> None:
    """A profile's limits go before a pool's, those before everybody's, and a foreign culler's timeout comes last."""
    policy = CullPolicy(
        Limits(stop_after_s=100.0, max_age_s=9.0),
        {"class": {"stop_after_s": 50.0, "park_after_s": 5.0}},
        {"0.25": {"stop_after_s": None}},
    )
    assert policy.limits().stop_after_s == 100
    assert policy.limits("class").stop_after_s == 50
    assert policy.limits("class", "0.25", 3600).stop_after_s is None
    assert policy.limits("class", "0.25").park_after_s == 5
    assert policy.limits("class", "0.25").max_age_s == 9
    assert CullPolicy().limits("class", "1", 3600).stop_after_s == 3600
    assert policy.limits("elsewhere", "1", 3600).stop_after_s == 100
