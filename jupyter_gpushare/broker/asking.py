"""When could I get this? Asked of the rules themselves, on books that nobody keeps."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.availability_wire import AvailabilityModel
from jupyter_gpushare.broker.claiming import parse_share
from jupyter_gpushare.broker.explaining import explain_lease
from jupyter_gpushare.broker.models import usage_model
from jupyter_gpushare.broker.offering import Offering, answer_of
from jupyter_gpushare.broker.public_error import message_model
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.estimate import estimates
from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.fair_share import fair_share
from jupyter_gpushare.rules.lease import Kind, Lease
from jupyter_gpushare.rules.queue_order import claim_order
from jupyter_gpushare.rules.step import step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer
    from jupyter_gpushare.broker.ledger import UsageHours
    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.broker.wire import ProjectModel
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.pace import Paces
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot
    from jupyter_gpushare.share import Share

__all__ = ["Question", "projects"]

_ASKED: Final = "asked"


@dataclass(frozen=True, slots=True)
class Question:
    """What would become of a claim of *person* in *project*, submitted at *now* after the events *before*."""

    books: Snapshot
    project: str
    person: str
    kind: Kind
    now: float
    paces: Paces
    before: Sequence[Event] = ()

    def answer(self, texts: Sequence[str], *, is_simulated: bool) -> AvailabilityAnswer:
        """The answer for each of the shares *texts*.

        Raises:
            PublicError: 400: one is no share.
        """
        offering = Offering(self.books, self.project, self.person)
        models = [self.about(parse_share(text), offering) for text in texts]
        return answer_of(self.books, models, self.project, self.person, is_simulated=is_simulated)

    def about(self, share: Share, offering: Offering) -> AvailabilityModel:
        """The answer for *share*."""
        # An id of its own: nothing of one question may be taken for another's, wherever the rules remember something.
        key = uuid.uuid4().hex
        wish = Lease(
            id=key,
            kind=self.kind,
            project=self.project,
            person=self.person,
            name=_ASKED,
            share=share,
            submitted=self.now,
            since=self.now,
        )
        done = step(self.books, [*self.before, Submitted(wish)], self.now)
        lease = done.change.leases.get(key, wish)
        fits = bool(lease.grants) and not lease.is_over
        memory, burst, kinds = offering.meaning(share)
        return AvailabilityModel(
            str(share),
            fits,
            None if fits or lease.is_over else estimates(done.snapshot, self.now, self.paces).get(key),
            None if lease.reason is None else message_model(explain_lease(lease.reason, lease, done.snapshot)),
            is_refused=lease.is_over,
            place=_place(lease, done.snapshot),
            free=max(1, offering.how_many(share, is_session=self.kind is Kind.INTERACTIVE)) if fits else 0,
            memory=memory,
            burst=burst,
            kinds=kinds,
        )


def _place(lease: Lease, books: Snapshot) -> int | None:
    """Its place in the line of those that wait; None where it waits for nothing."""
    if not lease.is_waiting or lease.is_over:
        return None
    mine = claim_order(lease)
    return 1 + sum(claim_order(books.leases[key]) < mine for key in books.waiting)


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
