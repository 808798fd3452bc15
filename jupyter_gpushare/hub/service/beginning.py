"""Answers on the service's port while the service begins: its own parts are imported and its ledger opened meanwhile.

JupyterHub gives a service that it runs a time in which somebody must answer at its address, and ends itself if nobody
does: 10 s in version 5, 30 s in version 6 (its `JupyterHub.start_service`). A machine that is busy, or a ledger that is
brought to a new version, may take longer, and must not cost people their hub. An answer of less than 500 counts as one
(its `utils.wait_for_http_server`), so the service's own page says that it begins; everything else is told to come back.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["begin", "end", "is_answering"]

_POLL_S: Final = 0.02
_PAGE: Final = (
    b'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
    b"<title>GPU shares</title></head><body><p>The GPU shares of this hub begin. This page comes by itself.</p></body>"
)
_LATER: Final = b"The GPU shares of this hub begin; try again in a moment.\n"
_answering: list[ThreadingHTTPServer] = []


class _Beginning(BaseHTTPRequestHandler):
    """Knows one page."""

    prefix = "/"
    timeout = 10

    def do_GET(self) -> None:
        """The service's own page, and nothing else yet."""
        if urlsplit(self.path).path == self.prefix:
            self._answer(HTTPStatus.OK, _PAGE, "text/html; charset=utf-8")
        else:
            self._later()

    def _later(self) -> None:
        self._answer(HTTPStatus.SERVICE_UNAVAILABLE, _LATER, "text/plain; charset=utf-8")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _later  # noqa: N815  # http.server's names

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.close_connection = True  # what a request brings along is not read
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")  # as of the pages that come in its place
        self.send_header("Connection", "close")
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("Retry-After", "1")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet: it answers for seconds, and mostly the hub."""


def begin(environ: Mapping[str, str]) -> None:
    """Answer where *environ* has JupyterHub look for us, from a thread, until `end`.

    Where nobody says that, or another program has the port, nobody answers: the service itself says what is wrong.
    """
    address = urlsplit(environ.get("JUPYTERHUB_SERVICE_URL", ""))
    prefix = f"/{environ.get('JUPYTERHUB_SERVICE_PREFIX', '').strip('/')}/"
    handler = type("Beginning", (_Beginning,), {"prefix": prefix})
    try:
        if not address.hostname or not address.port:
            return
        server = ThreadingHTTPServer((address.hostname, address.port), handler)
    except (OSError, ValueError):
        return
    threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True).start()
    _answering.append(server)


def is_answering() -> bool:
    """Whether it is us who have the port."""
    return bool(_answering)


def end() -> None:
    """Answer no more, and let go of the port; nothing if nobody answers. Blocks for a moment."""
    while _answering:
        server = _answering.pop()
        server.shutdown()
        server.server_close()
