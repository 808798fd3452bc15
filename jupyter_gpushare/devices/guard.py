"""Calls of a driver's Python binding: each guarded on its own, and counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Failure", "Guard"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that gave nothing: the driver's error *code*, None when it was not the driver's, and why, for people."""

    code: int | None
    reason: str


class Guard:
    """Calls functions of *library* by name and answers a `Failure` where one raises.

    Args:
        library: the binding, a module or whatever has its functions.
        explain: from the exception that a call raised to its failure.
    """

    def __init__(self, library: object, explain: Callable[[Exception], Failure]) -> None:
        self.calls = 0
        self._library = library
        self._explain = explain
        self._functions: dict[str, Callable[..., Any]] = {}

    def __call__(self, name: str, *arguments: object) -> Any:
        """The answer of the function *name*, or a `Failure`. Never raises."""
        self.calls += 1
        try:
            function = self._functions.get(name)
            if function is None:
                function = self._functions[name] = getattr(self._library, name)
            return function(*arguments)
        except Exception as error:  # noqa: BLE001  # a binding raises whatever its library makes it stumble over
            return self._explain(error)
