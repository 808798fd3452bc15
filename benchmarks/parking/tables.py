"""The figures as tables, and each target of this project beside what was measured."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any, Final

from benchmarks.parking.moves import BARE, BUS, OURS
from benchmarks.parking.plan import GB
from benchmarks.parking.sharing import ALL_WORK
from benchmarks.results import Table, Verdict, spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.parking.moves import Moves
    from benchmarks.parking.sharing import Sharing

__all__ = ["observed", "tables", "verdicts"]

_FACTOR: Final = 1.05
_ABOVE_S: Final = 0.1
_LONGEST: Final = 160


def tables(moves: Moves, sharing: Sharing) -> list[Table]:
    """Everything measured."""
    return [
        _moved("Park", moves.out, moves.left_out, "From the order to the attested end: lock and checkpoint."),
        _moved("Resume", moves.back, moves.left_out, "From the order to the attested end: room, restore and unlock."),
        _shared(sharing),
    ]


def verdicts(moves: Moves, sharing: Sharing) -> list[Verdict]:  # noqa: ARG001  # slowdowns have no target
    """Each target, judged by medians."""
    contents = Verdict("contents the same after every move", "the same" if moves.intact else "others", moves.intact)
    return [contents, *(_within(moves, size) for size in [*moves.out, *moves.left_out])]


def observed(figures: Mapping[str, Any]) -> Table:
    """What `make test-gpu` put on record, in its own words."""
    rows = [[name, _short(json.dumps(seen))] for name, seen in sorted(figures.items())]
    return Table("Seen by the tests on this device", ["what", "seen"], rows, "From the figures of `make test-gpu`.")


def _moved(
    title: str, times: Mapping[int, Mapping[str, Sequence[float]]], left_out: Mapping[int, str], note: str
) -> Table:
    rows = []
    for size, ways in times.items():
        for way in (OURS, BARE, BUS):
            rate = size / GB / statistics.median(ways[way])
            rows.append([f"{size / GB:g} GB", way, spread(ways[way], 3), f"{rate:.1f}"])
    rows += [[f"{size / GB:g} GB", "not measured", why, ""] for size, why in left_out.items()]
    note += " The copy moves as many bytes through two page-locked buffers and keeps nothing: what the bus can do."
    return Table(title, ["size", "how", "seconds", "GB/s"], rows, f"{note} Medians (lowest to highest).")


def _shared(sharing: Sharing) -> Table:
    alone = statistics.median(sharing.alone)
    rows = [["1", "works alone", spread(sharing.alone, 1), "1.00"]]
    for count, situations in sharing.rates.items():
        for situation, rates in situations.items():
            rows.append([str(count), situation, spread(rates, 1), spread([alone / rate for rate in rates])])
    rows += [[str(count), "not measured", why, ""] for count, why in sharing.left_out.items()]
    return Table(
        "Sessions on one device",
        ["sessions", "what they do", "rounds a second, each", "times slower, each"],
        rows,
        f'Arithmetic in kernels of some milliseconds. Median over the sessions (lowest to highest); with "{ALL_WORK}" '
        "the driver's time slices are shared equally, so as many times slower as there are sessions is fair.",
    )


def _within(moves: Moves, size: int) -> Verdict:
    target = f"{size / GB:g} GB, park and resume: at most {_FACTOR} x the bare driver calls + {_ABOVE_S * 1000:.0f} ms"
    if size in moves.left_out:
        return Verdict(target, moves.left_out[size], None)
    ours, bare = (_both_ways(moves, size, way) for way in (OURS, BARE))
    allowed = _FACTOR * bare + _ABOVE_S
    return Verdict(target, f"{ours:.2f} s, and {allowed:.2f} s are allowed", ours <= allowed)


def _both_ways(moves: Moves, size: int, way: str) -> float:
    return statistics.median(moves.out[size][way]) + statistics.median(moves.back[size][way])


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
