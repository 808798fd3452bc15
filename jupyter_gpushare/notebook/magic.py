"""``%gpushare``: see this session's share from a cell, and give memory back."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import display

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["GpuShareMagics", "complete", "parse"]

_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "status": (),
    "release": ("--cache", "--kernel", "--yes"),
    "help": (),
}


@magics_class
class GpuShareMagics(Magics):
    """The magic of one shell."""

    def __init__(self, shell: InteractiveShell, problems: Callable[[], Sequence[str]] = tuple) -> None:
        super().__init__(shell)
        self._problems = problems

    @line_magic
    def gpushare(self, line: str) -> None:
        """Show your GPU share, or give memory back: `%gpushare [status | release | help]`."""
        command, options = parse(line)
        from jupyter_gpushare.notebook import commands

        if command == "help":
            card = commands.list_commands()
        elif command == "status":
            card = commands.status(self._problems())
        elif "--kernel" in options:
            card = commands.end_kernel(self.shell, confirm="--yes" in options)
        else:
            card = commands.release()
        display(commands.ShownCard(card, colour=_in_colour_terminal(self.shell)))  # type: ignore[no-untyped-call]


def parse(line: str) -> tuple[str, list[str]]:
    """Read what follows ``%gpushare``: the command and its options.

    Raises:
        UsageError: names the wrong word and shows the right ones.
    """
    command, *options = line.split() or ["status"]
    if command not in _COMMANDS:
        raise UsageError(_unknown("command", command, list(_COMMANDS)))
    for option in options:
        if option not in _COMMANDS[command]:
            raise UsageError(_unknown(f"option of {command}", option, _COMMANDS[command]))
    if "--cache" in options and "--kernel" in options:
        raise UsageError("--cache and --kernel are two different releases: choose one.")
    return command, options


@context_matcher()  # type: ignore[untyped-decorator]
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Completion after ``%gpushare``: commands, then the command's options."""
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
    return [option for option in _COMMANDS.get(done[0], ()) if option not in done]


def _unknown(what: str, word: str, right: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, right, 1)
    meant = f" Did you mean {close[0]}?" if close else ""
    return f"{word[:40]!r} is no {what} of %gpushare.{meant} There is: {', '.join(right) or 'none'}."


def _in_colour_terminal(shell: Any) -> bool:
    # A kernel's text may end up in a file or a page, where colour codes are noise.
    return not hasattr(shell, "kernel") and sys.stdout.isatty()
