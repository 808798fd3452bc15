"""One attempt to tell somebody: a signed POST, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import HTTPTimeoutError, SimpleAsyncHTTPClient

if TYPE_CHECKING:
    from tornado.httpclient import HTTPResponse

    from jupyter_gpushare.hub.news.signing import Secret
    from jupyter_gpushare.hub.news.wording import News

__all__ = ["Attempt", "Why", "attempt"]

#: What a receiver has time for: it takes note, and does the work afterwards.
WITHIN_S: Final = 10.0
_CONNECT_S: Final = 5.0
# What a receiver says is of no interest; a long page of an error must not fill the memory.
_LARGEST_ANSWER: Final = 1 << 20
_TOOK, _REDIRECTS, _REFUSES, _FAILS = 200, 300, 400, 500
#: "Request Timeout", "Too Early", "Too Many Requests": later it may be right.
_LATER: Final = frozenset({408, 425, 429})


class Why(StrEnum):
    """Why an attempt failed."""

    #: Nobody was reached: no such host, no connection, no certificate.
    AWAY = "away"
    #: No answer in time.
    SLOW = "slow"
    #: It answers with another address; what is signed for one address is sent to no other.
    REDIRECTED = "redirected"
    #: It answers that it does not want this (4xx).
    REFUSED = "refused"
    #: It answers that something is wrong with it (5xx), or that it has no time now.
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of it.

    Attributes:
        why: None if it was taken.
        said: for the log.
        wait_s: how long the receiver wants to be left alone.
    """

    why: Why | None = None
    said: str = ""
    wait_s: float = 0.0

    @property
    def is_for_good(self) -> bool:
        """Whether the receiver says that it will never take this."""
        return self.why in (Why.REFUSED, Why.REDIRECTED)


async def attempt(news: News, url: str, secret: Secret, at: float) -> Attempt:
    """Tell *news* to *url*, signed, at the time *at* of the wall's clock. Nothing is raised for what goes wrong."""
    body = news.body()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "jupyter_gpushare",
        "webhook-id": news.key,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": secret.sign(news.key, int(at), body),
    }
    request = HTTPRequest(
        url,
        method="POST",
        headers=headers,
        body=body,
        connect_timeout=_CONNECT_S,
        request_timeout=WITHIN_S,
        follow_redirects=False,
        decompress_response=False,
    )
    client = SimpleAsyncHTTPClient(force_instance=True, max_body_size=_LARGEST_ANSWER)
    try:
        return _outcome(await client.fetch(request, raise_error=False))
    except HTTPTimeoutError as error:
        return Attempt(Why.SLOW, str(error))
    except (HTTPClientError, OSError, ValueError) as error:
        return Attempt(Why.AWAY, str(error) or type(error).__name__)
    finally:
        client.close()


def _outcome(response: HTTPResponse) -> Attempt:
    code = response.code
    if isinstance(response.error, HTTPTimeoutError):
        return Attempt(Why.SLOW, f"no answer within {WITHIN_S:g} s")
    if code not in range(100, 600) or code >= 599:  # noqa: PLR2004  # tornado's own number for "no answer"
        return Attempt(Why.AWAY, str(response.error))
    if _TOOK <= code < _REDIRECTS:
        return Attempt()
    said = f"it answered {code}"
    if code < _REFUSES:
        return Attempt(Why.REDIRECTED, f"{said}; redirects are not followed: write the final address into the file")
    if code < _FAILS and code not in _LATER:
        return Attempt(Why.REFUSED, said)
    return Attempt(Why.FAILING, said, _seconds(response.headers.get("Retry-After", "")))


def _seconds(text: str) -> float:
    """Of a ``Retry-After`` (RFC 9110, 10.2.3); 0 where it is a date or anything else."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
