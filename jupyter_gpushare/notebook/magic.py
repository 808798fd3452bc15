"""``%gpushare``: see this session's share from a cell, hand it back, and say when it may be handed back."""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from jupyter_gpushare.notebook.duration import DurationError, parse_duration
from jupyter_gpushare.notebook.one_cell import OneCell, note_wish
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_gpushare.notebook.card import Card

__all__ = ["GpuShareMagics", "complete", "parse"]


@dataclass(frozen=True, slots=True)
class _Command:
    """What may follow a command: options, or one word.

    *spans* are examples where that word may be a time span, *shares* where it is a share.
    """

    options: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    spans: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    needs_word: bool = False


_COMMANDS: Final = {
    "status": _Command(),
    "release": _Command(options=("--cache", "--kernel", "--yes")),
    "keep": _Command(words=("off",), spans=("30m", "1h", "2h"), needs_word=True),
    "resume": _Command(),
    "request": _Command(shares=("0.5", "0.25..0.8", "16GiB")),
    "idle": _Command(words=("never", "default"), spans=("10m", "30m", "1h")),
    "background": _Command(words=("allow", "refuse")),
    "help": _Command(),
}


@magics_class
class GpuShareMagics(Magics):
    """The magic of one shell."""

    def __init__(self, shell: InteractiveShell, problems: Callable[[], Sequence[str]] = tuple) -> None:
        super().__init__(shell)
        self._user_shell = shell  # `self.shell` may be None by its type
        self._problems = problems
        self._one_cell = OneCell(shell, self._hand_back)

    def install(self) -> None:
        """Add the magic to its shell."""
        self._user_shell.register_magics(self)
        self._user_shell.input_transformers_cleanup.append(note_wish)

    def remove(self) -> None:
        """Take it away again."""
        self._one_cell.forget()
        self._user_shell.input_transformers_cleanup.remove(note_wish)
        for kind in ("line", "cell"):
            self._user_shell.magics_manager.magics[kind].pop("gpushare", None)

    @line_cell_magic
    def gpushare(self, line: str, cell: str | None = None) -> None:
        """See your GPU share, or hand it back: `%gpushare help` lists how. `%%gpushare` does so after a cell."""
        if cell is None:
            command, words = parse(line)
            self._show(self._card(command, words))
            return
        if line.strip():
            raise UsageError(f"%%gpushare takes no words, but {line.strip()[:40]!r} stands after it: leave that out.")
        self._one_cell.begin()
        if cell.strip():  # only where a program calls the magic: `note_wish` leaves the cell where it is
            self._user_shell.ex(self._user_shell.transform_cell(cell))  # type: ignore[no-untyped-call]

    def _card(self, command: str, words: list[str]) -> Card:
        # Late, so that kernels start as fast as before.
        from jupyter_gpushare.notebook import commands, parking_commands, share_commands

        word = words[0] if words else ""
        cards: dict[str, Callable[[], Card]] = {
            "status": lambda: commands.status(self._problems()),
            "release": lambda: commands.free_cache() if "--cache" in words else parking_commands.hand_back(),
            "keep": lambda: parking_commands.keep(word),
            "resume": parking_commands.resume,
            "request": lambda: share_commands.request(word),
            "idle": lambda: parking_commands.set_idle(word),
            "background": lambda: parking_commands.set_background(word),
            "help": commands.list_commands,
        }
        if "--kernel" in words:
            return commands.end_kernel(self._user_shell, confirm="--yes" in words)
        return cards[command]()

    def _hand_back(self) -> Any:
        from jupyter_gpushare.notebook import commands, parking_commands

        card = parking_commands.hand_back("This cell has ended:")
        return commands.ShownCard(card, colour=_in_colour_terminal(self._user_shell))

    def _show(self, card: Card) -> None:
        from jupyter_gpushare.notebook.commands import ShownCard

        display(ShownCard(card, colour=_in_colour_terminal(self._user_shell)))  # type: ignore[no-untyped-call]


def parse(line: str) -> tuple[str, list[str]]:
    """Read what follows ``%gpushare``: the command, and its options or its word.

    Raises:
        UsageError: names the wrong word and shows the right ones.
    """
    name, *words = line.split() or ["status"]
    if name not in _COMMANDS:
        raise UsageError(_unknown("command", name, list(_COMMANDS)))
    command = _COMMANDS[name]
    if command.shares:
        _check_share(name, command, words)
    elif command.words:
        _check_word(name, command, words)
    else:
        _check_options(name, command, words)
    return name, words


def _check_options(name: str, command: _Command, words: list[str]) -> None:
    for word in words:
        if word not in command.options:
            raise UsageError(_unknown(f"option of {name}", word, command.options))
    if "--cache" in words and "--kernel" in words:
        raise UsageError("--cache and --kernel are two different releases: choose one.")


def _check_share(name: str, command: _Command, words: list[str]) -> None:
    if len(words) != 1:
        count = f"one share, not {len(words)}" if words else "a share"
        raise UsageError(f"{name} wants {count}, for example: %gpushare {name} {command.shares[1]}")
    try:
        Share.parse(words[0])
    except ShareError as error:
        raise UsageError(f"{name}: {error}") from None


def _check_word(name: str, command: _Command, words: list[str]) -> None:
    right = (*command.spans, *command.words)
    if len(words) > 1:
        raise UsageError(f"{name} takes one word, not {len(words)}. There is: {', '.join(right)}.")
    if not words and command.needs_word:
        raise UsageError(
            f"{name} wants a word, for example: %gpushare {name} {right[0]}. There is: {', '.join(right)}."
        )
    for word in words:
        if word not in command.words:
            _check_span(name, command, word)


def _check_span(name: str, command: _Command, word: str) -> None:
    if not command.spans or not word[0].isdigit():
        raise UsageError(_unknown(f"word of {name}", word, (*command.spans, *command.words)))
    try:
        parse_duration(word)
    except DurationError as error:
        raise UsageError(f"{name}: {error}") from None


@context_matcher()  # type: ignore[untyped-decorator]
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Completion after ``%gpushare``: commands, then the command's options or words."""
    words = context.text_until_cursor.lstrip().split(" ")
    if len(words) == 1 or words[0] not in {"%gpushare", "gpushare"}:
        return {"completions": []}
    done, fragment = [word for word in words[1:-1] if word], words[-1]
    choices = [word for word in _choices(done) if word.startswith(fragment)]
    return {
        "completions": [SimpleCompletion(word, type="magic argument") for word in choices],
        "matched_fragment": fragment,
        "suppress": True,
        "ordered": True,
    }


def _choices(done: Sequence[str]) -> Sequence[str]:
    if not done:
        return list(_COMMANDS)
    command = _COMMANDS.get(done[0], _Command())
    words = (*command.spans, *command.shares, *command.words) if len(done) == 1 else ()
    return [*words, *(option for option in command.options if option not in done)]


def _unknown(what: str, word: str, right: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, right, 1)
    meant = f" Did you mean {close[0]}?" if close else ""
    return f"{word[:40]!r} is no {what} of %gpushare.{meant} There is: {', '.join(right) or 'none'}."


def _in_colour_terminal(shell: Any) -> bool:
    # A kernel's text may end up in a file or a page, where colour codes are noise.
    return not hasattr(shell, "kernel") and sys.stdout.isatty()
