"""The last testimony of each server: of so many of one person, and of so many in all, as anybody may testify."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MOST_IN_ALL", "MOST_OF_ONE", "Heard", "Voices"]

#: So many servers of one person are remembered: those that spoke last.
MOST_OF_ONE: Final = 100
#: And so many of everybody: whoever has the most makes room.
MOST_IN_ALL: Final = 10_000


@dataclass(frozen=True, slots=True)
class Heard:
    """The last testimony of a server, its times in seconds since the epoch; *parks_at* is unset where it said none."""

    at: float
    idle_since: float | None
    kept_until: float | None
    started: float | None
    parks_at: float | UnsetType | None = UNSET
    warned_since: float | None = None


@dataclass(slots=True)
class Voices:
    """By person and the hub's name for the server. What is forgotten for want of room is said again within a minute."""

    most_of_one: int = MOST_OF_ONE
    most_in_all: int = MOST_IN_ALL
    # In the order in which they spoke last.
    _of: dict[str, dict[str, Heard]] = field(default_factory=dict)
    _count: int = 0

    def __iter__(self) -> Iterator[tuple[tuple[str, str], Heard]]:
        """All of them."""
        return (((person, key), heard) for person, theirs in self._of.items() for key, heard in theirs.items())

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def get(self, person: str, key: str) -> Heard | None:
        """What the server *key* of *person* said last; None for one that never spoke, or was forgotten."""
        return self._of.get(person, {}).get(key)

    def put(self, person: str, key: str, heard: Heard) -> None:
        """Remember it, and nothing older in its place."""
        self._drop(person, key)
        theirs = self._of.setdefault(person, {})
        theirs[key] = heard
        self._count += 1
        if len(theirs) > self.most_of_one:
            self._drop_oldest(person)
        if self._count > self.most_in_all:
            self._drop_oldest(max(self._of, key=lambda each: len(self._of[each])))

    def forget_before(self, moment: float) -> None:
        """Forget who has said nothing since *moment*, seconds since the epoch."""
        for person, key in [whose for whose, heard in self if heard.at < moment]:
            self._drop(person, key)

    def _drop_oldest(self, person: str) -> None:
        self._drop(person, next(iter(self._of[person])))

    def _drop(self, person: str, key: str) -> None:
        theirs = self._of.get(person, {})
        if theirs.pop(key, None) is None:
            return
        self._count -= 1
        if not theirs:
            del self._of[person]
