"""One server before the verdict: what the hub shows of it is brought together with what is known of its share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker.cull_policy import Limits
from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.culling.verdict import UNKNOWN, ServerSight, Verdict, verdict
from jupyter_gpushare.hub.offers import PROFILE_OPTION, SHARE_OPTION

if TYPE_CHECKING:
    from jupyter_gpushare.hub.culling.wire import Evidence

__all__ = ["Judge"]

_NO_LIMITS: Final = Limits()


class Judge:
    """Judges many servers by the same evidence.

    Args:
        known: of all shares; None where nobody could be asked.
        stop_after_s: after how long a server is stopped where the admin's file does not say.

    Attributes:
        minds_age: whether it matters to anybody when a server started.
    """

    def __init__(self, known: Evidence | None, stop_after_s: float | None = None) -> None:
        self._known = known
        self._stop_after_s = stop_after_s
        self._made: dict[tuple[str, str], Limits] = {}
        self.minds_age = known is not None and known.policy.has_max_age

    def judge(self, person: str, name: str, server: ServerSight, options: object, now: float) -> Verdict:
        """Whether a server is stopped *now*.

        Args:
            person: whose it is; empty where that cannot be told.
            name: what it is called; empty for the unnamed one.
            server: as the hub shows it.
            options: its person's own ``user_options``, which may be anything.
            now: seconds since the epoch.
        """
        known = self._known
        if known is None or not person:
            return verdict(server, UNKNOWN, _NO_LIMITS, now)
        share = known.shares.get(claim_key(person, name))
        if share is None or share.person != person:
            return verdict(server, None, self._limits("", _profile(options)), now)
        return verdict(server, share.sight, self._limits(share.pool, share.profile), now)

    def has_share(self, person: str, name: str) -> bool:
        """Whether a server has a share, as far as is known."""
        return self._known is not None and claim_key(person, name) in self._known.shares

    def _limits(self, pool: str, profile: str) -> Limits:
        """Worked out once for each of the few that are different."""
        assert self._known is not None  # noqa: S101  # whoever asks has looked
        policy = self._known.policy
        key = (pool, profile if profile in policy.profiles else "")
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = policy.limits(*key, self._stop_after_s)
        return made


def _profile(options: Any) -> str:
    """What a person chose: a share, or KubeSpawner's slug."""
    if not isinstance(options, dict):
        return ""
    chosen = options.get(SHARE_OPTION) or options.get(PROFILE_OPTION)
    return chosen if isinstance(chosen, str) else ""
