"""The last day as stacked areas, drawn on the server: notebooks, what was parked and lent, training, of all GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.pages.wording import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from jupyter_gpushare.broker.hub_wire import DayAnswer, DayModel

__all__ = ["HEIGHT", "WIDTH", "Area", "DayPicture", "HourRow", "picture_of"]

#: In the drawing's own units; it is stretched to the page.
WIDTH: Final = 1000
HEIGHT: Final = 160
_HOUR_S: Final = 3600
_DAY_S: Final = 86400
#: A little room above the dashed line.
_HEADROOM: Final = 1.08
#: So many steps without a slot are a gap.
_GAP: Final = 1.5
#: From the ground up: what is drawn, with the words for it.
_LAYERS: Final = (
    ("run", "notebooks"),
    ("park", "parked, used by nobody"),
    ("lent", "lent"),
    ("train", "training"),
    ("foreign", "programs without a share"),
)


@dataclass(frozen=True, slots=True)
class Area:
    """One layer: an SVG path for each time without a gap, as one."""

    use: str
    word: str
    path: str


@dataclass(frozen=True, slots=True)
class HourRow:
    """One hour in numbers, GPUs on average: for who cannot see the picture."""

    at: Markup
    amounts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DayPicture:
    """The picture and what it says in words.

    Attributes:
        whole: all GPUs there were at most: the dashed line, at *whole_y*.
    """

    areas: Sequence[Area]
    whole: float
    whole_y: float
    begins: Markup
    text: str
    words: Sequence[str]
    hours: Sequence[HourRow]


@dataclass(frozen=True, slots=True)
class _Scale:
    """From times and GPUs to the drawing: *begins* is its left edge, *ends* its right one, *most* its top."""

    begins: float
    ends: float
    most: float

    def x(self, at: float) -> float:
        """A moment."""
        part = (at - self.begins) / (self.ends - self.begins)
        return round(WIDTH * min(1.0, max(0.0, part)), 1)

    def y(self, amount: float) -> float:
        """Some GPUs, from the ground up."""
        return round(HEIGHT - HEIGHT * amount / self.most, 1)


def picture_of(day: DayAnswer) -> DayPicture | None:
    """The picture of *day*; None while there is nothing to draw.

    It ends with the last slot, so that it moves only with them, and begins a day before; where less is known, with the
    first one, but not later than an hour before.
    """
    whole = max((_whole(slot) for slot in day.slots), default=0.0)
    if whole <= 0:
        return None
    ends = day.slots[-1].at + day.step_s
    begins = min(ends - _HOUR_S, max(ends - _DAY_S, day.slots[0].at))
    scale = _Scale(begins, ends, whole * _HEADROOM)
    areas = [
        Area(use, word, _area(day, place, scale))
        for place, (use, word) in enumerate(_LAYERS)
        if any(_amounts(slot)[place] > 0 for slot in day.slots)
    ]
    return DayPicture(areas, whole, scale.y(whole), clock(begins), _text(day.slots), _heads(), _by_hour(day))


def _amounts(slot: DayModel) -> tuple[float, ...]:
    return (slot.running, slot.parked, slot.lent, slot.training, slot.foreign)


def _whole(slot: DayModel) -> float:
    return sum(_amounts(slot)) + slot.free


def _heads() -> list[str]:
    return [*(word for _, word in _LAYERS), "free"]


def _area(day: DayAnswer, place: int, scale: _Scale) -> str:
    """The area between the layers below *place* and those with it. A time without a broker is left blank."""
    pieces = []
    for stretch in _stretches(day):
        times = [*(slot.at for slot in stretch), stretch[-1].at + day.step_s]
        slots = [*stretch, stretch[-1]]
        low = [(scale.x(at), scale.y(sum(_amounts(slot)[:place]))) for at, slot in zip(times, slots, strict=True)]
        high = [(scale.x(at), scale.y(sum(_amounts(slot)[: place + 1]))) for at, slot in zip(times, slots, strict=True)]
        pieces.append("M" + "L".join(f"{x:g} {y:g}" for x, y in (*high, *reversed(low))) + "Z")
    return "".join(pieces)


def _stretches(day: DayAnswer) -> list[list[DayModel]]:
    found: list[list[DayModel]] = []
    for slot in day.slots:
        if not found or slot.at - found[-1][-1].at > _GAP * day.step_s:
            found.append([])
        found[-1].append(slot)
    return found


def _text(slots: Sequence[DayModel]) -> str:
    """What the picture says, in one sentence."""
    count = len(slots)
    means = [sum(_amounts(slot)[place] for slot in slots) / count for place in range(len(_LAYERS))]
    said = [f"{word} {mean:.1f}" for (_, word), mean in zip(_LAYERS, means, strict=True) if mean > 0]
    free = sum(slot.free for slot in slots) / count
    return "GPUs on average: " + ", ".join([*said, f"free {free:.1f}"])


def _by_hour(day: DayAnswer) -> list[HourRow]:
    hours: dict[int, list[DayModel]] = {}
    for slot in day.slots:
        hours.setdefault(int(slot.at // _HOUR_S), []).append(slot)
    rows = []
    for hour, slots in sorted(hours.items(), reverse=True):
        columns = zip(*((*_amounts(slot), slot.free) for slot in slots), strict=True)
        rows.append(HourRow(clock(hour * _HOUR_S), tuple(f"{sum(column) / len(slots):.1f}" for column in columns)))
    return rows
