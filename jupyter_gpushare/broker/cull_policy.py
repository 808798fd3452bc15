"""For how long what may be left idle, as an admin wants it: one answer for each pool and each profile."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # it is decoded by these types
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

__all__ = ["CullPolicy", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds; None is never. Every step but parking is a `Loss`, and off until an admin says otherwise.

    Attributes:
        park_after_s: an idle GPU is parked. The session's own idle policy does it; this bounds its timeout.
        end_kernels_after_s: idle kernels that hold a GPU are ended.
        end_parked_after_s: parked kernels are ended; never sooner than running ones.
        stop_after_s: an idle server is stopped.
        stop_parked_after_s: an idle server whose share is parked is stopped; never sooner than another one.
        max_age_s: a server is stopped, idle or not.
        warning_s: how long before kernels end or a server stops people are warned.
    """

    park_after_s: float | None = None
    end_kernels_after_s: float | None = None
    end_parked_after_s: float | None = None
    stop_after_s: float | None = None
    stop_parked_after_s: float | None = None
    max_age_s: float | None = None
    warning_s: float = 600.0

    @property
    def stops_nothing(self) -> bool:
        """Whether no server is ever stopped under these."""
        return self.stop_after_s is None and self.stop_parked_after_s is None and self.max_age_s is None

    @property
    def spare_the_idle(self) -> bool:
        """Whether nothing that is idle is ever ended or stopped for that."""
        ends = (self.end_kernels_after_s, self.end_parked_after_s, self.stop_after_s, self.stop_parked_after_s)
        return all(each is None for each in ends)

    def settled(self) -> Limits:
        """These, with what is parked kept at least as long as what runs."""
        return replace(
            self,
            end_parked_after_s=_no_sooner(self.end_parked_after_s, self.end_kernels_after_s),
            stop_parked_after_s=_no_sooner(self.stop_parked_after_s, self.stop_after_s),
        )


@dataclass(frozen=True, slots=True)
class CullPolicy:
    """What ``[culling]`` of a ``gpushare.toml`` says.

    Attributes:
        base: what holds where nothing else is said.
        pools: what is said otherwise of single pools: some fields of `Limits` each.
        profiles: the same of what people choose: a share as it is written, or KubeSpawner's slug. Stronger than a pool.
        every_s: seconds between two rounds of our own culler.
        has_rounds: whether the service takes such rounds; another culler may do so instead.
    """

    base: Limits = field(default_factory=Limits)
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    every_s: float = 300.0
    has_rounds: bool = True

    def limits(self, pool: str = "", profile: str = "", stop_after_s: float | None = None) -> Limits:
        """What holds for a server of that *pool* and *profile*.

        Args:
            pool: of its share; empty where it has none.
            profile: what its person chose.
            stop_after_s: after how long a server is stopped where the admin's file says nothing of it: the timeout of
                a culler that is somebody else's.
        """
        said = {**self.pools.get(pool, _NOTHING), **self.profiles.get(profile, _NOTHING)}
        return _settled(replace(self.base, **said), None if "stop_after_s" in said else stop_after_s)

    @property
    def stops_nothing(self) -> bool:
        """Whether no server is ever stopped, whatever its pool or profile."""
        return all(limits.stops_nothing for limits in self._all())

    @property
    def has_max_age(self) -> bool:
        """Whether some server is stopped for its age."""
        return any(limits.max_age_s is not None for limits in self._all())

    def _all(self) -> list[Limits]:
        """What holds for everybody, and for each pool and profile by itself."""
        others = (*self.pools.values(), *self.profiles.values())
        return [replace(self.base, **said) for said in (_NOTHING, *others)]


_NOTHING: Final[Mapping[str, Any]] = {}


@lru_cache(maxsize=1024)
def _settled(limits: Limits, stop_after_s: float | None) -> Limits:
    """*limits*, of which there are few, and many are asked about."""
    if stop_after_s is not None and limits.stop_after_s is None:
        limits = replace(limits, stop_after_s=stop_after_s)
    return limits.settled()


def _no_sooner(parked_s: float | None, running_s: float | None) -> float | None:
    return parked_s if parked_s is None or running_s is None else max(parked_s, running_s)
