"""What ``%gpushare request`` does: another share for the whole session, live where the GPU has room."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jupyter_gpushare.notebook.address import ServerError
from jupyter_gpushare.notebook.card import Card, Figure, State, problem_card, state_of
from jupyter_gpushare.notebook.server import Server

__all__ = ["request"]

#: The broker may have to ask its ledger first.
_DEADLINE_S: Final = 25.0
_DECIDED: Final = frozenset({"REFUSED", "NEEDS_CONFIRMATION"})


def request(share: str) -> Card:
    """Ask for *share*, for all notebooks of this server; what became of it."""
    try:
        changed = replace(Server.from_environment(), deadline_s=_DEADLINE_S).request_share(share)
    except ServerError as error:
        if error.code in _DECIDED:
            kept = "Nothing was changed. %gpushare shows the share that you have."
            return Card("Share", Figure(""), state=State("trouble", "!", str(error)), notes=(kept,))
        return problem_card(str(error))
    first = "A restart ends what a kernel has in memory: save what you need first."
    return Card("Share", Figure(""), state=state_of(changed.message), notes=(first,) if changed.restart else ())
