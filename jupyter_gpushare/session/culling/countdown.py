"""When something ends if nothing changes, and the warning before it, which nobody gets less than all of. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gpushare.session.culling.messages import Outlook
    from jupyter_gpushare.session.culling.use import KernelUse

__all__ = ["Countdown", "due"]


def due(use: KernelUse, outlook: Outlook, kept_until: float | None) -> float | None:
    """When a kernel is to be ended, its warning not counted, in seconds since the epoch; None for never.

    Args:
        use: how it is with the kernel.
        outlook: what the admin wants.
        kept_until: until when its person keeps it.
    """
    is_parked = use.parked_since is not None
    limit_s = outlook.end_parked_after_s if is_parked else outlook.end_kernels_after_s
    if limit_s is None or use.idle_since is None or not use.holds:
        return None
    since = max(use.idle_since, use.parked_since or 0.0)
    # A lock that ends has a warning of its own after it.
    return max(since + limit_s, 0.0 if kept_until is None else kept_until + outlook.warning_s)


@dataclass(slots=True)
class Countdown:
    """Of one kernel. *warned_since* is since when people have been warned; None while they are not."""

    warned_since: float | None = None

    def follow(self, at: float | None, warning_s: float, now: float) -> float | None:
        """Take the newest moment that the kernel is *due* at; when it ends in truth, None while nothing counts down.

        What becomes due all at once, as by a limit that was shortened, is warned of from now on.
        """
        if at is None or now < at - warning_s:
            self.warned_since = None
            return None
        if self.warned_since is None:
            self.warned_since = now
        return max(at, self.warned_since + warning_s)
