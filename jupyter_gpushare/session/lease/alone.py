"""While the broker is away for long: whoever uses what this session lends is asked itself, before room is looked for.

On the same host, and for jobs of the same user. Their answers are hints: room is proven on the device, as always.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.job_socket import ask_jobs

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.session.lease.settings import LeaseSettings
    from jupyter_gpushare.session.parking.record import Parking

__all__ = ["Alone"]


class Alone:
    """One absence of the broker after the other. Lives on the event loop.

    Args:
        jobs: the directory in which the supervisors of this user's jobs listen.
        settings: times.
        changed: called when the jobs have answered.
        log: where trouble goes.
    """

    def __init__(
        self, jobs: Path, settings: LeaseSettings, *, changed: Callable[[], None], log: logging.Logger
    ) -> None:
        self._jobs = jobs
        self._settings = settings
        self._changed = changed
        self._log = log
        self._asking: asyncio.Task[None] | None = None
        self._has_answer = False
        self._again_at = 0.0
        self._coming_back: dict[str, Parking] = {}

    @property
    def is_asking(self) -> bool:
        """Whether jobs have been asked to leave, and have not had their time for it yet."""
        return not self._has_answer and (self._asking is not None or self._again_at > 0)

    def may_look_for_room(self, lease: LeaseModel | None) -> bool:
        """Whether those who use what *lease* lends were asked to leave, and had their time for it."""
        return self._has_answer or lease is None or not lease.grants

    def ask(self, lease: LeaseModel | None) -> None:
        """Ask them, unless that was done a moment ago."""
        if lease is not None and lease.grants and self._asking is None and time.monotonic() >= self._again_at:
            self._asking = asyncio.get_running_loop().create_task(self._ask(lease))

    def lets_back(self, parking: Parking) -> None:
        """This kernel comes back without the broker, if there is room."""
        self._coming_back[parking.kernel_id] = parking

    def came_back(self) -> bool:
        """Whether a kernel has come back so since the last time."""
        back = [key for key, parking in self._coming_back.items() if parking.parked is None]
        for key in back:
            del self._coming_back[key]
        return bool(back)

    def forget(self) -> None:
        """The broker answers: it decides again."""
        self._has_answer, self._again_at = False, 0.0
        if self._asking is not None:
            self._asking.cancel()

    async def stop(self) -> None:
        """End with the server."""
        self.forget()
        if self._asking is not None:
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self, lease: LeaseModel) -> None:
        devices = {grant.device for grant in lease.grants}
        pause_s = self._settings.ask_again_s
        try:
            answers = await ask_jobs(self._jobs, devices, lease.id, self._settings.jobs_leave_s)
            # A job that still waits for the broker will leave in a moment: its memory is not room until then.
            waits_s = max((answer.again_s for answer in answers), default=0.0)
            self._has_answer = self._has_answer or waits_s <= 0
            pause_s = min(pause_s, waits_s) if waits_s > 0 else pause_s
        finally:
            self._asking, self._again_at = None, time.monotonic() + pause_s
        left = sum(answer.released for answer in answers)
        self._log.info("The broker is away: of %d jobs here %d left this session's share", len(answers), left)
        self._changed()
