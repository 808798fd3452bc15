"""Samples without numbers: before the first reading, and while a driver does not answer."""

from __future__ import annotations

import time

from jupyter_gpushare.devices.attribution import Attributed
from jupyter_gpushare.devices.device import Driver, DriverState, Reading
from jupyter_gpushare.session.meter import Sample

__all__ = ["no_answer_for", "not_read_yet"]


def not_read_yet() -> Sample:
    """Before the first reading."""
    return _without_numbers(Driver("none", DriverState.READY), "The GPUs have not been read yet.")


def no_answer_for(seconds: int) -> Sample:
    """What to show while a driver call hangs: no old number may look like one of now."""
    reason = f"a call has not returned for {seconds} s. It is waited for; ask your admin if this stays."
    return _without_numbers(Driver("none", DriverState.LOST, reason=reason), "The GPU driver does not answer.")


def _without_numbers(driver: Driver, reason: str) -> Sample:
    unknown = Reading.unavailable(reason)
    nothing = Attributed((), (), unknown, unknown, trusted=False, reason=reason)
    return Sample(time.time(), time.monotonic(), driver, (), (), nothing)
