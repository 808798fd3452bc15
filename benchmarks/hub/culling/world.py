"""Ten thousand servers as a hub shows them, and what the service knows of those with a share. Made from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from jupyter_gpushare.broker.cull_policy import CullPolicy, Limits
from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.culling.verdict import ShareSight
from jupyter_gpushare.hub.culling.wire import Evidence, KnownShare

__all__ = ["TIMEOUT_S", "Kind", "World"]

#: The idle culler's own timeout here, and ours: an hour.
TIMEOUT_S: Final = 3600
_PARKED_S: Final = 24 * 3600.0
_WARNING_S: Final = 600.0
_VERSION: Final = "6.1.1"

#: *quiet*: nobody is idle. *usual*: one in a hundred is to be stopped, by either culler. *mixed*: one in ten may be
#: anything that there is.
Kind = Literal["quiet", "usual", "mixed"]


@dataclass(frozen=True, slots=True)
class _Case:
    """One kind of server: hours since the hub saw it active, and what is known of its share; None for no share."""

    inactive_h: float
    status: str | None = None
    idle_h: float | None = None
    is_warned: bool = False
    kept_h: float | None = None
    speaks: bool = True


_BUSY: Final = (_Case(0.1), _Case(0.2), _Case(0.1, "running", 0.05), _Case(0.1, "parked", 5.0))
_DUE: Final = (_Case(2.0), _Case(2.0), _Case(2.0), _Case(2.0, "running", 2.0, is_warned=True))
_CASES: Final = (
    *_BUSY,
    *_DUE,
    _Case(0.05, "running", 2.0, is_warned=True),  # a tab is open, and nobody has used it for two hours
    _Case(5.0, "running", None),  # a silent cell computes
    _Case(5.0, "running", 5.0),  # was not warned
    _Case(5.0, "running", 5.0, is_warned=True, kept_h=0.5),
    _Case(5.0, "parked", 5.0, is_warned=True),
    _Case(30.0, "parked", 30.0, is_warned=True),
    _Case(5.0, "resuming", 5.0, is_warned=True),
    _Case(5.0, "running", None, speaks=False),
    _Case(5.0, "missing", None, speaks=False),
    _Case(5.0, "granted", None, speaks=False),
    _Case(0.1, "granted", None, speaks=False),
)


class World:
    """*count* servers.

    Args:
        kind: what they are like.
        count: how many.
        seed: which of them.
    """

    def __init__(self, kind: Kind, count: int, seed: int = 1) -> None:
        self._now = datetime.now(tz=UTC)
        self._at = self._now.timestamp()
        luck = random.Random(seed)  # noqa: S311  # a benchmark's world
        self.users: list[dict[str, Any]] = []
        self._shares: dict[str, KnownShare] = {}
        for number in range(count):
            self._add(f"user-{number:05d}@example.org", _drawn(kind, number, luck))

    @property
    def evidence(self) -> bytes:
        """What the service answers."""
        policy = CullPolicy(Limits(stop_after_s=TIMEOUT_S, stop_parked_after_s=_PARKED_S, warning_s=_WARNING_S))
        return msgspec.json.encode(Evidence(self._at, policy, self._shares))

    def _add(self, name: str, case: _Case) -> None:
        server = self._server(name, case)
        self.users.append(
            {
                "kind": "user", "name": name, "admin": False, "groups": ["team-a"], "roles": ["user"],
                "created": _iso(self._now - timedelta(days=90)), "last_activity": server["last_activity"],
                "server": server["url"], "pending": None, "auth_state": None, "servers": {"": server},
            }
        )  # fmt: skip
        if case.status is not None:
            self._shares[claim_key(name, "")] = KnownShare(name, self._sight(case), "default", "0.5")

    def _server(self, name: str, case: _Case) -> dict[str, Any]:
        path = f"/user/{name.replace('@', '%40')}/"
        return {
            "name": "", "display_name": "", "full_name": f"{name}/",
            "last_activity": _iso(self._now - timedelta(hours=case.inactive_h)),
            "started": _iso(self._now - timedelta(hours=40)), "pending": None, "ready": True, "stopped": False,
            "url": path, "user_options": {"share": "0.5"} if case.status else {"share": ""},
            "progress_url": f"/hub/api/users/{name.replace('@', '%40')}/server/progress",
            "full_url": None, "full_progress_url": None,
        }  # fmt: skip

    def _sight(self, case: _Case) -> ShareSight:
        at = self._at
        return ShareSight(
            case.status or "",
            at - 40 * 3600.0,
            speaks=case.speaks,
            idle_since=None if case.idle_h is None else at - case.idle_h * 3600.0,
            kept_until=None if case.kept_h is None else at + case.kept_h * 3600.0,
            warned_since=at - _WARNING_S - 60.0 if case.is_warned else None,
        )


def _drawn(kind: Kind, number: int, luck: random.Random) -> _Case:
    if kind == "mixed" and number % 10 == 0:
        return luck.choice(_CASES)
    return luck.choice(_DUE if kind == "usual" and number % 100 == 0 else _BUSY[:2] if number % 10 else _BUSY[2:])


def _iso(moment: datetime) -> str:
    """As JupyterHub writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def version() -> dict[str, str]:
    """What the hub says of itself."""
    return {"version": _VERSION}
