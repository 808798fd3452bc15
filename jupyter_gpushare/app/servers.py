"""This user's running Jupyter servers, found by their runtime files and asked as their own user."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gpushare.notebook.address import Address, ServerError
from jupyter_gpushare.notebook.server import resolver_of
from jupyter_gpushare.session.wire import ErrorAnswer, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["AnswerError", "Answered", "RunningServer", "ask_all"]

_T = TypeVar("_T")
_DEADLINE_S: Final = 20.0
_LARGEST_ANSWER: Final = 16 << 20
_PROBLEMS: Final = {
    401: "It does not accept its own token.",
    403: "It does not let this user read the GPU share.",
    404: "It runs without the extension. Install jupyter_gpushare where it runs, then restart it.",
    599: "It did not answer in time.",
}


class AnswerError(Exception):
    """A server did not do what was asked. The text is for people.

    Attributes:
        said: the server's own error, None where it said nothing that makes sense.
    """

    def __init__(self, text: str, said: ErrorAnswer | None = None) -> None:
        super().__init__(text)
        self.said = said


@dataclass(frozen=True, slots=True)
class RunningServer:
    """One server as its runtime file describes it; *directory* is where its notebooks' paths begin."""

    url: str
    directory: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, info: dict[str, Any]) -> Self:
        """The server of one runtime file."""
        return cls(str(info["url"]), str(info.get("root_dir", "")), str(info.get("token", "")))

    async def session(self) -> Snapshot:
        """Everything at once; looking is no activity.

        Raises:
            AnswerError: no answer, or none that makes sense.
        """
        return await self.ask(Snapshot, "GET", "session?no_track_activity=1")

    async def ask(self, kind: type[_T], method: str, path: str, body: object = None) -> _T:
        """One request; its answer as *kind*.

        Raises:
            AnswerError: a refusal, no answer, or none that makes sense.
        """
        try:
            return msgspec.json.decode(await self._fetch(method, path, body), type=kind)
        except HTTPClientError as error:
            raise _refusal(error) from None
        except (OSError, ServerError) as error:
            raise AnswerError(f"It does not answer: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise AnswerError(f"Its answer is not understood: {error}. Is it of another version?") from None

    async def _fetch(self, method: str, path: str, body: object) -> bytes:
        address = Address(f"{self.url.rstrip('/')}/gpushare/api/v1", "", "")
        request = HTTPRequest(
            address.url(path),
            method,
            headers={"Authorization": f"token {self.token}"},
            body=None if body is None else msgspec.json.encode(body),
            request_timeout=_DEADLINE_S,
            follow_redirects=False,  # the token goes to this server and nowhere else
            validate_cert=False,  # a server of this user on this machine, whose certificate may be its own
        )
        client = SimpleAsyncHTTPClient(
            force_instance=True, resolver=resolver_of(address), max_body_size=_LARGEST_ANSWER
        )
        try:
            return (await client.fetch(request)).body
        finally:
            client.close()


@dataclass(frozen=True, slots=True)
class Answered:
    """One server with its session, or with why there is none."""

    server: RunningServer
    session: Snapshot | None
    problem: str = ""


async def ask_all(infos: Iterable[dict[str, Any]]) -> list[Answered]:
    """Ask every server at once."""
    return list(await asyncio.gather(*(_ask(RunningServer.of(info)) for info in infos)))


async def _ask(server: RunningServer) -> Answered:
    try:
        return Answered(server, await server.session())
    except AnswerError as problem:
        return Answered(server, None, str(problem))


def _refusal(error: HTTPClientError) -> AnswerError:
    try:
        said = msgspec.json.decode(error.response.body if error.response else b"", type=ErrorAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = _PROBLEMS.get(error.code, f"It answered with HTTP {error.code}; its log says why.")
        return AnswerError(text)
    return AnswerError(said.message, said)
