"""Where the broker is: an address that somebody gave, the machine's own broker, or the user's."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tornado.netutil import Resolver

from jupyter_gpushare.broker.client_errors import NotAnEndpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

__all__ = ["API", "BROKER", "HUB_SERVICE", "TOKEN", "Endpoint"]

#: The environment variables: where the broker is, and what one shows to a broker that is not on this machine.
BROKER: Final = "GPUSHARE_BROKER"
TOKEN: Final = "GPUSHARE_BROKER_TOKEN"  # noqa: S105  # the variable's name
#: Where the hub that started a server has its broker, in the hub's own word: whatever GPUSHARE_BROKER is set to later.
HUB_SERVICE: Final = "GPUSHARE_HUB_SERVICE"

#: Below which everything of a broker is.
API: Final = "/services/gpushare/api/v1"

_ANSWERS_WITHIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker's address.

    Attributes:
        url: of its API, without a trailing slash.
        socket: the Unix socket that it is reached by; empty for one in the network.
        token: what is shown to it; empty on a socket, where it sees who asks.
        starter: the environment in which it is started again if it dies; None for one that is not the user's own.
    """

    url: str
    socket: str = ""
    token: str = field(default="", repr=False)
    starter: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def discover(cls, environ: Mapping[str, str]) -> Endpoint | None:
        """The broker that *environ* means with GPUSHARE_BROKER; None for ``off``, and where ``auto`` finds none.

        ``auto``, which is also what nothing means, is the machine's broker where its socket exists, else the user's own
        if that is running. ``start`` starts the user's own where there is none, which takes a moment: call it in a
        thread. Everything else is an address: ``unix:/path``, ``http://…`` or ``https://…``.

        Raises:
            NotAnEndpointError: it is none of these; says what to write.
            OSError: ``start``, and it did not start; says why.
        """
        wish = environ.get(BROKER, "").strip() or "auto"
        if wish == "off":
            return None
        if wish not in ("auto", "start"):
            return cls.parse(wish, environ.get(TOKEN, ""))
        found = _found(environ)
        if found is None and wish == "start":
            from jupyter_gpushare.broker.starting import start

            return cls.at_socket(start(environ), starter=dict(environ))
        return found

    @classmethod
    def parse(cls, text: str, token: str = "") -> Endpoint:
        """Read an address.

        Raises:
            NotAnEndpointError: it is none; says what to write.
        """
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            if not path.startswith("/"):
                raise _no_endpoint(text, "the path of a Unix socket begins with a slash")
            return cls.at_socket(path)
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _no_endpoint(text, "it names no broker")
        if parts.username or parts.password:
            raise _no_endpoint(f"{parts.scheme}://…@{parts.hostname}", f"a secret belongs in {TOKEN}")
        return cls(f"{parts.scheme}://{parts.netloc}{_api_path(parts.path)}", token=token)

    @classmethod
    def at_socket(cls, path: str | Path, *, starter: Mapping[str, str] | None = None) -> Endpoint:
        """The broker that listens on the Unix socket *path*."""
        return cls(f"http://localhost{API}", str(path), starter=starter)

    @property
    def label(self) -> str:
        """What people call it."""
        return f"unix:{self.socket}" if self.socket else self.url

    def resolver(self) -> Resolver | None:
        """How tornado finds its host; None for its usual way."""
        return _SocketResolver(path=self.socket) if self.socket else None

    def listens(self) -> bool:
        """Whether somebody listens on its Unix socket. Blocks for a moment at most."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(_ANSWERS_WITHIN_S)
                probe.connect(self.socket)
        except (OSError, ValueError):
            return False
        return True


class _SocketResolver(Resolver):
    """Finds every host at one Unix socket."""

    def initialize(self, path: str = "") -> None:
        self.path = path

    async def resolve(
        self,
        host: str,  # noqa: ARG002  # the interface's
        port: int,  # noqa: ARG002
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002
    ) -> list[tuple[int, Any]]:
        return [(socket.AF_UNIX, self.path)]


def _found(environ: Mapping[str, str]) -> Endpoint | None:
    """The machine's broker, also while it restarts; else the user's own, if it runs."""
    from jupyter_gpushare.broker import places

    machines = places.machine_socket()
    if machines.exists():
        return Endpoint.at_socket(machines)
    own = Endpoint.at_socket(places.user_socket(environ), starter=dict(environ))
    return own if own.listens() else None


def _api_path(path: str) -> str:
    """*path* may be the hub's own prefix, the service's address, or the API's."""
    path = path.rstrip("/")
    for known in (API, API.removesuffix("/api/v1")):
        if path.endswith(known):
            return path.removesuffix(known) + API
    return path + API


def _no_endpoint(text: str, problem: str) -> NotAnEndpointError:
    example = "off, auto, start, unix:/run/gpushare/broker.sock or https://hub.example.org"
    return NotAnEndpointError(f"{BROKER}: {text!r}: {problem}; write {example}")
