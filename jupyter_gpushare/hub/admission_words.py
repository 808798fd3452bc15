"""How a refused start reads: why, what to do instead, and when it could work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.rules.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.broker.client import BrokerError

__all__ = ["away", "no_room", "refused"]

#: What to do instead, and when it could work, for each "no" of the broker that a start can meet.
_INSTEAD: Final[Mapping[str, str]] = {
    Reason.EXCEEDS_PROJECT_QUOTA: (
        "Or take none, ask an owner of {project} for more, or run it as a training job, which may wait for quota. It "
        "can work as soon as somebody of {project} ends a server, or leaves the line."
    ),
    Reason.EXCEEDS_PROJECT_LIMIT: "Take a smaller share. It can work as soon as an admin has raised that.",
    Reason.EXCEEDS_PERSON_LIMIT: (
        "Stop another server of yours, or take a smaller share. It can work as soon as enough of yours have ended, or "
        "an owner of {project} has raised your limit."
    ),
    Reason.NO_SUCH_PROJECT: (
        "Choose a project on the spawn page. It can work as soon as an admin has added one of that name."
    ),
    Reason.NOT_A_MEMBER: (
        "Choose a project of yours on the spawn page. It can work as soon as an owner of {project} has added you, or "
        "you are in a group of the hub that is a member."
    ),
    Reason.NO_SUCH_DEVICE: (
        "Take a smaller share, or one on another kind of GPU. It can work as soon as an admin has added a machine with "
        "such GPUs."
    ),
    "KEY_IN_USE": "It can work as soon as that share has ended, which you can do on My shares.",
}
_ELSE: Final = "Take another share, or none: you can ask for one later from Lab."
_AWAY: Final = (
    "No share can be granted now: the service that shares the GPUs does not answer. Start without a GPU, or try "
    "again in a minute; tell your admin if it goes on."
)
_NO_ROOM: Final = "There is no room for {share} now. {why} It is yours as soon as there is: wait for it, or take less."
#: No sentence of ours is longer, and no other may fill a page.
_LONGEST: Final = 600


def refused(error: BrokerError, share: str, project: str) -> Message:
    """The broker says no, and waiting would not help."""
    instead = _INSTEAD.get(error.code, _ELSE)
    values = {"why": _ended(error.text), "share": share, "project": project}
    return Message(error.code, f"{{why}} {instead}", values)


def no_room(error: BrokerError, share: str) -> Message:
    """There is no room now."""
    return Message(error.code, _NO_ROOM, {"share": share, "why": _ended(error.text)})


def away() -> Message:
    """Nobody can grant a share now."""
    return Message("BROKER_AWAY", _AWAY)


def _ended(text: str) -> str:
    """*text* as a sentence of its own."""
    clipped = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return clipped if clipped.endswith((".", "!", "?", "…")) else f"{clipped}."
