"""What notebook servers say of their own use, kept in the service, beside what the books say of their shares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from jupyter_gpushare.hub.claim_key import shown_of
from jupyter_gpushare.hub.culling.heard import Heard, Voices
from jupyter_gpushare.hub.culling.verdict import ServerSight, ShareSight, Verdict, Why, due, verdict
from jupyter_gpushare.hub.culling.wire import Evidence, KnownShare, Outlook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import UnsetType

    from jupyter_gpushare.broker.cull_policy import CullPolicy, Limits
    from jupyter_gpushare.hub.culling.wire import Testimony
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Witnessed", "Witnesses", "is_own"]

_AGAIN_S: Final = 60.0
_AGAIN_WHEN_WARNED_S: Final = 15.0
# Three that did not come: then what was said last is no evidence of now.
_STALE_S: Final = 200.0
_FORGET_S: Final = 3600.0
_LEFT_TO_THE_HUB: Final = frozenset({Why.NO_EVIDENCE, Why.NO_LIMIT, Why.NOT_YET})
# The idle culler asks twice within its timeout.
_ROUNDS: Final = 2.0
#: The status, and the profile, of a server without a share.
_NONE: Final = "none"


def is_own(person: str, key: str) -> bool:
    """Whether *key* is the hub's name for a server of *person*: nobody may speak for somebody else's."""
    return key.startswith(shown_of(person))


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A server that is known here: by its share, by what it says, or by both.

    Attributes:
        person: whose it is.
        key: the hub's name for it.
        sight: what is seen of it.
        pool: of its share; empty without one.
        profile: its share as it is written, or ``none``.
        lease: the id of its lease; empty without a share.
        started: when it started, by its own word; None where it says nothing.
    """

    person: str
    key: str
    sight: ShareSight
    pool: str = ""
    profile: str = _NONE
    lease: str = ""
    started: float | None = None


@dataclass(slots=True)
class Witnesses:
    """For one event loop. Nothing here outlives the service: sessions say it again within a minute, and warn anew.

    Args:
        books: gives the newest books.
        pool_of: the pool that a lease is in.
        now: gives the broker's time, seconds since the epoch.
        policy: gives what the admin wants.
    """

    books: Callable[[], Snapshot]
    pool_of: Callable[[Snapshot, Lease], str]
    now: Callable[[], float]
    policy: Callable[[], CullPolicy]
    _heard: Voices = field(default_factory=Voices)
    _expected: tuple[float, float] | None = None

    def expect(self, stop_after_s: float) -> None:
        """A culler that is somebody else's stops servers after so long, where *policy* does not say. It asks again."""
        self._expected = stop_after_s, self.now() + _ROUNDS * stop_after_s + _STALE_S

    def hear(self, person: str, key: str, said: Testimony, lease: Lease | None = None) -> Outlook:
        """Take what *person*'s server says; what will become of it.

        Args:
            person: whose it is, as was found out.
            key: the hub's name for it.
            said: what it says.
            lease: its share; None without one.
        """
        now, before = self.now(), self._heard.get(person, key)
        heard = Heard(
            at=now,
            idle_since=None if said.idle_s is None else now - said.idle_s,
            kept_until=None if said.kept_s is None else now + said.kept_s,
            started=None if said.age_s is None else now - said.age_s,
            parks_at=now + said.parks_s if isinstance(said.parks_s, float) else said.parks_s,
            warned_since=None if before is None else before.warned_since,
        )
        server = self._witnessed(person, key, lease, heard)
        limits = self._limits(server)
        when = due(server.sight, limits, heard.started)
        is_near = when is not None and now >= when.at - limits.warning_s
        warned = (heard.warned_since or now) if is_near else None
        self._heard.put(person, key, replace(heard, warned_since=warned))
        stops_at = None if when is None else max(when.at, 0.0 if warned is None else warned + limits.warning_s)
        return Outlook(
            park_after_s=limits.park_after_s,
            end_kernels_after_s=limits.end_kernels_after_s,
            end_parked_after_s=limits.end_parked_after_s,
            warning_s=limits.warning_s,
            stops_in_s=None if stops_at is None else max(0.0, stops_at - now),
            why="" if when is None else when.why.value,
            is_wanted=not limits.spare_the_idle,
            again_s=min(_AGAIN_WHEN_WARNED_S if is_near else _AGAIN_S, max(1.0, limits.warning_s / 4)),
        )

    def is_kept(self, lease: Lease) -> bool:
        """Whether the person of *lease* keeps its server now, by what it said last: its share will not be parked."""
        heard = self._heard.get(lease.person, lease.key)
        return heard is not None and heard.kept_until is not None and heard.kept_until > self.now()

    def parks_at(self, lease: Lease) -> float | UnsetType | None:
        """When the server of *lease* has its share parked, by its own word; None where it will not.

        Unset where it has not said so lately.
        """
        heard = self._heard.get(lease.person, lease.key)
        return UNSET if heard is None or self.now() - heard.at > _STALE_S else heard.parks_at

    def evidence(self) -> Evidence:
        """What is known of every server with a share or a voice."""
        shares = {
            key: KnownShare(person, each.sight, each.pool, each.profile) for (person, key), each in self.known().items()
        }
        return Evidence(self.now(), self.policy(), shares)

    def known(self) -> Mapping[tuple[str, str], Witnessed]:
        """Every server that is known here, by its person and the hub's name for it."""
        # Servers that have been silent for so long are gone, or as good as.
        self._heard.forget_before(self.now() - _FORGET_S)
        books = self.books()
        found = {whose: self._witnessed(*whose, None, heard) for whose, heard in self._heard if is_own(*whose)}
        for lease in books.leases.values():
            whose = lease.person, lease.key
            if lease.is_session and not lease.is_over and is_own(*whose):
                found[whose] = self._witnessed(*whose, lease, self._heard.get(*whose))
        return found

    def may_stop(self, server: Witnessed, why: Why) -> Verdict:
        """Whether *server* may be stopped for *why*, by what is known at this very moment.

        When the hub last saw it active only the culler knows.
        """
        now, sight = self.now(), server.sight
        started = server.started if sight.speaks else now
        at_the_hub = ServerSight(is_pending=False, is_ready=True, active=None, started=started)
        said = verdict(at_the_hub, sight, self._limits(server), now)
        if not sight.speaks and said.why in _LEFT_TO_THE_HUB and (sight.status == "granted" or why is Why.TOO_OLD):
            return Verdict(stops=True, why=why)
        return said

    def _witnessed(self, person: str, key: str, lease: Lease | None, heard: Heard | None) -> Witnessed:
        started = None if heard is None else heard.started
        if lease is None:
            return Witnessed(person, key, self._sight(_NONE, started or 0.0, heard), started=started)
        sight = self._sight(lease.status.value, lease.since, heard)
        return Witnessed(person, key, sight, self.pool_of(self.books(), lease), str(lease.share), lease.id, started)

    def _sight(self, status: str, since: float, heard: Heard | None) -> ShareSight:
        if heard is None:
            return ShareSight(status, since)
        is_fresh = self.now() - heard.at <= _STALE_S
        return ShareSight(
            status,
            since,
            speaks=True,
            idle_since=heard.idle_since if is_fresh else None,
            kept_until=heard.kept_until,
            warned_since=heard.warned_since,
        )

    def _limits(self, server: Witnessed) -> Limits:
        expected_s, until = self._expected or (None, 0.0)
        stop_after_s = expected_s if self.now() < until else None
        return self.policy().limits(server.pool, server.profile, stop_after_s)
