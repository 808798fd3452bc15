"""A message on its way to a kernel, and who sent it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Request", "Sender", "readable"]


class Sender(Protocol):
    """Where a held message came from: it can still deliver it, or answer that it will not run."""

    def deliver(self, request: Request, connect: Callable[[str], Any]) -> None:
        """Send the message on to the kernel.

        Args:
            request: the message.
            connect: gives a new socket to the kernel for a channel, for a sender whose own has closed.
        """

    def abort(self, request: Request) -> None:
        """Tell whoever waits for the message's reply that it was aborted; it must never run."""


@dataclass(slots=True, eq=False)
class Request:
    """One message to a kernel.

    Attributes:
        channel: ``shell``, ``control`` or ``stdin``.
        header: its header; untrusted.
        content: its content; untrusted.
        sender: who sent it.
        original: the message as it came, for its sender alone.
        wakes: whether somebody waits for what it does.
    """

    channel: str
    header: dict[str, Any]
    content: dict[str, Any]
    sender: Sender
    original: Any
    wakes: bool = False

    @property
    def kind(self) -> str:
        """The message's type, empty when it names none."""
        return str(self.header.get("msg_type") or "")

    @property
    def is_execute(self) -> bool:
        """Whether it is a cell."""
        return self.kind == "execute_request"


def readable(part: object) -> dict[str, Any]:
    """A part of a message, empty when it is no object."""
    return part if isinstance(part, dict) else {}
