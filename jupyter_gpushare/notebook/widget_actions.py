"""The widget's buttons: which there are now, and what each does in the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.notebook.cache import free_cached
from jupyter_gpushare.notebook.parking_commands import hand_back, keep
from jupyter_gpushare.notebook.parking_facts import MOVED_STATUSES
from jupyter_gpushare.notebook.release import release_card

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.notebook.card import Card
    from jupyter_gpushare.notebook.view import Parking

__all__ = ["ACTIONS", "Button", "buttons_of"]


@dataclass(frozen=True, slots=True)
class Button:
    """One button: which action it asks for, its word, its tooltip, and the word while the kernel has yet to answer."""

    action: str
    label: str
    title: str
    waiting: str


_FREE: Final = Button(
    "free_cache",
    "Release",
    "Free cached GPU memory in this notebook. Variables stay.",
    "Releasing when this notebook is free…",
)
_FREE_BESIDE: Final = Button("free_cache", "Free cached memory", _FREE.title, _FREE.waiting)
_PARK: Final = Button(
    "park",
    "Release",
    "Move this notebook's GPU memory to host memory. Nothing is lost: your next cell brings it back.",
    "Releasing when this notebook is free…",
)
_KEEP: Final = Button(
    "keep", "Keep 1 h", "Do not hand the GPU back by itself for an hour.", "Keeping when this notebook is free…"
)
_KEEP_NO_LONGER: Final = Button(
    "keep_no_longer",
    "Stop keeping",
    "Hand the GPU back by itself again when idle.",
    "Ending when this notebook is free…",
)

#: What each action does; the card says how it went. Nothing else can be asked for.
ACTIONS: Final[Mapping[str, Callable[[], Card]]] = {
    "free_cache": lambda: release_card(free_cached(collect=True)),
    "park": lambda: hand_back("Now"),
    "keep": lambda: keep("1h"),
    "keep_no_longer": lambda: keep("off"),
}


def buttons_of(parking: Parking | None) -> tuple[Button, ...]:
    """The buttons, the likely one first.

    None while parked or on the move: a button's message would wait in front of the kernel until it is back.
    """
    if parking is None:
        return (_FREE,)
    if parking.status in MOVED_STATUSES:
        return ()
    keeping = _KEEP if parking.kept_until is None else _KEEP_NO_LONGER
    if parking.status == "asked":
        return (keeping,)
    passing = parking.refusal is None or parking.refusal.code == "CELL_RUNNING"
    return (_PARK, keeping) if passing else (_FREE_BESIDE, keeping)
