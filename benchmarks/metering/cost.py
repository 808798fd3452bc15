"""What a process costs, from proc(5)."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CpuClock", "resident_bytes"]

_NANOSECONDS = 1e9


class CpuClock:
    """The CPU time of all threads of *pid* since the clock was made or last read.

    The first number of ``/proc/<pid>/task/<tid>/schedstat`` is the thread's time on a CPU in nanoseconds, where other
    figures count ticks of 10 ms. A thread that ends takes its time along: the servers measured keep theirs.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._seen = self._read()

    def lap_s(self) -> float:
        """CPU seconds since the last lap."""
        now, before = self._read(), self._seen
        self._seen = now
        return sum(spent - before.get(thread, 0) for thread, spent in now.items()) / _NANOSECONDS

    def _read(self) -> dict[str, int]:
        read = ((task.name, _thread_ns(task)) for task in self._tasks.iterdir())
        return {name: spent for name, spent in read if spent is not None}


def _thread_ns(task: Path) -> int | None:
    try:
        return int((task / "schedstat").read_text().split()[0])
    except FileNotFoundError:
        return None


def resident_bytes(pid: int) -> int:
    """The memory of *pid* that is in RAM (``VmRSS``)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has no memory of its own")
