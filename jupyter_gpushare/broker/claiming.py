"""From what a holder writes in its hello to a lease. Pure; nothing that it writes is believed beyond its form."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.public_error import bad_request, printable
from jupyter_gpushare.quantity import Fraction, Memory, QuantityError
from jupyter_gpushare.rules.demand import share_cost
from jupyter_gpushare.rules.lease import Grant, Kind, Lease, Status, Target
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from jupyter_gpushare.broker.wire import ClaimModel, HelloMessage, LeaseModel
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["as_remembered", "lease_of_claim", "parse_share", "remembered"]


def parse_share(text: str) -> Share:
    """Read a share.

    Raises:
        PublicError: 400: it is none; the message says which part is wrong.
    """
    try:
        return Share.parse(text)
    except (ShareError, QuantityError) as error:
        raise bad_request(str(error), "share") from None


def lease_of_claim(claim: ClaimModel, person: str, now: float, key: str = "") -> Lease:
    """The lease that *claim* wishes, under the id *key* or a new one.

    Raises:
        PublicError: 400: the share is none.
    """
    return Lease(
        id=key or uuid.uuid4().hex,
        kind=Kind(claim.kind),
        project=printable(claim.project),
        person=person,
        name=printable(claim.name),
        key=printable(claim.key),
        share=parse_share(claim.share),
        pool=printable(claim.pool),
        submitted=now,
        since=now,
        is_parkable=claim.is_parkable,
        spread_group=printable(claim.spread_group),
        grace_s=claim.grace_s,
        start_cost_s=claim.start_cost_s,
        most_turns_lost=claim.most_turns_lost,
    )


def remembered(hello: HelloMessage, person: str, now: float, books: Snapshot) -> Lease | None:
    """The lease that the holder remembers and the books do not know, as far as it can be true; None if it cannot.

    Raises:
        PublicError: 400: the share is none.
    """
    known = hello.lease
    if known is None or not known.id or known.id in books.leases or known.status in ("ended", "failed"):
        return None
    lease = lease_of_claim(hello.claim, person, now, known.id)
    grants = _grants(known, books)
    if grants is None or len(grants) not in (0, lease.share.count) or _is_too_much(grants, lease.share, books):
        return None
    return lease.evolve(
        submitted=min(now, known.submitted),
        status=Status(known.status) if grants else Status.QUEUED,
        target=Target(known.target),
        epoch=max(hello.epoch, known.epoch),
        grants=grants,
    )


def _is_too_much(grants: tuple[Grant, ...], share: Share, books: Snapshot) -> bool:
    """Whether one of *grants* is more than *share* asks for."""
    return any(grant.amount > share_cost(share, books.devices[grant.device].usable) for grant in grants)


def as_remembered(known: Lease, hello: HelloMessage) -> Lease:
    """The lease *known* to the books, where its holder says that it is: it may have had to act while we were away.

    Its grants are those of the books: on which devices it is nobody but they and the devices can say.
    """
    said = hello.lease
    if said is None or said.id != known.id or said.status in ("ended", "failed"):
        return known
    return known.evolve(status=Status(said.status), target=Target(said.target), host_memory=Memory(said.host_memory))


def _grants(known: LeaseModel, books: Snapshot) -> tuple[Grant, ...] | None:
    """Its grants, if they are parts of devices that there are, each once, on one host."""
    try:
        grants = tuple(Grant(each.device, Fraction.parse(each.amount)) for each in known.grants)
    except QuantityError:
        return None
    devices = {grant.device for grant in grants}
    hosts = {books.devices[uuid].host for uuid in devices if uuid in books.devices}
    is_possible = (
        devices <= books.devices.keys()
        and len(devices) == len(grants)
        and len(hosts) <= 1
        and all(Fraction.ZERO < grant.amount <= Fraction.ONE for grant in grants)
    )
    return grants if is_possible else None
