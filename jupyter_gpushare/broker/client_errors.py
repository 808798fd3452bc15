"""What can go wrong between the broker and those who ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jupyter_gpushare.broker.wire import ErrorAnswer

if TYPE_CHECKING:
    from jupyter_gpushare.broker.wire import MessageModel

__all__ = ["BrokerAway", "BrokerError", "NotAnEndpointError", "refusal_of"]

_LONGEST_SENTENCE = 2000


class BrokerError(Exception):
    """The broker refused, for the reason in *text*.

    Attributes:
        code: the reason's constant.
        text: the sentence for people.
        field: what is wrong in the request, empty when that is no field.
        status: the HTTP status, 0 for a refusal on the holder's socket.
        message: the sentence with its template, None where the broker did not say it in its own words.
    """

    def __init__(
        self, code: str, text: str, field: str = "", *, status: int = 0, message: MessageModel | None = None
    ) -> None:
        super().__init__(f"{field}: {text}" if field else text)
        self.code = code
        self.text = text
        self.field = field
        self.status = status
        self.message = message

    @classmethod
    def of(cls, message: MessageModel, field: str = "", *, status: int = 0) -> BrokerError:
        """The refusal that the broker wrote."""
        return cls(message.code, message.text[:_LONGEST_SENTENCE], field, status=status, message=message)


class BrokerAway(ConnectionError):  # noqa: N818  # a state to wait in, no error
    """The broker cannot be reached now. Nothing changes for what runs; ask again later."""


class NotAnEndpointError(ValueError):
    """GPUSHARE_BROKER, or what stands in its place, is no address of a broker."""


def refusal_of(status: int, reason: str, body: bytes) -> BrokerError:
    """The error that an answer with *status* carries; a proxy's page has none of ours in it."""
    try:
        said = msgspec.json.decode(body, type=ErrorAnswer)
    except msgspec.DecodeError:
        return BrokerError("REFUSED", f"The broker's address answered: {status} {reason}.", status=status)
    return BrokerError.of(said.error, said.field, status=status)
