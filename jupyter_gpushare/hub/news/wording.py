"""What is told: one piece of news, made from a line of the audit or of what the books say, and its body.

The body says whose share it is and how large, what happens to it and why, and nothing else: no notebook, no server, no
address.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.rules.reason import Reason, explain
from jupyter_gpushare.rules.yielding import VERBS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.broker.ledger import Recorded
    from jupyter_gpushare.rules.change import Entry
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["LOSS_WORDS", "VERBS_OF", "News", "idle_soon", "news_of"]

#: The verbs of the audit that an event is found under.
VERBS_OF: Final[Mapping[str, frozenset[Verb]]] = {
    "idle_soon": frozenset(),
    "your_turn": frozenset({Verb.GRANTED}),
    "called_back": frozenset(VERBS.values()),
    "loss": frozenset({Verb.LOSS}),
}
#: For how long it is of use to hear of it, in seconds.
_GOOD_FOR_S: Final = {"your_turn": 3600.0, "called_back": 3600.0, "loss": 86400.0}
#: Who waited shorter than this was given it at once.
_WAITED_S: Final = 1.0
LOSS_WORDS: Final[Mapping[Loss, str]] = {
    Loss.KERNEL_ENDED_BY_OWNER: "A notebook's kernel is ended, as its owner asked.",
    Loss.ALL_KERNELS_ENDED_BY_OWNER: "All kernels that hold a GPU are ended, as their owner asked.",
    Loss.ORPHAN_OF_A_DEAD_SERVER: "A parked kernel is ended: its notebook server died, so nobody can use it any more.",
    Loss.OVERRUN_OF_ITS_OWN: "A program is ended: it held more GPU memory than its share allows, and stayed there.",
    Loss.JOB_STOPPED_AFTER_GRACE: "A job is ended: it was asked to yield, and still ran when its grace was over.",
    Loss.KERNEL_ENDED_WHILE_IDLE: "A notebook's kernel is ended: it was idle for longer than the admin allows.",
    Loss.SERVER_STOPPED_WHILE_IDLE: "A notebook server is stopped: nobody used it for longer than the admin allows.",
    Loss.SERVER_STOPPED_FOR_ITS_AGE: "A notebook server is stopped: it is as old as the admin allows.",
}


@dataclass(frozen=True, slots=True)
class News:
    """One piece of news.

    Attributes:
        key: the same for each attempt to tell it, and never for other news; letters, digits, ``_`` and ``-``.
        event: which, of `news_configuration.EVENTS`.
        at: when it happened, in seconds since the epoch.
        until: when nobody needs to hear of it any more.
        number: of the line of the audit; 0 for news that are in no audit.
        data: what is told.
    """

    key: str
    event: str
    at: float
    until: float
    number: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> bytes:
        """As it is sent: ``type``, ``timestamp`` and ``data``, as the scheme recommends."""
        told = {"type": f"gpushare.{self.event}", "timestamp": _iso(self.at), "data": dict(self.data)}
        return json.dumps(told, ensure_ascii=True, separators=(",", ":")).encode()


def news_of(line: Recorded, lease: Lease | None) -> News | None:
    """What a line of the audit is to people; None for most of them. *lease* is as it is now, None once it is over."""
    entry = line.entry
    if entry.verb is Verb.LOSS:
        loss = Loss(entry.details["loss"])
        return _news("loss", line, loss=loss.value, text=LOSS_WORDS[loss])
    if entry.verb in VERBS_OF["called_back"] and "again" not in entry.details:
        reason = entry.reason or Reason.CALLED_BACK
        return _news("called_back", line, reason=reason.value, text=explain(reason).text)
    if entry.verb is Verb.GRANTED and lease is not None and entry.at - lease.submitted >= _WAITED_S:
        return _news("your_turn", line, text=f"Your GPU share of {_share_of(entry)} is there.")
    return None


def idle_soon(lease: Lease, since: float, at: float, parks_at: float) -> News:
    """The share of *lease* has been idle *since* then, and is parked at *parks_at* unless somebody uses it."""
    share = str(lease.amount)
    text = f"Your GPU share of {share} is idle and parked soon, unless you keep it; the next cell brings it back."
    data = {"person": lease.person, "share": share, "parks_at": _iso(parks_at), "text": text}
    return News(f"idle-{lease.id}-{int(since * 1000)}", "idle_soon", at, parks_at, data=data)


def _news(event: str, line: Recorded, **more: str) -> News:
    entry = line.entry
    data = {"person": entry.person, "share": _share_of(entry), **more}
    # Books that were restored from a backup count on from there: the time tells the new line from the lost one.
    key = f"audit-{line.number}-{int(entry.at * 1000)}"
    return News(key, event, entry.at, entry.at + _GOOD_FOR_S[event], line.number, data)


def _share_of(entry: Entry) -> str:
    """GPUs, as a decimal."""
    return "0" if entry.amount is None else str(entry.amount)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
