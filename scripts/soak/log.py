"""What a server of the soak wrote into its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.soak.harness import Site

__all__ = ["errors_in_log"]

_BANNER: Final = "To access the server"
_LINES: Final = 30


def errors_in_log(site: Site, expected: Sequence[str] = ()) -> list[str]:
    """Each error with the lines that follow it, but those with one of the *expected* texts in it."""
    lines = (site.workspace.root / "server.log").read_text(errors="replace").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(("[E ", "[C "))]
    told = ["the server logged: " + "\n".join(lines[number : number + _LINES]) for number in starts]
    return [each for each in told if _BANNER not in each and not any(text in each for text in expected)]
