"""The sentence for a lease's reason, with what is true of that lease now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.admission import values_of
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.rules.reason import explain

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.reason import Reason
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["explain_lease"]


def explain_lease(reason: Reason, lease: Lease, books: Snapshot) -> Message:
    """Why *lease* waits, was refused, yields or failed, for people."""
    message = explain(reason, **values_of(books, lease.evolve(reason=reason)))
    # Only what the sentence says: a reason is also shown to people whom the rest does not concern.
    values = {key: value for key, value in message.values.items() if f"{{{key}}}" in message.template}
    return Message(message.code, message.template, values)
