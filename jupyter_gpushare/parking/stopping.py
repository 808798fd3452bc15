"""Stopping processes and letting them go on, never one that has merely the same id."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.identity import is_alive

if TYPE_CHECKING:
    from jupyter_gpushare.devices.identity import Identity

__all__ = ["go_on", "send_signal", "stop"]


def stop(process: Identity) -> bool:
    """Stop *process* with all its threads; False when it is gone or is not ours."""
    return send_signal(process, signal.SIGSTOP)


def go_on(process: Identity) -> bool:
    """Let *process* go on; False when it is gone or is not ours. Harmless for one that runs."""
    return send_signal(process, signal.SIGCONT)


def send_signal(process: Identity, number: signal.Signals) -> bool:
    """Send a signal to exactly *process*; False when it is gone or is not ours."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # The handle keeps the id from meaning another process between the comparison and the signal.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
