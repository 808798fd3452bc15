"""The figures as tables, and each target beside what was measured."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from benchmarks.results import Table, Verdict, spread

if TYPE_CHECKING:
    from benchmarks.hub.overview import Overview
    from benchmarks.hub.spawns import Spawns

__all__ = ["tables", "verdicts"]

_ADDED_MS: Final = 15.0
_RENDER_MS: Final = 500.0
_STREAM_KB: Final = 20.0
_SPAN_S: Final = 5
_SPAWN_NOTE: Final = (
    "Median (lowest to highest), in milliseconds, from sending the request over REST to the moment in which the hub "
    "begins the process of the server. Two hubs on one machine, asked in turns; the servers are light ones."
)
_PAGE_NOTE: Final = (
    "The page: median (lowest to highest), from sending the request to the whole answer, through the hub's proxy, "
    "identification included; the books change between two requests. The stream: what one open page receives over its "
    "WebSocket while sessions park and come back, mean."
)


def tables(spawns: Spawns | None, overview: Overview | None) -> list[Table]:
    """Everything measured."""
    found = []
    if spawns is not None:
        columns = ["the hub", "rounds", "request to process", "added to a round without us"]
        rows = [
            ["without us", str(len(spawns.without)), _ms(spawns.without), ""],
            ["with us, half a GPU", str(len(spawns.with_us)), _ms(spawns.with_us), _ms(spawns.added)],
            [
                "with us, half a GPU, by a program that names no project",
                str(len(spawns.no_project)),
                _ms(spawns.no_project),
                "",
            ],
            ["with us, no GPU", str(len(spawns.no_gpu)), _ms(spawns.no_gpu), ""],
        ]
        found.append(Table("A server's start", columns, rows, _SPAWN_NOTE))
    if overview is not None:
        columns = [
            "devices",
            "sessions",
            "moves a second",
            "page, ms",
            "page, KB",
            "stream, KB/s",
            "fullest second, KB",
        ]
        row = [
            str(overview.devices),
            str(overview.sessions),
            f"{overview.moves_per_s:g}",
            _ms(overview.page_s),
            f"{overview.page_bytes / 1e3:.0f}",
            f"{statistics.fmean(overview.bytes_per_s) / 1e3:.1f}",
            f"{max(overview.bytes_per_s) / 1e3:.1f}",
        ]
        found.append(Table("The overview", columns, [row], _PAGE_NOTE))
    return found


def verdicts(spawns: Spawns | None, overview: Overview | None) -> list[Verdict]:
    """Each target."""
    added = None if spawns is None else statistics.median(spawns.added) * 1e3
    page = None if overview is None else statistics.median(overview.page_s) * 1e3
    stream = None if overview is None else overview.fullest(_SPAN_S) / 1e3
    return [
        _verdict(f"the hook adds at most {_ADDED_MS:g} ms to a server's start, median", added, _ADDED_MS, "ms"),
        _verdict(f"the overview in at most {_RENDER_MS:g} ms, median", page, _RENDER_MS, "ms"),
        _verdict(
            f"an open overview gets at most {_STREAM_KB:g} KB/s, in its fullest {_SPAN_S} s", stream, _STREAM_KB, "KB/s"
        ),
    ]


def _verdict(target: str, measured: float | None, most: float, unit: str) -> Verdict:
    if measured is None:
        return Verdict(target, "not measured", None)
    return Verdict(target, f"{measured:.1f} {unit}", measured <= most)


def _ms(seconds: list[float]) -> str:
    return spread([each * 1e3 for each in seconds], 1)
