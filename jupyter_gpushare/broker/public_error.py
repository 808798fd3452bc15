"""Errors that people may see, and no others (the boundary is in `handlers`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.wire import ErrorAnswer, MessageModel
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from jupyter_gpushare.rules.reason import Reason

__all__ = [
    "PublicError",
    "bad_request",
    "forbidden",
    "message_model",
    "not_found",
    "printable",
    "refused",
    "sendable",
    "unavailable",
]

_LONGEST: Final = 500


def message_model(message: Message) -> MessageModel:
    """*message* for the wire."""
    return MessageModel.of(message)


class PublicError(Exception):
    """An error with an HTTP *status* whose *message* is meant for people. Anything else is a 500 with an id.

    *field* names what is wrong in the request, empty when that is no field.
    """

    def __init__(self, status: int, message: Message, field: str = "") -> None:
        super().__init__(message.text)
        self.status = status
        self.message = message
        self.field = field

    def answer(self) -> ErrorAnswer:
        """The body that says it."""
        return ErrorAnswer(message_model(self.message), self.field)


def bad_request(problem: str, field: str = "") -> PublicError:
    """What was sent cannot be read; *problem* says what is wrong and what to write."""
    text = sendable(problem).rstrip(".")
    return PublicError(400, Message("BAD_REQUEST", "The request cannot be read: {problem}.", {"problem": text}), field)


def forbidden(code: str = "FORBIDDEN", template: str = "You may not do this here.", **values: str) -> PublicError:
    """The asker is known, or not, and may not do this."""
    return PublicError(403, Message(code, template, values))


def not_found(what: str, name: str) -> PublicError:
    """There is no such thing, or it is none of the asker's business."""
    template = "There is no {what} {name}; it may have ended just now."
    return PublicError(404, Message("NOT_FOUND", template, {"what": what, "name": sendable(name)[:64]}))


def refused(reason: Reason, message: Message) -> PublicError:
    """The rules say no."""
    return PublicError(409, Message(reason.value, message.template, message.values))


def unavailable(problem: str) -> PublicError:
    """The broker cannot promise anything now."""
    template = "The broker cannot keep its books now, so it promises nothing new; what runs goes on. {problem}"
    return PublicError(503, Message("LEDGER_AWAY", template, {"problem": sendable(problem)}))


def sendable(text: str) -> str:
    """*text* in valid Unicode and not too long: a lone surrogate would make the answer itself fail."""
    clipped = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return clipped.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """*text* as every database can hold it and every terminal can show it, and not too long."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in sendable(text)
    )
