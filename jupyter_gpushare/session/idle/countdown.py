"""The countdown before a kernel is parked by itself. Nobody's GPU goes without the whole warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.session.idle.evidence import Activity
from jupyter_gpushare.session.idle.policy import Active, Idle

if TYPE_CHECKING:
    from jupyter_gpushare.session.idle.policy import Judgement

__all__ = ["Countdown"]

_A_POLL: Final = Active(Activity.KERNEL_BUSY)


class Countdown:
    """Of one kernel.

    A lock that ends, a policy that changes or a server that looked late can make a kernel overdue all at once. Its
    warning begins then, and is as long as any other.

    Attributes:
        ends_at: when it ends, in seconds since the epoch; None while none runs.
    """

    def __init__(self) -> None:
        self.ends_at: float | None = None

    def follow(self, judgement: Judgement | None, now: float) -> None:
        """Take the newest judgement; None for a kernel that cannot be parked anyway."""
        if judgement == _A_POLL:
            return  # a poll, most likely, which must not begin the time anew
        if isinstance(judgement, Idle) and judgement.parks_at is not None and judgement.warns_at is not None:
            self._run(judgement.parks_at, judgement.warns_at, now)
        else:
            self.ends_at = None

    def shown(self, judgement: Judgement, before: Judgement | None) -> Judgement:
        """*judgement* as people are to see it: with the end of this countdown, or none, and without a poll's flicker.

        Args:
            judgement: the newest.
            before: what was shown last.
        """
        if judgement == _A_POLL and self.ends_at is not None and before is not None:
            return before
        if not isinstance(judgement, Idle) or judgement.parks_at is None or judgement.warns_at is None:
            return judgement
        if self.ends_at is None:
            return judgement
        return Idle(judgement.since, self.ends_at, self.ends_at - (judgement.parks_at - judgement.warns_at))

    def has_ended(self, judgement: Judgement, now: float) -> bool:
        """Whether the kernel is due, and idle at this very moment."""
        return isinstance(judgement, Idle) and self.ends_at is not None and now >= self.ends_at

    def _run(self, parks_at: float, warns_at: float, now: float) -> None:
        if now < warns_at:
            self.ends_at = None
        elif self.ends_at is None:
            self.ends_at = max(parks_at, now + parks_at - warns_at)
        else:
            self.ends_at = max(parks_at, self.ends_at)
