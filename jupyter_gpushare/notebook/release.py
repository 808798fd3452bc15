"""What a release of cached memory did, told truly: what came back, what stays and why, what the device says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.notebook.cache import total
from jupyter_gpushare.notebook.card import Card, Figure, Row, State
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_gpushare.notebook.cache import Freed
    from jupyter_gpushare.notebook.view import Reading

__all__ = ["release_card"]


def release_card(results: Sequence[Freed], before: Reading | None = None, after: Reading | None = None) -> Card:
    """The card of a release.

    Args:
        results: what each framework gave back.
        before: what the server said that this kernel held, None without a server.
        after: what it says now.
    """
    notes = [*_errors(results), *_remains(results, after), *_attested(results, before, after)]
    rows = tuple(Row(result.framework, (Figure(f"{_gb(result.before)} → {_gb(result.after)}"),)) for result in results)
    return Card("Release", Figure(""), state=_outcome(results), rows=rows, notes=tuple(notes))


def _outcome(results: Sequence[Freed]) -> State:
    freed = total(results, "freed")
    if freed:
        return State("free", "✓", f"Released {_gb(freed)} of cached memory. Every variable is still there.")
    if not results:
        return State("free", "○", "Nothing to release: no GPU framework (PyTorch, CuPy, JAX) is imported here.")
    if any(result.error for result in results):
        return State("trouble", "!", "Nothing was released.")
    return State("free", "○", "Nothing was released: no memory was cached.")


def _errors(results: Sequence[Freed]) -> Iterator[str]:
    for result in results:
        if result.error:
            yield f"{result.framework} could not free its cache: {result.error}"


def _remains(results: Sequence[Freed], after: Reading | None) -> Iterator[str]:
    held, in_use = total(results, "after"), total(results, "in_use")
    if in_use:
        yield (
            f"{_gb(in_use)} are in use by variables. Delete those that you no longer need, for example: del model "
            "(results kept in Out count too: %reset -f out), then release again."
        )
    if held > in_use and not any(result.error for result in results):
        yield f"{_gb(held - in_use)} stay cached: they share blocks with variables."
    if after is not None and after.attribution == "exact" and after.value is not None and after.value > held:
        yield (
            f"{_gb(after.value - held)} are outside the frameworks' caches, such as the GPU context, which stays until "
            "the kernel ends: %gpushare release --kernel"
        )


def _attested(results: Sequence[Freed], before: Reading | None, after: Reading | None) -> Iterator[str]:
    if before is None or after is None or before.value is None or after.value is None:
        reason = next((reading.reason for reading in (after, before) if reading and reading.reason), "")
        because = f": {reason}" if reason else "; these are the frameworks' own figures"
        yield f"Not attested by the device{because}."
        return
    figures = f"this notebook held {_gb(before.value)}, now {_gb(after.value)}"
    if after.attribution == "exact":
        fell = before.value - after.value
        late = " More was freed than the device shows yet." if fell < total(results, "freed") // 2 else ""
        yield f"Attested by the device: {figures}.{late}"
    else:
        yield f"Not attested by the device, which cannot tell processes apart; as counted in the kernel: {figures}."


def _gb(amount: int) -> str:
    return Memory(amount).human
