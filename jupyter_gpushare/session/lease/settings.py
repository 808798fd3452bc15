"""What the admin decided about the broker, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LeaseSettings"]


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Times in seconds.

    Attributes:
        broker: off, auto, start, or an address; empty for what the environment says.
        project: whose quota the session counts against; empty for what the environment says.
        grace_s: after how long without the broker a parked notebook comes back on its own proof of room.
        agree_s: how long a park may wait for the broker's word.
        start_wait_s: how long a kernel's start waits for the share.
        look_s: between two looks for a broker that is not there.
        retry_s: between two claims after one was refused.
        report_s: between two reports of use.
        jobs_leave_s: how long jobs that use the share have to leave it while the broker is away.
        ask_again_s: between two times that they are asked.
    """

    broker: str = ""
    project: str = ""
    grace_s: float = 30.0
    agree_s: float = 60.0
    start_wait_s: float = 5.0
    look_s: float = 5.0
    retry_s: float = 30.0
    report_s: float = 10.0
    jobs_leave_s: float = 60.0
    ask_again_s: float = 5.0
