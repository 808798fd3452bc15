"""How long copies and saves take, as far as anybody knows: of a host, of a job, of jobs like it. For estimates only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_gpushare.rules.copies import host_of
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.quantity import Memory
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Leaving", "Pace", "Paces"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a host moves memory each way: bytes per second, and the seconds that each move costs besides.

    The defaults are what others measured through CUDA's driver on PCIe 4, as in `parking.speed`.
    """

    out_bytes_per_s: float = 4e9
    in_bytes_per_s: float = 7e9
    out_fixed_s: float = 0.25
    in_fixed_s: float = 0.25

    def park_s(self, memory: Memory) -> float:
        """Seconds that *memory* takes to the host."""
        return self.out_fixed_s + memory.bytes / self.out_bytes_per_s

    def resume_s(self, memory: Memory) -> float:
        """Seconds that *memory* takes back to the device."""
        return self.in_fixed_s + memory.bytes / self.in_bytes_per_s


@dataclass(frozen=True, slots=True)
class Leaving:
    """How long jobs take to leave their devices once they are asked; None where nobody has seen it.

    Attributes:
        save_s: until one has saved itself and is gone, in seconds.
        safe_point_s: until one is at its next safe point, where its copy begins, in seconds.
    """

    save_s: float | None = None
    safe_point_s: float | None = None


@dataclass(frozen=True, slots=True)
class Paces:
    """All that is known.

    Attributes:
        hosts: by name.
        usual: of a host of which nothing is known.
        jobs: by the id of the lease.
        projects: of a job that has not been seen leaving: by its project.
    """

    hosts: Mapping[str, Pace] = field(default_factory=dict)
    usual: Pace = Pace()
    jobs: Mapping[str, Leaving] = field(default_factory=dict)
    projects: Mapping[str, Leaving] = field(default_factory=dict)

    def takes_s(self, snapshot: Snapshot, lease: Lease) -> float:
        """How long *lease* takes for what its status asks, from when it entered it, in seconds."""
        pace = self.hosts.get(host_of(snapshot, lease), self.usual)
        if lease.status is Status.RESUMING:
            return pace.resume_s(lease.host_memory)
        if lease.status is Status.PARKING:
            wait_s = 0.0 if lease.is_session else self._leaving(lease).safe_point_s
            return (wait_s or 0.0) + pace.park_s(lease.host_memory)
        grace_s = pool_of(snapshot, lease).grace_s if lease.grace_s is None else lease.grace_s
        save_s = self._leaving(lease).save_s
        return grace_s if save_s is None else min(save_s, grace_s)

    def _leaving(self, lease: Lease) -> Leaving:
        own = self.jobs.get(lease.id, Leaving())
        alike = self.projects.get(lease.project, Leaving())
        return Leaving(
            alike.save_s if own.save_s is None else own.save_s,
            alike.safe_point_s if own.safe_point_s is None else own.safe_point_s,
        )
