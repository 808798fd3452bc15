"""Whether projects that lose jobs to a claim end with what they deserve all the same (DESIGN 5, rule 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpushare.rules.lease import Lease, Status
from jupyter_gpushare.rules.queue_order import ProjectLines, claim_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.rules.rooms import Placement
    from jupyter_gpushare.rules.situation import Situation
    from jupyter_gpushare.rules.standing import Standing

__all__ = ["all_keep_what_they_deserve"]


def all_keep_what_they_deserve(
    situation: Situation, claim: Lease, leases: tuple[Lease, ...], placement: Placement = ()
) -> bool:
    """Whether no project that lost some of *leases* ends below min(quota, demand) once *placement* is taken too.

    Their jobs that wait or are among *leases* go on with what is left over, in the order and in the places in which
    they are served.
    """
    after = _after(situation, claim, leases)
    short = {name: standing for name, standing in after.items() if _is_short(standing)}
    if not short:
        return True
    trial, lines = situation.copy(), ProjectLines(short)
    trial.rooms.keep(placement)
    for job in _waiting_jobs(situation, claim, leases):
        if job.project in short:
            lines.add(job.project, claim_order(job), job)
    while (job := lines.pop()) is not None:
        standing = short[job.project]
        placed = trial.place_soon(job) if _is_short(standing) else None
        if placed is not None:
            trial.rooms.keep(placed)
            standing.add(sum(part.amount for part in placed))
    return not any(map(_is_short, short.values()))


def _is_short(standing: Standing) -> bool:
    return standing.used < standing.deserved


def _after(situation: Situation, claim: Lease, leases: tuple[Lease, ...]) -> dict[str, Standing]:
    """Where each project that lost something stands then, the claim counted in."""
    after = {lease.project: replace(situation.standings[lease.project]) for lease in leases}
    for lease in leases:
        after[lease.project].add(-lease.amount.millionths, lent=-lease.lent.millionths)
    if claim.project in after:
        after[claim.project].add(situation.cost(claim), is_session=claim.is_session)
    return after


def _waiting_jobs(situation: Situation, claim: Lease, reclaimed: tuple[Lease, ...]) -> Iterator[Lease]:
    """Jobs that could be placed on what is left over. One that parks fits nowhere but where it was."""
    snapshot = situation.snapshot
    for project in dict.fromkeys(lease.project for lease in reclaimed):
        for key in snapshot.project_books[project].leases & snapshot.waiting:
            lease = snapshot.leases[key]
            is_new = not lease.is_session and lease.status is Status.QUEUED
            if is_new and key != claim.id and key not in situation.leases:
                yield lease
    for lease in reclaimed:
        if not lease.is_parkable:
            yield lease.evolve(grants=(), loans=())
