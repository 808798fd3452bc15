"""How the broker asks for a process of another user to be ended."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.rules.loss import Loss

__all__ = ["SOCKET", "Answer", "ask"]

#: Where the privileged program is reached, by the broker's account alone.
SOCKET: Final = Path("/run/gpushare-ending.sock")
# Longer than the program takes at most: it asks the process first, and waits.
_DEADLINE_S: Final = 30.0
_LONGEST: Final = 4096


class Answer(msgspec.Struct, frozen=True):
    """What the privileged program says.

    Attributes:
        code: ``ENDED``, or why nothing was done.
        text: the same for people.
    """

    code: str
    text: str

    @property
    def has_ended(self) -> bool:
        """Whether the process is no more."""
        return self.code in ("ENDED", "GONE")


def ask(process: Identity, uid: int, loss: Loss, lease: str, path: Path = SOCKET) -> Answer:
    """Have *process*, which is *uid*'s, ended as *loss*. Blocking: call it in a thread.

    Never raises: that there is no such program, or that it says nothing, is an answer too.
    """
    request = {"pid": process.pid, "start": process.start, "uid": uid, "loss": loss.value, "lease": lease}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(_DEADLINE_S)
            connection.connect(str(path))
            connection.send(json.dumps(request).encode())
            return msgspec.json.decode(connection.recv(_LONGEST), type=Answer)
    except FileNotFoundError:
        return Answer("NOT_INSTALLED", "an admin runs: jupyter gpushare install-service")
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        return Answer("NO_ANSWER", f"{path}: {error}")
