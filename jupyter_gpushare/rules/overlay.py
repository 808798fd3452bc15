"""A large mapping with a few changes on top: for as long as one change follows the other at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self, TypeVar

__all__ = ["Overlay", "changed", "flat"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Overlay(Mapping[_Key, _Value]):
    """As *base*, but for what *over* says; a key with None there is no more. Immutable, as both are.

    To change a few of ten thousand entries a dict has to be copied as a whole; here only what changed lately is. A
    look at it takes longer than at a dict: once the last change is made `flat` gives one.
    """

    __slots__ = ("_base", "_over")

    def __init__(self, base: Mapping[_Key, _Value], over: Mapping[_Key, _Value | None] | None = None) -> None:
        self._base = base
        self._over = over or {}

    def changed(self, new: Mapping[_Key, _Value | None]) -> Self:
        """It with *new* on top."""
        return type(self)(self._base, {**self._over, **new})

    def flat(self) -> Mapping[_Key, _Value]:
        """The same as a plain mapping; the base itself when nothing has changed."""
        return changed(self._base, self._over)

    def __getitem__(self, key: _Key) -> _Value:
        if key not in self._over:
            return self._base[key]
        value = self._over[key]
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[_Key]:
        return iter(self.flat())

    def __len__(self) -> int:
        return len(self.flat())


def flat(mapping: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    """*mapping* as a plain one."""
    return mapping.flat() if isinstance(mapping, Overlay) else mapping


def changed(old: Mapping[_Key, _Value], new: Mapping[_Key, _Value | None]) -> Mapping[_Key, _Value]:
    """*old* with *new* on top; a key with None there is no more. The same object when nothing is new."""
    if not new:
        return old
    if isinstance(old, Overlay):
        return old.changed(new)
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged
