"""Having something decided on and kept, for somebody who is told in words when that cannot be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.public_error import unavailable
from jupyter_gpushare.broker.reconciler import StoppedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.broker.reconciler import Reconciler
    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.event import Event

__all__ = ["submit"]


async def submit(reconciler: Reconciler, events: Sequence[Event], within_s: float) -> Change:
    """Have *events* decided on and kept.

    Raises:
        PublicError: 503: the ledger cannot be used now; what was asked is done when it can.
    """
    try:
        async with asyncio.timeout(within_s):
            return await reconciler.submit(events)
    except TimeoutError:
        raise unavailable("What you asked is noted, and done as soon as they can be kept.") from None
    except (LedgerError, StoppedError) as error:
        raise unavailable(str(error)) from None
