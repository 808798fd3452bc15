"""The hand that kills a broker at a given step, in the broker's own process.

The product knows nothing of it. `install` wraps what the broker does to its books; an order in a file names a step, and
the process ends by SIGKILL when it comes to that step. A commit's steps are named by what is in the audit of its
change: ``before``, ``inside`` (written and not committed), ``after`` (committed and nobody told) and ``published``.
"""

from __future__ import annotations

import os
import signal
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker import holders, reconciler, service
from jupyter_gpushare.broker.sql import ledger as sql_ledger
from jupyter_gpushare.broker.sql import upgrade
from jupyter_gpushare.rules.change import Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ["COMMITS", "MOMENTS", "OPENING", "ORDER", "install"]

#: In the environment: the file with the step.
ORDER: Final = "GPUSHARE_SOAK_BROKER_ORDER"
MOMENTS: Final = ("before", "inside", "after", "published")
#: Every kind of change that holders, devices, rules and admins make under the soak's load.
COMMITS: Final = (
    Verb.SUBMITTED,
    Verb.GRANTED,
    Verb.STARTED,
    Verb.ASKED_TO_PARK,
    Verb.PARKED,
    Verb.NOT_PARKED,
    Verb.WANTED_BACK,
    Verb.RESUMING,
    Verb.RESUMED,
    Verb.CALLED_BACK,
    Verb.RECLAIMED,
    Verb.YIELDED,
    Verb.SHARE_CHANGED,
    Verb.VANISHED,
    Verb.RETURNED,
    Verb.FENCED,
    Verb.ENDED,
    Verb.DEVICE_CHANGED,
    Verb.PARKING_SWITCHED,
)
#: Where a broker is on its way from its start until it listens, in that order.
OPENING: Final = (
    "opening the ledger",
    "before taking over",
    "inside taking over",
    "after taking over",
    "books loaded",
    "before the policy",
    "devices seen",
    "holders awaited",
    "listening",
)


def install(order: Path) -> None:
    """Have this process killed at the step that *order* names, whenever that is written."""
    obey = _Hand(order).at
    _around(sql_ledger.SqlLedger, "commit", before=_looking(obey, "before"), after=_looking(obey, "after"))
    _around(sql_ledger, "write_change", after=lambda _connection, change, *_: _looking(obey, "inside")(None, change))
    _around(
        reconciler.Reconciler,
        "_publish",
        after=lambda _, published: _looking(obey, "published")(None, published.change),
    )
    _around(sql_ledger, "upgrade", before=lambda *_: obey("opening the ledger"))
    _around(upgrade, "_run", before=lambda *_: obey("before migrating"), after=lambda *_: obey("inside migrating"))
    _around(sql_ledger, "write_leader", after=lambda *_: obey("inside taking over"))
    _around(
        sql_ledger.SqlLedger,
        "take_over",
        before=lambda *_: obey("before taking over"),
        after=lambda *_: obey("after taking over"),
    )
    _around(sql_ledger.SqlLedger, "load", after=lambda *_: obey("books loaded"))
    _around(service.Broker, "_build", after=lambda *_: obey("before the policy"))
    _around(holders.Holders, "start", before=lambda *_: obey("devices seen"), after=lambda *_: obey("holders awaited"))
    _around(service.Broker, "_listen", after=lambda *_: obey("listening"))


class _Hand:
    """Looks for an order; carries it out once."""

    def __init__(self, order: Path) -> None:
        self._order = order

    def at(self, *steps: str) -> None:
        """This process is at *steps*."""
        try:
            wanted = self._order.read_text()
        except FileNotFoundError:
            return
        if wanted in steps:
            self._order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def _looking(obey: Callable[..., None], moment: str) -> Callable[..., None]:
    """What looks at each kind of line in the audit of a change."""

    def look(_: object, change: Any) -> None:
        obey(*(f"{moment} {verb}" for verb in _verbs(change)))

    return look


def _verbs(change: Any) -> Iterable[str]:
    return {entry.verb.value for entry in change.audit}


def _nothing(*_: object) -> None:
    pass


def _around(
    owner: Any, name: str, *, before: Callable[..., None] = _nothing, after: Callable[..., None] = _nothing
) -> None:
    """Replace *name* of *owner* by itself with something before and after it."""
    original = getattr(owner, name)

    @wraps(original)
    def wrapped(*args: Any, **options: Any) -> Any:
        before(*args)
        result = original(*args, **options)
        after(*args)
        return result

    setattr(owner, name, wrapped)
