"""What a service knows, made by hand: for cullers that are told it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.broker.cull_policy import CullPolicy, Limits
from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.culling.verdict import ShareSight
from jupyter_gpushare.hub.culling.wire import Evidence, KnownShare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.hub.culling.wire import Stop

HOUR = 3600.0
POLICY = CullPolicy(Limits(stop_after_s=HOUR, stop_parked_after_s=24 * HOUR, max_age_s=100 * HOUR, warning_s=600.0))


@dataclass
class Known:
    """A source of evidence.

    Attributes:
        at: the moment that it speaks of.
        policy: what the admin wants.
        shares: by the name of the claim.
        is_away: whether nobody can be asked.
        objects: whose servers must go on when they are announced, ``person/server``.
        announced: what was announced.
        asked: how often evidence was asked for.
    """

    at: float
    policy: CullPolicy = POLICY
    shares: dict[str, KnownShare] = field(default_factory=dict)
    is_away: bool = False
    objects: set[str] = field(default_factory=set)
    announced: list[Stop] = field(default_factory=list)
    asked: int = 0

    def add(self, person: str, name: str, status: str, idle_h: float | None, **more: Any) -> None:
        """A share whose session speaks and warned an hour ago, unless *more* says otherwise."""
        idle_since = None if idle_h is None else self.at - idle_h * HOUR
        usual = {"speaks": True, "idle_since": idle_since, "warned_since": self.at - HOUR}
        sight = ShareSight(status, self.at - 50 * HOUR, **{**usual, **more})
        self.shares[claim_key(person, name)] = KnownShare(person, sight, "default", "0.5")

    async def evidence(self) -> Evidence | None:
        """As a service would answer."""
        self.asked += 1
        return None if self.is_away else Evidence(self.at, self.policy, self.shares)

    async def announce(self, stops: Sequence[Stop]) -> Mapping[Stop, str]:
        """As a service would answer."""
        self.announced += stops
        return {stop: "KEPT" for stop in stops if f"{stop.person}/{stop.server}" in self.objects}
