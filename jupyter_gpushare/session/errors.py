"""Errors that people may see, and the one place that turns them into answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.parking.sentences import cannot_park

if TYPE_CHECKING:
    from jupyter_gpushare.parking.verdict import NotParkable

__all__ = [
    "PublicError",
    "bad_request",
    "forbidden",
    "needs_confirmation",
    "refused_to_park",
    "unknown_kernel",
    "unknown_release",
]


class PublicError(Exception):
    """An error with an HTTP *status* whose *message* is meant for people. Anything else is a 500 without text.

    *confirm* is what to send back after the owner has agreed to the message; empty when there is nothing to agree to.
    """

    def __init__(self, status: int, message: Message, confirm: str = "") -> None:
        super().__init__(message.text)
        self.status = status
        self.message = message
        self.confirm = confirm


def bad_request(problem: str) -> PublicError:
    """What was sent cannot be read; *problem* names the field and the fix."""
    return PublicError(400, Message("BAD_REQUEST", "The request cannot be read: {problem}.", {"problem": problem}))


def forbidden() -> PublicError:
    """The caller is known and may not do this."""
    return PublicError(403, Message("FORBIDDEN", "You may not do this with the GPU share of this server."))


def unknown_kernel(kernel_id: str) -> PublicError:
    """No kernel of this server has that id."""
    template = "This server has no kernel {kernel_id}; it may have ended just now."
    return PublicError(404, Message("UNKNOWN_KERNEL", template, {"kernel_id": kernel_id[:64]}))


def refused_to_park(refusal: NotParkable) -> PublicError:
    """It cannot be parked now. There is nothing to confirm, hence no `confirm`: the remedy says what would help."""
    return PublicError(409, cannot_park(refusal))


def unknown_release(release_id: str) -> PublicError:
    """No release of this server has that id."""
    template = "This server knows no release {release_id}; the oldest are forgotten."
    return PublicError(404, Message("UNKNOWN_RELEASE", template, {"release_id": release_id[:64]}))


def needs_confirmation(announcement: Message, confirm: str) -> PublicError:
    """The owner must confirm what *announcement* says, by sending the same again with this *confirm*."""
    return PublicError(409, announcement, confirm)
