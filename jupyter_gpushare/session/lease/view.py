"""How the lease is, as people see it: pure, from what the broker said last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.broker.client import OVER
from jupyter_gpushare.session.lease import sentences as say
from jupyter_gpushare.session.wire import LeaseView, LentToModel, MessageModel
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from jupyter_gpushare.broker.client import BrokerError
    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.broker.wire import LeaseModel, LentModel
    from jupyter_gpushare.rules.message import Message

__all__ = ["Known", "clause_of", "sentence_of", "view_of_lease"]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the lease at one moment, times in seconds since the epoch.

    Attributes:
        lease: as the broker told it last, None before it did.
        connected: whether the broker hears us; *since* when that is so.
        refusal: why there is no lease.
        wanted_back: since when it is wanted back, None while it is not.
        has_parked: whether notebooks are parked that would come back.
        grace_s: after how long without the broker they may.
        project: of the claim.
        policy: what the pool of the lease decides; None for nothing.
        is_asking: whether those who use what is lent were asked to leave, in the place of a broker that is away.
    """

    lease: LeaseModel | None
    connected: bool
    since: float
    refusal: BrokerError | None
    wanted_back: float | None
    has_parked: bool
    grace_s: float
    project: str
    is_asking: bool = False
    policy: PoolPolicy | None = None

    @property
    def connection(self) -> Literal["joined", "away", "refused"]:
        """As `LeaseView.connection`."""
        if self.refusal is not None or (self.lease is not None and self.lease.status in OVER):
            return "refused"
        return "joined" if self.connected and self.lease is not None else "away"

    @property
    def is_lent(self) -> bool:
        """Whether training uses the share, which is handed back."""
        return self.lease is not None and self.lease.status == "parked" and bool(self.lease.lent_to)

    @property
    def began(self) -> float | None:
        """When those in its way were told to leave, None where nobody is, or that is not known."""
        lease = self.lease
        if lease is None or lease.deadline is None or self.wanted_back is None or not self.connected:
            return None
        return self.wanted_back if lease.status in ("parked", "queued") and lease.target == "running" else None


def view_of_lease(known: Known, now: float) -> LeaseView:
    """What the sidebar shows."""
    lease, message = known.lease, sentence_of(known, now)
    joined = known.connection == "joined" and lease is not None
    return LeaseView(
        connection=known.connection,
        since=lease.since if joined and lease is not None else known.since,
        project=known.project if lease is None else lease.project,
        status="queued" if lease is None else lease.status,
        message=MessageModel.of(message),
        place=lease.place if joined and lease is not None else None,
        estimate_s=lease.estimate_s if joined and lease is not None else None,
        began=known.began,
        deadline=lease.deadline if known.began is not None and lease is not None else None,
        lent_to=[] if lease is None else [_lent_to(each) for each in lease.lent_to],
        policy=None if known.policy is None else MessageModel.of(say.set_by_pool(known.policy)),
        can_request=joined and lease is not None and lease.status in ("queued", "granted", "running"),
    )


def _lent_to(user: LentModel) -> LentToModel:
    return LentToModel(user.project, user.name, user.amount, user.memory)


def sentence_of(known: Known, now: float) -> Message:
    """The one sentence about the lease now."""
    lease = known.lease
    match known.connection:
        case "refused":
            if known.refusal is not None:
                return say.refused(known.refusal)
            return say.ended(None if lease is None else lease.reason)
        case "away":
            if known.is_asking:
                return say.asking_alone()
            left = max(0.0, known.since + known.grace_s - now)
            return say.away(resumes_in_s=left if known.has_parked else None)
        case "joined":
            assert lease is not None  # noqa: S101  # `connection` looked
            return _joined(known, lease, now)


def clause_of(known: Known, now: float) -> str:
    """Why a parked notebook does not come back yet, as part of a sentence."""
    lease = known.lease
    if known.is_asking:
        return f"{say.BROKER_AWAY}, and the training that uses your GPU is asked to leave"
    if known.connection == "away":
        left = known.since + known.grace_s - now
        return f"{say.BROKER_AWAY}, and it looks for room by itself in {max(left, 0):.0f} s"
    if known.connection == "refused" or lease is None:
        return sentence_of(known, now).text
    if known.began is not None or lease.reason is None:
        return sentence_of(known, now).text.split(".")[0].removeprefix("Waiting: ")
    return say.waiting(lease.place, lease.estimate_s, lease.reason).text.removeprefix("Waiting: ").rstrip(".")


def _joined(known: Known, lease: LeaseModel, now: float) -> Message:
    match lease.status:
        case "queued" | "missing":
            return say.waiting(lease.place, lease.estimate_s, lease.reason)
        case "granted" | "running":
            return say.runs(_described(lease.share), lease.project)
        case "parking" | "yielding":
            return say.handing_back()
        case "resuming":
            return say.coming_back()
        case "parked":
            return _parked(known, lease, now)
    return say.ended(lease.reason)


def _parked(known: Known, lease: LeaseModel, now: float) -> Message:
    if known.began is not None and lease.deadline is not None:
        return say.leaving(now - known.began, lease.deadline - known.began)
    if lease.target == "running":
        return say.waiting(lease.place, lease.estimate_s, lease.reason)
    return say.lent(lease.lent_to) if lease.lent_to else say.handed_back()


def _described(share: str) -> str:
    try:
        return Share.parse(share).describe()
    except ShareError:
        return share  # of a newer broker: better shown as it is written than not at all
