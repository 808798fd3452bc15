"""The kernel's own server, asked in small requests with deadlines. What it answers is checked before use."""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.netutil import Resolver
from tornado.simple_httpclient import HTTPTimeoutError, SimpleAsyncHTTPClient
from tornado.websocket import WebSocketError

from jupyter_gpushare.notebook.address import Address, ServerError
from jupyter_gpushare.notebook.view import KernelView, NotUnderstoodError, decode_view

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TOKEN_HEADER", "Server", "explain"]

TOKEN_HEADER: Final = "X-Gpushare-Kernel-Token"  # noqa: S105  # the header's name

_LARGEST_ANSWER: Final = 1 << 20
_LONGEST_SENTENCE: Final = 1000
_LONGEST_CONFIRM: Final = 200
#: A redirection leads to a login page: the token was not accepted.
_NOT_ADMITTED: Final = frozenset({301, 302, 303, 307, 308, 401, 403})
_CONFLICT: Final = 409
_NO_ANSWER: Final = 599


@dataclass(frozen=True, slots=True)
class Server:
    """This kernel's own server.

    Args:
        address: where it is.
        deadline_s: how long a whole request may take.
    """

    address: Address
    deadline_s: float = 3.0

    @classmethod
    def from_environment(cls) -> Server:
        """The server that started this kernel.

        Raises:
            ServerError: ``NO_SERVER``, when this process is no kernel of such a server.
        """
        return cls(Address.from_environment())

    def view(self) -> KernelView:
        """What this kernel may see of its session, now.

        Raises:
            ServerError: no answer, or none that makes sense.
        """
        try:
            return decode_view(self._ask("GET", self.address.kernel_path))
        except NotUnderstoodError as error:
            raise _not_understood(str(error)) from None

    def report(self, held: int) -> bool:
        """Say how many bytes this process's GPU frameworks hold. Returns whether to go on reporting.

        Raises:
            ServerError: no answer, or none that makes sense.
        """
        wanted = _object(self._ask("POST", f"{self.address.kernel_path}/report", {"memory": held})).get("wanted")
        if not isinstance(wanted, bool):
            raise _not_understood("wanted is neither true nor false")
        return wanted

    def end_kernel(self, confirm: str = "") -> str:
        """Ask the server to end this kernel. Returns what the server says of it.

        Args:
            confirm: of the announcement that the owner agreed to, empty before there was one.

        Raises:
            ServerError: ``NEEDS_CONFIRMATION`` with what would be lost as things are now, when that is not what was
                agreed to; or no answer.
        """
        wish = {"level": "end_kernel", "kernel_id": self.address.kernel_id, "confirm": confirm}
        message = _object(self._ask("POST", "releases", wish)).get("message")
        text = message.get("text") if isinstance(message, dict) else None
        if not isinstance(text, str):
            raise _not_understood("message.text is missing")
        return text[:_LONGEST_SENTENCE]

    def stream_request(self) -> HTTPRequest:
        """The request that opens the WebSocket stream."""
        return self._request(self.address.url("stream", websocket=True))

    def resolver(self) -> Resolver:
        """How the server's host is found: by name, or at its Unix socket."""
        path = self.address.socket_path
        resolver: Resolver = _SocketResolver(path=path) if path else Resolver()
        return resolver

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> bytes:
        """One request in a thread of its own: the kernel's main thread already runs an event loop."""
        with ThreadPoolExecutor(1, thread_name_prefix="gpushare-request") as executor:
            return executor.submit(asyncio.run, self._exchange(method, path, body)).result()

    async def _exchange(self, method: str, path: str, body: Mapping[str, object] | None) -> bytes:
        request = self._request(self.address.url(path))
        request.method = method
        if body is not None:
            request.headers["Content-Type"] = "application/json"
            request.body = json.dumps(body).encode()
        client = SimpleAsyncHTTPClient(force_instance=True, resolver=self.resolver(), max_body_size=_LARGEST_ANSWER)
        try:
            response = await client.fetch(request, raise_error=False)
        except (HTTPClientError, OSError) as error:
            raise explain(error, self.deadline_s) from None
        finally:
            client.close()
        if response.error is not None:
            raise explain(response.error, self.deadline_s)
        return response.body

    def _request(self, url: str) -> HTTPRequest:
        return HTTPRequest(
            url,
            headers={TOKEN_HEADER: self.address.token},
            connect_timeout=self.deadline_s,
            request_timeout=self.deadline_s,
            follow_redirects=False,  # the token goes to this server and nowhere else
            # A server's certificate is made out to its public name, not to the loopback address.
            validate_cert=not self.address.is_loopback,
        )


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


def explain(error: BaseException, deadline_s: float) -> ServerError:
    """The error of a request or of the stream as one that people can act on."""
    if isinstance(error, (HTTPTimeoutError, TimeoutError)):
        return ServerError("SERVER_SLOW", f"The server did not answer within {deadline_s:g} s. Try again.")
    if not isinstance(error, (HTTPClientError, OSError, WebSocketError)):
        return ServerError("FAILED", f"Asking the server failed: {type(error).__name__}: {error}")
    if not isinstance(error, HTTPClientError) or error.code == _NO_ANSWER:
        return ServerError("SERVER_GONE", "The server does not answer; it may have stopped or be restarting.")
    return _refusal(error)


def _refusal(error: HTTPClientError) -> ServerError:
    said, confirm = _server_said(error.response.body if error.response else b"")
    if error.code in _NOT_ADMITTED:
        text = "The server no longer knows this kernel's token. Restart the kernel to get a new one."
        return ServerError("TOKEN_REFUSED", f"{text} ({said})" if said else text)
    if error.code == _CONFLICT and said and confirm:
        return ServerError("NEEDS_CONFIRMATION", said, confirm)
    return ServerError("REFUSED", said or f"The server refused: {error.code} {error.message}.")


def _server_said(body: bytes) -> tuple[str, str]:
    """The sentence in an error's body, and what confirms it; empty where there is none."""
    try:
        answer = _object(body)
    except ServerError:
        return "", ""
    said, confirm = answer.get("message"), answer.get("confirm")
    if not isinstance(confirm, str) or len(confirm) > _LONGEST_CONFIRM:
        confirm = ""
    return said[:_LONGEST_SENTENCE] if isinstance(said, str) else "", confirm


def _object(payload: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(payload)
    except ValueError:
        raise _not_understood("it is not JSON") from None
    if not isinstance(answer, dict):
        raise _not_understood("it is not an object")
    return answer


def _not_understood(problem: str) -> ServerError:
    return ServerError(
        "NOT_UNDERSTOOD",
        f"The server's answer makes no sense here ({problem}). Do server and kernel use the same jupyter_gpushare?",
    )
