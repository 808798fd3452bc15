"""What moving state, starting and saving cost in time. Every figure is an assumption; this is the one list of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    import random

__all__ = ["Costs"]

_GB: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds and bytes.

    The speeds of the driver's own path, 4 GB/s out, 7 GB/s in and 0.25 s for each move, were seen by others on one GPU
    with PCIe 4 (driver 595 and 580). A session of several GPUs moves them one after the other. How much state a session
    holds nobody has published: here it is log-normal for each GPU.

    Attributes:
        out_bytes_per_s: device to host.
        in_bytes_per_s: host to device.
        move_s: for locking, unlocking and the first byte, for each move.
        median_state: of one GPU of a session or job.
        sigma_state: of the logarithm of that.
        largest_state: of one GPU.
        spawn_s: a notebook server asks for its share this long before its first cell.
        restart_s: a session that was ended: new server, imports, data loaded again.
        job_start_s: a job's start until it computes, its last saved state loaded.
        job_step_s: between two safe points.
        job_save_s: what saving to disk takes a job that saves itself when it is told to stop.
        job_save_every_s: between two saves that a job makes by itself.
        job_periodic_save_s: what each of those takes.
        grace_s: what a job gets to save itself.
        safe_points: the part of the jobs that offer safe points.
        deaf: the part of the jobs that save nothing when they are told to stop.
        job_state: what every job keeps on its GPU; None draws it as a session's.
        jitter: by how much each copy and save takes more or less than that: the sigma of the logarithm.
    """

    out_bytes_per_s: float = 4.0 * _GB
    in_bytes_per_s: float = 7.0 * _GB
    move_s: float = 0.25
    median_state: float = 8.0 * _GB
    sigma_state: float = 1.0
    largest_state: float = 70.0 * _GB
    spawn_s: float = 60.0
    restart_s: float = 60.0
    job_start_s: float = 20.0
    job_step_s: float = 1.0
    job_save_s: float = 5.0
    job_save_every_s: float = 900.0
    job_periodic_save_s: float = 5.0
    grace_s: float = 30.0
    safe_points: float = 0.4
    deaf: float = 0.2
    job_state: Memory | None = None
    jitter: float = 0.0

    def state(self, gpus: float, rng: random.Random) -> Memory:
        """What a session or job with that many *gpus* keeps on them."""
        one = min(rng.lognormvariate(math.log(self.median_state), self.sigma_state), self.largest_state)
        return Memory(max(1, int(one * gpus)))

    def about(self, seconds: float, rng: random.Random) -> float:
        """*seconds*, a little more or less."""
        return seconds * rng.lognormvariate(0.0, self.jitter) if self.jitter else seconds

    def out_s(self, memory: Memory) -> float:
        """How long *memory* takes to the host."""
        return self.move_s + memory.bytes / self.out_bytes_per_s

    def in_s(self, memory: Memory) -> float:
        """How long *memory* takes back to the device."""
        return self.move_s + memory.bytes / self.in_bytes_per_s
