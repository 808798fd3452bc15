"""What each project may have now: what it deserves, and its part of what nobody deserves (DESIGN 5, rule 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["capacity", "divide", "fair_share"]


def fair_share(snapshot: Snapshot) -> Mapping[str, Fraction]:
    """The fair share of each project, in GPUs; together at most the `capacity`.

    First min(quota, demand); the rest is divided by weight among projects that want more (water-filling). Projects
    without weight divide what those with weight leave. Where even the quotas do not fit, they are divided in
    proportion. Nobody gets more than its limit or its demand. Shares are exact but for the last millionths, which go by
    name, so that more capacity never takes more than one millionth from anybody.
    """
    demands = {name: books.demand.millionths for name, books in snapshot.project_books.items()}
    return {name: Fraction(share) for name, share in divide(capacity(snapshot), snapshot.projects, demands).items()}


def capacity(snapshot: Snapshot) -> int:
    """All that there is to divide, in millionths of a GPU: of devices that are ready, without what is foreign."""
    hosts = snapshot.hosts
    return sum(
        device.capacity.millionths
        for device in snapshot.devices.values()
        if device.condition == "ready" and (device.host not in hosts or hosts[device.host].condition == "ready")
    )


def divide(whole: int, projects: Mapping[str, Project], demands: Mapping[str, int]) -> dict[str, int]:
    """*whole* divided among *projects*, all in millionths of a GPU."""
    wanted = {name: min(demands.get(name, 0), project.limit.millionths) for name, project in sorted(projects.items())}
    deserved = {name: min(want, projects[name].quota.millionths) for name, want in wanted.items()}
    if sum(deserved.values()) > whole:
        # A quota above all that anybody wants, unlimited say, is as good as one for all of it.
        highest = sum(wanted.values())
        by_quota = [_Want(name, most, min(projects[name].quota.millionths, highest)) for name, most in deserved.items()]
        return {**dict.fromkeys(wanted, 0), **_fill(whole, by_quota)}
    wants = [_Want(name, most - deserved[name], _weight(projects[name])) for name, most in wanted.items()]
    left = whole - sum(deserved.values())
    shares = _fill(left, wants)
    unweighted = [_Want(want.name, want.most, 1) for want in wants if not want.weight]
    shares |= _fill(left - sum(shares.values()), unweighted)
    return {name: amount + shares.get(name, 0) for name, amount in deserved.items()}


@dataclass(frozen=True, slots=True)
class _Want:
    name: str
    most: int
    weight: int


def _weight(project: Project) -> int:
    return project.over_quota_weight.millionths


def _fill(whole: int, wants: list[_Want]) -> dict[str, int]:
    """Water-filling: by weight, and what somebody needs no more of is divided among the others."""
    shares: dict[str, int] = {}
    thirsty = [want for want in wants if want.weight and want.most > 0]
    while thirsty:
        weights = sum(want.weight for want in thirsty)
        full = [want for want in thirsty if want.most * weights <= whole * want.weight]
        if not full:
            return shares | _pour(whole, thirsty, weights)
        shares |= {want.name: want.most for want in full}
        whole -= sum(want.most for want in full)
        thirsty = [want for want in thirsty if want.name not in shares]
    return shares


def _pour(whole: int, thirsty: list[_Want], weights: int) -> dict[str, int]:
    """Nobody is filled: to each by weight, rounded down, and the last millionths by name."""
    shares = {want.name: whole * want.weight // weights for want in thirsty}
    spare = whole - sum(shares.values())
    return {name: share + (place < spare) for place, (name, share) in enumerate(sorted(shares.items()))}
