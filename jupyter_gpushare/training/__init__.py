"""Jobs that live on free and lent shares: ``jupyter gpushare run``, and what a job may say to it.

In a training program::

    from jupyter_gpushare.training import on_reclaim, safe_point, share

    on_reclaim(save)          # called before the job gives its GPU back
    for step in steps:
        train(step)
        safe_point()          # here it may be parked; costs a microsecond

Outside ``jupyter gpushare run`` all three do nothing. Importing this loads the standard library alone.
"""

from __future__ import annotations

from jupyter_gpushare.training.job import JobShare, on_reclaim, safe_point, share

__all__ = ["JobShare", "on_reclaim", "safe_point", "share"]
