"""What a browser shows: the cookie of who has signed in, and the proof that a page of ours made the request.

The cookie alone proves little. Everything of a hub lies on one origin, users' own servers too, so that a page there may
send requests with it. What changes something, what a script reads and every WebSocket must therefore carry a token too
(`Sitting.xsrf`) that only our own pages hold, which no page of somebody else may look into
(``Content-Security-Policy``, and no cookie without the token but for a visit: Fetch Metadata, ``Sec-Fetch-Mode``).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tornado.web import decode_signed_value

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

__all__ = ["XSRF_FIELD", "XSRF_HEADER", "Sitting", "is_of_our_own", "sitting_of"]

#: The field of a form, and of a WebSocket's address, that holds the token.
XSRF_FIELD: Final = "_xsrf"
#: The header of a script's request that holds it.
XSRF_HEADER: Final = "X-XSRFToken"
_SESSION: Final = "jupyterhub-session-id"
_SAFE: Final = frozenset({"GET", "HEAD"})
_PURPOSE: Final = b"gpushare page\0"
_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Sitting:
    """One browser in which somebody has signed in.

    Attributes:
        token: the hub's token of it, for asking whose it is.
        session: the hub's session, which ends when that person logs out there.
        xsrf: what only a page of ours knows.
    """

    token: str
    session: str
    xsrf: str


def sitting_of(request: HTTPServerRequest, cookie: str, secret: bytes) -> Sitting | None:
    """Who sits there by the cookie called *cookie*, signed with *secret*; None for nobody."""
    found = request.cookies.get(cookie)
    token = None if found is None else decode_signed_value(secret.decode(), cookie, found.value)
    if not token:
        return None
    other = request.cookies.get(_SESSION)
    session = "" if other is None else other.value[:_LONGEST]
    said = _PURPOSE + session.encode("utf-8", "replace") + b"\0" + token
    xsrf = hmac.new(secret, said, hashlib.sha256).hexdigest()
    return Sitting(token.decode("ascii", "replace"), session, xsrf)


def is_of_our_own(request: HTTPServerRequest, sitting: Sitting) -> bool:
    """Whether *request* is a plain visit, which shows its page to nobody but the person, or a page of ours made it."""
    headers = request.headers
    is_socket = headers.get("Upgrade", "").lower() == "websocket"
    mode = headers.get("Sec-Fetch-Mode", "navigate")
    if request.method in _SAFE and mode == "navigate" and not is_socket:
        return True
    return _is_from_here(request) and any(
        hmac.compare_digest(given.encode("utf-8", "replace"), sitting.xsrf.encode()) for given in _given(request)
    )


def _given(request: HTTPServerRequest) -> list[str]:
    fields = [*request.body_arguments.get(XSRF_FIELD, ()), *request.query_arguments.get(XSRF_FIELD, ())]
    return [request.headers.get(XSRF_HEADER, ""), *(field[:_LONGEST].decode("utf-8", "replace") for field in fields)]


def _is_from_here(request: HTTPServerRequest) -> bool:
    """Browsers say where a page came from that changes something; programs need not."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    proxied = request.headers.get("X-Forwarded-Host") or request.headers.get("Host", "")
    return urlsplit(origin).netloc.lower() == proxied.split(",")[0].strip().lower()
