"""How an open picker is told that things stand: what its service sends, and the hub draws.

The words are made in one place (`picture_words`), so that the page as it comes and the page as it changes say the same.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["CardPicture", "Picture", "Standing"]

#: *now*: it can be had at once. *soon*: after a wait. *never*: waiting would not help. *unknown*: nobody can say now.
Standing = Literal["now", "soon", "never", "unknown"]


class CardPicture(msgspec.Struct, frozen=True):
    """One share.

    Attributes:
        share: as it is written in the form.
        standing: whether it can be had.
        badge: the same in two or three words; empty where nobody knows.
        meaning: what it comes to in memory, and what becomes of it when idle.
        way_out: why it cannot be had, and what to do instead; empty where it can.
    """

    share: str
    standing: Standing
    badge: str
    meaning: str
    way_out: str = ""


class Picture(msgspec.Struct, frozen=True):
    """How a person's picker stands now.

    Attributes:
        cards: one for each share that was asked about, in that order.
        project: the project that the cards are of; empty when the person is in none.
        projects: those that it may choose from.
        headline: how that project stands, in one line.
        is_simulated: whether the GPUs are simulated.
        note: what is true of every share here; empty where there is nothing to say.
        groups: those of the person's groups by which it is in some project: the others need not be told again.
    """

    cards: list[CardPicture]
    project: str = ""
    projects: list[str] = []
    headline: str = ""
    is_simulated: bool = False
    note: str = ""
    groups: list[str] = []
