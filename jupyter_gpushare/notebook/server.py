"""The kernel's own server, asked in small requests with deadlines. What it answers is checked before use."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.netutil import Resolver
from tornado.simple_httpclient import HTTPTimeoutError, SimpleAsyncHTTPClient
from tornado.websocket import WebSocketError

from jupyter_gpushare.notebook.address import Address, ServerError
from jupyter_gpushare.notebook.view import (
    Kept,
    KernelView,
    NotUnderstoodError,
    Policy,
    ReleaseBegun,
    ShareChanged,
    decode,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

__all__ = ["TOKEN_HEADER", "Server", "explain", "resolver_of"]

TOKEN_HEADER: Final = "X-Gpushare-Kernel-Token"  # noqa: S105  # the header's name

_LARGEST_ANSWER: Final = 1 << 20
_LONGEST_SENTENCE: Final = 1000
_LONGEST_CONSTANT: Final = 200
#: A redirection leads to a login page: the token was not accepted.
_NOT_ADMITTED: Final = frozenset({301, 302, 303, 307, 308, 401, 403})
_CONFLICT: Final = 409
_NO_ANSWER: Final = 599
_T = TypeVar("_T")


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
        return self._read(KernelView, "GET", self.address.kernel_path)

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

    def park(self) -> ReleaseBegun:
        """Ask for this kernel to be parked as soon as no cell runs in it.

        Raises:
            ServerError: ``CANNOT_PARK`` with the reason and its remedy; or no answer.
        """
        wish = {"level": "park", "kernel_id": self.address.kernel_id, "when": "idle"}
        return self._read(ReleaseBegun, "POST", "releases", wish)

    def resume(self) -> None:
        """Ask for this kernel to be on its device, which also calls off a park that was asked for.

        Raises:
            ServerError: no answer, or none that makes sense.
        """
        _object(self._ask("POST", "resumes", {"kernel_id": self.address.kernel_id}))

    def wake(self) -> None:
        """Say that something waits in this kernel for it to be resumed.

        Raises:
            ServerError: no answer.
        """
        self._ask("POST", f"{self.address.kernel_path}/wake", {})

    def keep(self, seconds: float) -> Kept:
        """Keep this kernel from being parked by itself for so long, 0 for no longer. The server sets a bound.

        Raises:
            ServerError: no answer, or none that makes sense.
        """
        return self._read(Kept, "POST", "keep", {"seconds": seconds, "kernel_id": self.address.kernel_id})

    def set_policy(self, wish: Mapping[str, object]) -> Policy:
        """Change when this kernel is parked by itself; *wish* holds the fields that change.

        Raises:
            ServerError: no answer, or none that makes sense.
        """
        return self._read(Policy, "PUT", f"{self.address.kernel_path}/policy", wish)

    def request_share(self, share: str) -> ShareChanged:
        """Ask for another share for the whole session, live.

        Raises:
            ServerError: ``REFUSED`` with the reason; or no answer.
        """
        return self._read(ShareChanged, "POST", "request", {"share": share})

    def stream_request(self) -> HTTPRequest:
        """The request that opens the WebSocket stream."""
        return self._request(self.address.url("stream", websocket=True))

    def resolver(self) -> Resolver:
        """How the server's host is found: by name, or at its Unix socket."""
        return resolver_of(self.address)

    def _read(self, kind: type[_T], method: str, path: str, body: Mapping[str, object] | None = None) -> _T:
        try:
            return decode(self._ask(method, path, body), kind)
        except NotUnderstoodError as error:
            raise _not_understood(str(error)) from None

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> bytes:
        """One request in a thread of its own: the kernel's main thread already runs an event loop."""
        return _in_a_thread(self._exchange(method, path, body))

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


def resolver_of(address: Address) -> Resolver:
    """How the host of *address* is found: by name, or at its Unix socket."""
    path = address.socket_path
    resolver: Resolver = _SocketResolver(path=path) if path else _Resolver()
    return resolver


class _Resolver(Resolver):
    """Looks names up in the asking thread, which is ours and does nothing else.

    An executor's thread, which would outlive the look-up, cannot be told from one of the user's, and those are
    background work that is not parked.
    """

    async def resolve(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[tuple[int, Any]]:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        return [(known_family, address) for known_family, _, _, _, address in found]


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


def _in_a_thread(exchange: Coroutine[Any, Any, bytes]) -> bytes:
    """What *exchange* returns or raises, in a thread whose code is ours: see `_Resolver`."""
    answer: Future[bytes] = Future()

    def run() -> None:
        try:
            answer.set_result(asyncio.run(exchange))
        except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
            answer.set_exception(error)

    threading.Thread(target=run, name="gpushare-request", daemon=True).start()
    return answer.result()


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
    said = _server_said(error.response.body if error.response else b"")
    if error.code in _NOT_ADMITTED:
        text = "The server no longer knows this kernel's token. Restart the kernel to get a new one."
        return ServerError("TOKEN_REFUSED", f"{text} ({said.text})" if said.text else text)
    if error.code == _CONFLICT and said.text and said.confirm:
        return ServerError("NEEDS_CONFIRMATION", said.text, said.confirm)
    if error.code == _CONFLICT and said.text and said.code == "CANNOT_PARK":
        return ServerError("CANNOT_PARK", said.text, reason=said.reason)
    return ServerError("REFUSED", said.text or f"The server refused: {error.code} {error.message}.")


class _Said(NamedTuple):
    """An error's body: the sentence, its constant, what confirms it, why parking was refused; empty where missing."""

    text: str = ""
    code: str = ""
    confirm: str = ""
    reason: str = ""


def _server_said(body: bytes) -> _Said:
    try:
        answer = _object(body)
    except ServerError:
        return _Said()
    error = answer.get("error")
    error = error if isinstance(error, dict) else {}
    values = error.get("values")
    values = values if isinstance(values, dict) else {}
    return _Said(
        _text(answer.get("message"))[:_LONGEST_SENTENCE],
        _constant(error.get("code")),
        _constant(answer.get("confirm")),
        _constant(values.get("reason_code")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _constant(value: object) -> str:
    """A word that programs compare: cut, it would be another one."""
    text = _text(value)
    return text if len(text) <= _LONGEST_CONSTANT else ""


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
