"""The sentences about a session's lease. They reassure first. No other module of the session makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.idle.duration import say_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.broker.client import BrokerError
    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.broker.wire import LentModel
    from jupyter_gpushare.broker.wire import MessageModel as BrokerMessage

__all__ = [
    "BROKER_AWAY",
    "BROKER_IS_AWAY",
    "BROKER_SILENT",
    "NOT_ADMITTED",
    "NO_BROKER",
    "about",
    "asked_to_park",
    "asking_alone",
    "away",
    "came_back_alone",
    "claimed_anew",
    "coming_back",
    "ended",
    "handed_back",
    "handing_back",
    "isolated_by_pool",
    "leaving",
    "lent",
    "not_agreed",
    "of_broker",
    "other_device",
    "refused",
    "runs",
    "set_by_pool",
    "share_changed",
    "share_refused",
    "starts_without",
    "waiting",
    "why_clause",
]

_MINUTE: Final = 60
_HOUR: Final = 3600
_TEENS: Final = range(11, 14)

#: Why it waits, in as few words as fit into brackets; the whole sentence is the broker's own.
_BRIEFLY: Final[Mapping[str, str]] = {
    "WAITING_FOR_QUOTA": "the project uses its quota",
    "WAITING_FOR_DEVICE": "no device has room",
    "WAITING_FOR_SAME_DEVICE": "its device has no room",
    "WAITING_FOR_CALL_BACK": "training is leaving",
    "WAITING_FOR_MINIMUM_TURN": "those before have just begun",
    "WAITING_FOR_COPIES": "others are brought back first",
    "BLOCKED_BY_FRAGMENTATION": "free, but in pieces",
    "BLOCKED_BY_FOREIGN_MEMORY": "other programs hold the device",
    "BLOCKED_BY_DRAIN": "an admin empties the device",
}
_PARKING: Final = {
    "off": "no notebook is parked",
    "observe": "notebooks are parked only when their owners ask for it",
}


def _refusal(code: str, reason: str, remedy: str) -> NotParkable:
    return NotParkable(Message(code, reason), Message(f"{code}_REMEDY", remedy))


BROKER_IS_AWAY: Final = _refusal(
    "BROKER_AWAY",
    "the share lost contact with the broker, and nobody could use what it hands back.",
    "Nothing is lost and nothing changes for you; release again when it is back.",
)
BROKER_SILENT: Final = _refusal(
    "BROKER_SILENT",
    "the broker did not agree in time.",
    "Nothing is lost, the notebook goes on; release again in a moment.",
)
NOT_ADMITTED: Final = _refusal(
    "NO_SHARE",
    "this session has no share of the broker that it could hand back.",
    "Nothing is lost, the notebook goes on.",
)
NO_BROKER: Final = Message(
    "NO_BROKER",
    "There is no broker here that could change your share; it is set by the configuration, as c.GpuShare.share.",
)
BROKER_AWAY: Final = "the share lost contact with the broker"


def of_broker(message: BrokerMessage) -> Message:
    """What the broker said."""
    return Message(message.code, message.template, message.values)


def not_agreed(error: BrokerError) -> NotParkable:
    """The broker does not want it parked now."""
    reason = Message(error.code, "{why}", {"why": error.text})
    return NotParkable(reason, Message("GOES_ON", "Nothing is lost, the notebook goes on."))


def about(seconds: float) -> str:
    """A guess of a time, as people say it: "about 3 min"."""
    if seconds < _MINUTE:
        return "less than a minute"
    if seconds < _HOUR:
        return f"about {round(seconds / _MINUTE)} min"
    return f"about {round(seconds / _HOUR)} h"


def ordinal(place: int) -> str:
    """A place in line: "2nd"."""
    ending = "th" if place % 100 in _TEENS else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def why_clause(reason: BrokerMessage | None) -> str:
    """Why it waits, for brackets; empty where there is nothing to explain."""
    if reason is None:
        return ""
    if not reason.values.keys().isdisjoint(("drained", "foreign")):
        return reason.text.partition("; ")[2].rstrip(".")  # what is true of this very machine says more
    return _BRIEFLY.get(reason.code, reason.text.rstrip("."))


def waiting(place: int | None, estimate_s: float | None, reason: BrokerMessage | None) -> Message:
    """It stands in line: "Waiting: 2nd in line, about 3 min (no device has room)"."""
    values = {"why": why_clause(reason)}
    parts = []
    if place is not None:
        parts.append("{place} in line")
        values["place"] = ordinal(place)
    if estimate_s is not None:
        parts.append("{estimate}")
        values["estimate"] = about(estimate_s)
    head = "Waiting: " + ", ".join(parts) if parts else "Waiting"
    return Message("LEASE_WAITING", head + (" ({why})." if values["why"] else "."), values)


def leaving(passed_s: float, grace_s: float) -> Message:
    """Those who use the share have been told to go: "Training is leaving (8 s of 30 s)"."""
    values = {"passed": f"{max(passed_s, 0):.0f} s", "grace": f"{grace_s:.0f} s"}
    return Message("TRAINING_LEAVES", "Training is leaving ({passed} of {grace}). Nothing is lost.", values)


def coming_back() -> Message:
    """There is room again."""
    return Message("LEASE_RESUMING", "Your share is yours again; your notebooks come back.")


def runs(share: str, project: str) -> Message:
    """It has its share."""
    return Message("LEASE_RUNNING", "{project} guarantees your share: {share}.", {"share": share, "project": project})


def handing_back() -> Message:
    """Everything moves to host memory."""
    return Message("LEASE_PARKING", "Your share is being handed back. Nothing is lost.")


def handed_back() -> Message:
    """Nobody uses it yet."""
    return Message(
        "LEASE_PARKED", "Your share is handed back and kept for you. Nothing is lost: any cell brings it back."
    )


def lent(to: Sequence[LentModel]) -> Message:
    """Training uses it."""
    names = ", ".join(sorted({f"{each.name} of {each.project}" if each.name else each.project for each in to}))
    template = "Your share is lent to training ({names}). Nothing is lost: any cell calls it back."
    return Message("LENT_TO_TRAINING", template, {"names": names})


def away(*, resumes_in_s: float | None) -> Message:
    """The broker cannot be reached; *resumes_in_s* until parked notebooks come back by themselves, None for none."""
    if resumes_in_s is None:
        return Message("LEASE_AWAY", "Share lost contact with the broker; nothing changes for you.")
    if resumes_in_s <= 0:
        template = "Share lost contact with the broker; parked notebooks stay safe and come back when the GPU has room."
        return Message("LEASE_AWAY", template)
    template = "Share lost contact with the broker; parked notebooks stay safe and can come back in {left}."
    return Message("LEASE_AWAY", template, {"left": f"{max(resumes_in_s, 0):.0f} s"})


def asking_alone() -> Message:
    """The broker has been away for long, and this server asks the jobs themselves."""
    template = "Share lost contact with the broker; training that uses your GPU is asked to leave. Nothing is lost."
    return Message("LEASE_ASKS_ALONE", template)


def refused(error: BrokerError) -> Message:
    """The claim was refused."""
    return Message(error.code, "No share: {why}", {"why": error.text})


def ended(reason: BrokerMessage | None) -> Message:
    """The lease is over, by somebody else's hand."""
    if reason is None:
        return Message("LEASE_ENDED", "Your share was ended. Any cell that needs the GPU claims it anew.")
    template = "Your share was ended: {why} Any cell that needs the GPU claims it anew."
    return Message("LEASE_ENDED", template, {"why": reason.text})


def starts_without(why: str) -> Message:
    """A kernel starts before there is a share."""
    template = "There is no share for it yet ({why}). Restart the kernel when the sidebar shows your share."
    return Message("NO_SHARE_YET", template, {"why": why})


def asked_to_park(why: Message | None) -> Message:
    """Somebody else wants the share back, from notebooks that run."""
    template = (
        "The GPU is wanted back: {why} Your memory moves to host memory as soon as no cell runs. Nothing is lost."
    )
    text = why.text if why is not None else "an admin asked for it."
    return Message("ASKED_TO_PARK", template, {"why": text})


def came_back_alone() -> Message:
    """A notebook came back without the broker."""
    template = "The broker is away; your notebook came back because its GPU had room. Nothing is lost."
    return Message("CAME_BACK_ALONE", template)


def set_by_pool(policy: PoolPolicy) -> Message:
    """What the admin decided for everybody in the pool."""
    words = [
        *([_PARKING[policy.parking]] if policy.parking is not None else []),
        *([f"idle timeout at most {say_seconds(policy.idle_timeout_s)}"] if policy.idle_timeout_s else []),
        *([f"isolation {policy.isolation}"] if policy.isolation is not None else []),
    ]
    return Message("SET_BY_POOL", "Set by pool {pool}: {what}.", {"pool": policy.pool, "what": ", ".join(words)})


def isolated_by_pool(pool: str, isolation: str, notebooks: Sequence[str]) -> Message:
    """The pool's isolation has changed while kernels run."""
    template = (
        "Pool {pool} holds kernels to their share with isolation {isolation} now. Nothing changes for these notebooks "
        "until their kernels restart: {notebooks}."
    )
    return Message(
        "ISOLATED_BY_POOL", template, {"pool": pool, "isolation": isolation, "notebooks": ", ".join(notebooks)}
    )


def other_device(notebooks: Sequence[str]) -> Message:
    """The share lies elsewhere than what some kernels see."""
    template = "Your share lies on another GPU than these notebooks use; restart their kernels to use it: {notebooks}."
    return Message("RESTART_FOR_SHARE", template, {"notebooks": ", ".join(notebooks)})


def share_refused(share: str, why: str, code: str) -> Message:
    """Another share cannot be had now; nothing has changed."""
    values = {"share": share, "why": why, "reason_code": code}
    return Message("SHARE_REFUSED", "You keep your share; {share} cannot be had now: {why}", values)


def claimed_anew(share: str) -> Message:
    """The claim had been refused or ended, and is made once more."""
    return Message(
        "CLAIMED_ANEW", "{share} is being asked for; the sidebar shows what becomes of it.", {"share": share}
    )


def share_changed(share: str, restart: Sequence[str]) -> Message:
    """Another share holds from now on."""
    values = {"share": share, "notebooks": ", ".join(restart)}
    if not restart:
        return Message("SHARE_CHANGED", "Your share is now {share}.", values)
    template = "Your share is now {share}. It holds in these notebooks once their kernels are restarted: {notebooks}."
    return Message("SHARE_CHANGED", template, values)
