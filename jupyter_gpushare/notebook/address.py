"""Where this kernel's own server is, from the environment in which its kernel provisioner started it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Address", "ServerError"]

_URL: Final = "GPUSHARE_SERVER_URL"
_KERNEL: Final = "GPUSHARE_KERNEL_ID"
_TOKEN: Final = "GPUSHARE_KERNEL_TOKEN"  # noqa: S105  # the variable's name
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_UNIX: Final = "http+unix"


class ServerError(Exception):
    """The server did not do what was asked. The text is for people and says what to do.

    Attributes:
        code: ``NO_SERVER``, ``SERVER_GONE``, ``SERVER_SLOW``, ``TOKEN_REFUSED``, ``NEEDS_CONFIRMATION``,
            ``CANNOT_PARK``, ``REFUSED``, ``NOT_UNDERSTOOD`` or ``FAILED`` (a mistake of ours).
        confirm: with ``NEEDS_CONFIRMATION``, what to send back once the owner agrees to the text; else empty.
        reason: with ``CANNOT_PARK``, the constant of why, such as ``NOTHING_HELD``; else empty.
    """

    def __init__(self, code: str, text: str, confirm: str = "", reason: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.confirm = confirm
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is and who this kernel is there.

    Args:
        base: the API's address without a trailing slash; ``http``, ``https``, or ``http+unix`` with the quoted
            path of a Unix socket for a host.
        kernel_id: the kernel that this process is.
        token: the kernel's own token; never shown.

    Raises:
        ServerError: ``NO_SERVER``, when *base* is no such address.
    """

    base: str
    kernel_id: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.base)
        if parts.scheme not in {"http", "https", _UNIX} or not parts.netloc:
            raise ServerError("NO_SERVER", f"{_URL} is not the address of a server. Restart the kernel.")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Address:
        """The server that started this kernel.

        Raises:
            ServerError: ``NO_SERVER``, when this process is no kernel of such a server.
        """
        missing = [name for name in (_URL, _KERNEL, _TOKEN) if not environ.get(name)]
        if missing:
            raise ServerError(
                "NO_SERVER",
                "No GPU share here: this Python was not started as a kernel by a Jupyter server with "
                f"jupyter_gpushare ({', '.join(missing)} not set).",
            )
        return cls(environ[_URL].rstrip("/"), environ[_KERNEL], environ[_TOKEN])

    @property
    def socket_path(self) -> str:
        """The server's Unix socket, empty when it listens on a port."""
        parts = urlsplit(self.base)
        return unquote(parts.netloc) if parts.scheme == _UNIX else ""

    @property
    def is_loopback(self) -> bool:
        """Whether the server is reached without a network."""
        return bool(self.socket_path) or urlsplit(self.base).hostname in _LOOPBACK

    @property
    def kernel_path(self) -> str:
        """This kernel's own path in the API."""
        return f"kernels/{quote(self.kernel_id, safe='')}"

    def url(self, path: str, *, websocket: bool = False) -> str:
        """The address of *path*, with a scheme that HTTP clients know."""
        parts = urlsplit(self.base)
        host = "localhost" if parts.scheme == _UNIX else parts.netloc
        secure = "s" if parts.scheme == "https" else ""
        scheme = ("ws" if websocket else "http") + secure
        return urlunsplit((scheme, host, f"{parts.path}/{path}", "", ""))
