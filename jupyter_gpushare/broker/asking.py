"""When could I get this? Asked of the rules themselves, on books that nobody keeps."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.claiming import parse_share
from jupyter_gpushare.broker.explaining import explain_lease
from jupyter_gpushare.broker.models import usage_model
from jupyter_gpushare.broker.public_error import message_model
from jupyter_gpushare.broker.wire import AvailabilityModel
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.estimate import estimates
from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.fair_share import fair_share
from jupyter_gpushare.rules.lease import Kind, Lease
from jupyter_gpushare.rules.step import step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.broker.ledger import UsageHours
    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.broker.wire import ProjectModel
    from jupyter_gpushare.rules.pace import Paces
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["availability", "projects"]

_ASKED: Final = "asked"


def availability(
    books: Snapshot, text: str, *, project: str, person: str, kind: Kind, now: float, paces: Paces
) -> AvailabilityModel:
    """What would become of a claim for the share *text*, submitted now.

    Raises:
        PublicError: 400: the share is none.
    """
    share = parse_share(text)
    # An id of its own: nothing of one question may be taken for another's, wherever the rules remember something.
    key = uuid.uuid4().hex
    wish = Lease(
        id=key,
        kind=kind,
        project=project,
        person=person,
        name=_ASKED,
        share=share,
        submitted=now,
        since=now,
    )
    done = step(books, [Submitted(wish)], now)
    lease = done.change.leases.get(key, wish)
    reason = None if lease.reason is None else message_model(explain_lease(lease.reason, lease, done.snapshot))
    fits = bool(lease.grants) and not lease.is_over
    estimate_s = None if fits or lease.is_over else estimates(done.snapshot, now, paces).get(key)
    return AvailabilityModel(str(share), fits, estimate_s, reason)


def projects(view: View, hours: Mapping[str, UsageHours], source: str) -> list[tuple[Project, ProjectModel]]:
    """Every project, with its GPU-hours, *hours*."""
    shares = fair_share(view.books)
    return [
        (
            project,
            view.project(
                project,
                shares.get(name, Fraction.ZERO),
                usage_model(hours.get(name)),
                source,
            ),
        )
        for name, project in sorted(view.books.projects.items())
    ]
