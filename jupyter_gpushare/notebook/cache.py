"""Free what GPU frameworks keep for later in this process. Variables keep all that they hold."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.notebook.frameworks import imported_frameworks
from jupyter_gpushare.notebook.quiet import asking, gate_is_closed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.notebook.frameworks import Framework

__all__ = ["Freed", "free_cached", "held_bytes"]


@dataclass(frozen=True, slots=True)
class Freed:
    """What became of one framework's memory, in bytes.

    Attributes:
        framework: ``torch``, ``cupy``, ``jax`` or ``simulated``.
        before: what its allocator held.
        after: what it holds now.
        in_use: what variables occupy of it, None when it cannot be told.
        error: what went wrong in the framework, None when nothing did; amounts are then the last known.
    """

    framework: str
    before: int
    after: int
    in_use: int | None
    error: str | None

    @property
    def freed(self) -> int:
        """What was given back; never below zero, as a running cell may have taken more meanwhile."""
        return max(0, self.before - self.after)

    def answer(self) -> dict[str, Any]:
        """As the server reads it."""
        return {"framework": self.framework, "before": self.before, "after": self.after, "error": self.error}


def free_cached(*, collect: bool) -> list[Freed]:
    """Give cached memory back to the devices.

    Args:
        collect: collect garbage first, so that dropped cycles let go of theirs. It runs finalizers, so not
            while a cell is running.
    """
    # Not stopped by a closed gate: the server asks for this between closing the gate and parking.
    with asking():
        started = [_Freeing(framework) for framework in imported_frameworks()]
        if collect:
            gc.collect()
        return [freeing.finish() for freeing in started]


def held_bytes() -> int | None:
    """What the frameworks of this process hold on GPUs; None where none is imported, or while the kernel is parked.

    Raises:
        Exception: whatever a framework raises.
    """
    with asking():
        frameworks = [] if gate_is_closed() else imported_frameworks()
        return sum(framework.held() for framework in frameworks) if frameworks else None


class _Freeing:
    """One framework on its way from before to after. What it raises becomes part of the result."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._errors: list[str] = []
        self._before = self._try(framework.held) or 0

    def finish(self) -> Freed:
        self._try(self._framework.empty_cache)
        after = self._try(self._framework.held)
        in_use = self._try(self._framework.in_use)
        error = self._errors[0] if self._errors else None
        return Freed(self._framework.name, self._before, self._before if after is None else after, in_use, error)

    def _try(self, step: Any) -> int | None:
        try:
            result: int | None = step()
        except Exception as error:  # noqa: BLE001  # a framework may raise anything; the others go on
            self._errors.append(f"{type(error).__name__}: {error}"[:300])
            return None
        return result


def total(results: Sequence[Freed], part: str) -> int:
    """The sum of one amount over all frameworks."""
    return sum(getattr(result, part) or 0 for result in results)
