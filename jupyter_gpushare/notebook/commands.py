"""What the commands of ``%gpushare`` do. Loaded when the first one runs, so that kernels start as fast as before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.notebook.address import ServerError
from jupyter_gpushare.notebook.cache import free_cached, held_bytes
from jupyter_gpushare.notebook.card import Card, Figure, Row, State, card_of, problem_card
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.notebook.markup import html_of
from jupyter_gpushare.notebook.release import release_card
from jupyter_gpushare.notebook.server import Server
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.notebook.view import KernelView, Reading

__all__ = ["ShownCard", "end_kernel", "free_cache", "list_commands", "status"]

_HELP: Final = (
    ("%gpushare", "your share, what this notebook holds, and the GPUs"),
    ("%gpushare release", "hand your GPU memory back after this cell; your next cell brings it back"),
    ("%%gpushare", "at the top of a cell: hand it back when that cell has ended"),
    ("%gpushare keep 2h", "do not hand it back by itself for so long; keep off ends that"),
    ("%gpushare resume", "call off a release that you asked for"),
    ("%gpushare request 0.25..0.8", "have another share from now on, where the GPU has room"),
    ("%gpushare idle 30m", "hand it back by itself after so long idle; or idle never, idle default"),
    ("%gpushare background allow", "hand it back beside your threads and tasks; background refuse ends that"),
    ("%gpushare release --cache", "give cached memory back; every variable stays on the GPU"),
    ("%gpushare release --kernel", "say what is lost if this notebook's kernel ends"),
    ("%gpushare release --kernel --yes", "end this notebook's kernel: all of its GPU memory comes back"),
    ("%gpushare help", "this list"),
)
#: The server samples about once a second: a fresh sample comes within two.
_ATTEST_WITHIN_S: Final = 2.5
_NAMES_SHOWN: Final = 5
#: How many announcements `--yes` agrees to: more than one only where cells start and end meanwhile.
_AGREES_TO: Final = 3


class ShownCard:
    """A card as IPython displays it: HTML where that can be shown, and text."""

    def __init__(self, card: Card, *, colour: bool = False) -> None:
        self._card = card
        self._colour = colour

    def __repr__(self) -> str:
        return text_of(self._card, colour=self._colour)

    def _repr_html_(self) -> str:
        return html_of(self._card)


def status(problems: Sequence[str]) -> Card:
    """How the share is now; *problems* happened behind the scenes since."""
    try:
        return card_of(Server.from_environment().view(), problems)
    except ServerError as error:
        return problem_card(str(error), (*_still_works(error), *problems))


def free_cache() -> Card:
    """Free cached memory in this process, and have the device attest it where there is a server."""
    server, before = _server_and_view()
    started = time.time()
    results = free_cached(collect=True)
    after = _view_since(server, started) if server and before else None
    return release_card(results, _held(before), _held(after))


def end_kernel(shell: Any, *, confirm: bool) -> Card:
    """End this notebook's kernel; without *confirm* only say what would be lost."""
    try:
        said = _end(Server.from_environment(), _AGREES_TO if confirm else 0)
    except ServerError as error:
        if error.code == "NEEDS_CONFIRMATION":
            return _announce(shell, str(error), asked_again=confirm)
        return problem_card(str(error), _still_works(error))
    return Card("Release", Figure(""), state=State("changing", "↻", said))


def list_commands() -> Card:
    """What `%gpushare` can do."""
    return Card("%gpushare", Figure(""), rows=tuple(Row(command, (Figure(what),)) for command, what in _HELP))


def _end(server: Server, agrees_to: int, confirm: str = "") -> str:
    """End the kernel, agreeing to so many announcements.

    Raises:
        ServerError: ``NEEDS_CONFIRMATION`` with the first announcement beyond them; or no answer.
    """
    try:
        return server.end_kernel(confirm)
    except ServerError as error:
        if not agrees_to or not error.confirm:
            raise
        return _end(server, agrees_to - 1, error.confirm)


def _announce(shell: Any, said: str, *, asked_again: bool) -> Card:
    notes = [_variables(shell), "To go on: %gpushare release --kernel --yes"]
    if asked_again:
        notes.insert(0, "Nothing was ended: what runs in this notebook kept changing.")
    return Card("Release", Figure(""), state=State("changing", "!", said), notes=tuple(notes))


def _still_works(error: ServerError) -> list[str]:
    notes = ["%gpushare release still frees cached memory in this notebook, and %gpushare help lists the rest."]
    if error.code == "NO_SERVER":
        notes.append(
            "For your share, the GPUs and release --kernel, open the notebook in a Jupyter server that has "
            "jupyter_gpushare, with the kernel provisioner that comes with it."
        )
    try:
        held = held_bytes()
    except Exception as problem:  # noqa: BLE001  # a framework may raise anything; it is shown
        return [*notes, f"What this notebook holds cannot be read: {type(problem).__name__}: {problem}"]
    if held is not None:
        notes.append(f"The GPU frameworks in this notebook hold {Memory(held).human}, as they count it.")
    return notes


def _server_and_view() -> tuple[Server | None, KernelView | None]:
    """The server and what it shows now; None for what cannot be had, as a release goes on without."""
    try:
        server = Server.from_environment()
        return server, server.view()
    except ServerError:
        return None, None


def _held(view: KernelView | None) -> Reading | None:
    return view.kernel.memory if view is not None else None


def _view_since(server: Server, started: float) -> KernelView | None:
    """A view that was sampled after *started*, None when none comes in time."""
    deadline = time.monotonic() + _ATTEST_WITHIN_S
    while time.monotonic() < deadline:
        try:
            view = server.view()
        except ServerError:
            return None
        if view.at > started:
            return view
        time.sleep(0.1)
    return None


def _variables(shell: Any) -> str:
    names = [name for name in shell.user_ns if not name.startswith("_") and name not in shell.user_ns_hidden]
    if not names:
        return "No variables of yours are lost."
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"Lost with the kernel: {', '.join(names[:_NAMES_SHOWN])}{more}."
