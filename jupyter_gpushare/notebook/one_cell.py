"""``%%gpushare``: the GPU for one cell, handed back after it.

The cell itself runs as any other does: only its first line is replaced, by one that notes the wish. So its output,
its errors and their line numbers, top-level await and other magics in it are exactly what they are without.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from IPython.core.inputtransformer2 import cell_magic, leading_empty_lines
from IPython.display import display

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["OneCell", "note_wish"]

_FIRST_LINE: Final = re.compile(r"%%gpushare(?:\s+(.*?))?\s*")


def note_wish(lines: list[str]) -> list[str]:
    """Replace a first line ``%%gpushare`` by a statement, one line for one line: an IPython input transformer."""
    match = _FIRST_LINE.fullmatch(lines[0]) if lines else None
    if match is None:
        return lines
    # A blank for a body: IPython refuses an empty one.
    note = f"get_ipython().run_cell_magic('gpushare', {match[1] or ''!r}, ' ')\n"
    rest = lines[1:]
    body = leading_empty_lines(rest)  # type: ignore[no-untyped-call]
    # IPython looks for another cell magic in the first line only, and that is ours now.
    return [note, *_as_cell_magic(note_wish(body))] if body and body[0].startswith("%%") else [note, *rest]


def _as_cell_magic(lines: list[str]) -> list[str]:
    transformed: list[str] = cell_magic(lines)  # type: ignore[no-untyped-call]
    return transformed


class OneCell:
    """Hands back after the cell in which it was begun, however that ends.

    Args:
        shell: whose cells.
        hand_back: asks for it; what it returns is displayed below the cell.
    """

    def __init__(self, shell: InteractiveShell, hand_back: Callable[[], Any]) -> None:
        self._events = shell.events
        self._hand_back = hand_back
        self._depth = 0

    def begin(self) -> None:
        """Hand back when the cell that runs now has ended."""
        if self._depth:
            return
        self._depth = 1
        self._events.register("pre_execute", self._cell_began)
        self._events.register("post_execute", self._cell_ended)

    def forget(self) -> None:
        """Do nothing after the cell after all."""
        if self._depth:
            self._depth = 0
            self._events.unregister("pre_execute", self._cell_began)
            self._events.unregister("post_execute", self._cell_ended)

    def _cell_began(self) -> None:
        # A cell within the cell, as %%capture and %run have them.
        self._depth += 1

    def _cell_ended(self) -> None:
        if self._depth > 1:
            self._depth -= 1
            return
        self.forget()
        display(self._hand_back())  # type: ignore[no-untyped-call]
