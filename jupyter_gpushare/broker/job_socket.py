"""While no broker answers: a notebook that wants its share back asks the jobs that have it on loan, on this host.

Each job's supervisor listens on a Unix socket of its own in a directory of its user's. Its answer is a hint: room is
proven by the devices, as always. While the broker answers supervisors refuse, since then it decides.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from jupyter_gpushare.broker.places import user_runtime

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

__all__ = ["LONGEST_LINE", "YieldAnswer", "YieldRequest", "ask_jobs", "jobs_directory"]

LONGEST_LINE: Final = 16 << 10
_Device = Annotated[str, msgspec.Meta(max_length=200)]


class YieldRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody wants what is lent of these *devices* back, for a lease of that id."""

    devices: Annotated[list[_Device], msgspec.Meta(min_length=1, max_length=1024)]
    because_of: Annotated[str, msgspec.Meta(max_length=64)] = ""


class YieldAnswer(msgspec.Struct, frozen=True):
    """Whether nothing of the job is on its devices any more; if not, why.

    *again_s* is not 0 where the job would answer otherwise after so many seconds.
    """

    released: bool
    why: str = ""
    again_s: float = 0.0


def jobs_directory(environ: Mapping[str, str]) -> Path:
    """Where the supervisors of one user's jobs listen; it need not exist yet."""
    return user_runtime(environ) / "jobs"


async def ask_jobs(directory: Path, devices: Collection[str], because_of: str, deadline_s: float) -> list[YieldAnswer]:
    """Ask every job at once to leave *devices*; what those answered that did so in time."""
    sockets = await asyncio.to_thread(_sockets, directory)
    request = YieldRequest(sorted(devices), because_of)
    answers = await asyncio.gather(*(_ask(path, request, deadline_s) for path in sockets))
    return [answer for answer in answers if answer is not None]


def _sockets(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_socket())
    except OSError:
        return []  # no job has ever run here


async def _ask(path: Path, request: YieldRequest, deadline_s: float) -> YieldAnswer | None:
    """None from one that has died, or does not answer in time."""
    with suppress(OSError, TimeoutError, ValueError, msgspec.DecodeError):
        async with asyncio.timeout(deadline_s):
            reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
            try:
                writer.write(msgspec.json.encode(request) + b"\n")
                return msgspec.json.decode(await reader.readline(), type=YieldAnswer)
            finally:
                writer.close()
    return None
