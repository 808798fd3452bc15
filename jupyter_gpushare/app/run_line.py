"""What ``jupyter gpushare run`` prints about itself: on standard error, as standard output is the job's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from jupyter_gpushare.demo.figures import printable
from jupyter_gpushare.training.words import state_line

if TYPE_CHECKING:
    from rich.status import Status

    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = ["RunLine"]

_WIDTH: Final = 200
_WAITS: Final = frozenset({"queued", "parked"})
#: As on every screen of ours: green trains, indigo is parked, orange is about to change.
_STYLES: Final = {
    "running": "green",
    "granted": "green",
    "parked": "blue_violet",
    "parking": "blue_violet",
    "resuming": "blue_violet",
    "yielding": "dark_orange",
    "failed": "red",
}


class RunLine:
    """One live line while the job waits on a terminal; plain lines elsewhere, one for each change.

    Args:
        quiet: say nothing but problems.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        is_terminal = sys.stderr.isatty()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True, width=None if is_terminal else _WIDTH)
        self._quiet = quiet
        self._status: Status | None = None
        self._shown: tuple[str, ...] = ()
        self._was_away = False

    def lease(self, lease: LeaseModel) -> None:
        """Show what *lease* says, if it says something new."""
        # An estimate that moves by a second is no news where lines stay.
        news = (lease.status, lease.target, str(lease.place), lease.reason.code if lease.reason else "")
        text = Text(printable(state_line(lease)), _STYLES.get(lease.status, ""))
        if self._quiet:
            return
        if lease.status in _WAITS and self._console.is_terminal:
            self._live(text)
        elif news != self._shown:
            self.close()
            self._print(text)
        self._shown = news

    def connected(self, *, is_connected: bool) -> None:
        """Say that the broker went away, or is back."""
        if not is_connected and not self._was_away and self._shown:
            self.say("Lost contact with the broker; nothing changes for the job. Trying again.")
        if is_connected and self._was_away:
            self.say("The broker is back.")
        self._was_away = not is_connected and bool(self._shown)

    def say(self, text: str) -> None:
        """A line for people."""
        if not self._quiet:
            self._print(Text(printable(text)))

    def problem(self, text: str) -> None:
        """A line that is never left out."""
        self._print(Text(printable(text), "red"))

    def close(self) -> None:
        """Leave the terminal to the job."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _live(self, text: Text) -> None:
        if self._status is None:
            self._status = self._console.status(text)
            self._status.start()
        else:
            self._status.update(text)

    def _print(self, text: Text) -> None:
        self._console.print(Text("gpushare: ", "dim") + text)
