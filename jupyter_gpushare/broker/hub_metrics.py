"""What became of claims and of requests, for counting: pure, and with labels that nobody can make up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tornado.web import RequestHandler

    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["outcomes_of", "route_of"]

_OTHER: Final = "other"
# Anybody may send any verb.
_VERBS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"})


def outcomes_of(published: Published) -> Iterator[tuple[str, str, str]]:
    """The kind, outcome and reason of each claim that a commit decides on for the first time, or that is given up."""
    change = published.change
    submitted = {entry.lease for entry in change.audit if entry.verb is Verb.SUBMITTED}
    for key, lease in change.leases.items():
        is_new = key in submitted
        if not is_new and not _has_waited(published.old.leases.get(key)):
            continue
        outcome = _outcome(lease, is_new=is_new)
        if outcome:
            reason = "" if outcome in ("granted", "given_up") or lease.reason is None else lease.reason.value
            yield lease.kind.value, outcome, reason


def _outcome(lease: Lease, *, is_new: bool) -> str:
    """Empty for one that waited before and still does, or has got what it waited for."""
    if lease.epoch > 0:
        return "granted" if is_new else ""
    if lease.status is Status.FAILED:
        return "refused"
    if lease.is_over:
        return "given_up"
    return "waited" if is_new else ""


def _has_waited(old: Lease | None) -> bool:
    """Whether it was a claim that never had anything."""
    return old is not None and old.status is Status.QUEUED and old.epoch == 0


def route_of(handler: RequestHandler) -> tuple[str, str]:
    """The name of a handler's route and the verb of its request, both out of a few."""
    verb = handler.request.method or ""
    return getattr(handler, "route", "") or _OTHER, verb if verb in _VERBS else _OTHER
