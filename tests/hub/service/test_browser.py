"""The cookie alone proves nothing that matters: what a page of ours sends carries a token too."""

from __future__ import annotations

import pytest
from tornado.escape import parse_qs_bytes
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import create_signed_value

from jupyter_gpushare.hub.service.browser import Sitting, is_of_our_own, sitting_of

SECRET = b"s" * 64
COOKIE = "service-gpushare"


def request(
    verb: str = "GET", path: str = "/services/gpushare/sessions", cookie: str = "", body: str = "", **headers: str
) -> HTTPServerRequest:
    """A request as tornado has it. Underscores in names of headers are hyphens."""
    lines = HTTPHeaders({name.replace("_", "-"): value for name, value in headers.items()})
    lines["Host"] = "hub.example"
    if cookie:
        lines["Cookie"] = cookie
    made = HTTPServerRequest(headers=lines, start_line=RequestStartLine(verb, path, "HTTP/1.1"))
    made.body_arguments = parse_qs_bytes(body.encode())
    return made


def signed(secret: bytes = SECRET) -> str:
    """The cookie of somebody who has signed in."""
    return f"{COOKIE}={create_signed_value(secret.decode(), COOKIE, 't0k3n').decode()}"


def sits(session: str = "") -> Sitting:
    """Who sits there by that cookie."""
    cookies = signed() + (f"; jupyterhub-session-id={session}" if session else "")
    found = sitting_of(request(cookie=cookies), COOKIE, SECRET)
    assert found is not None
    return found


def test_a_cookie_that_we_did_not_sign_is_nobodys() -> None:
    """Only our own signature makes a cookie one."""
    assert sitting_of(request(cookie=signed(secret=b"x" * 64)), COOKIE, SECRET) is None
    assert sitting_of(request(cookie=f"{COOKIE}=t0k3n"), COOKIE, SECRET) is None
    assert sitting_of(request(), COOKIE, SECRET) is None
    assert sits().token == "t0k3n"


def test_the_token_of_forms_is_of_one_login_alone() -> None:
    """After logging in anew, or as somebody else, an old page's forms work no more."""
    one, other = sits("a"), sits("b")
    assert one.xsrf == sits("a").xsrf
    assert one.xsrf != other.xsrf


@pytest.mark.parametrize("mode", ["", "navigate"])
def test_a_visit_needs_no_more_than_the_cookie(mode: str) -> None:
    """A page may be opened by a link, in old browsers too."""
    headers = {"Sec_Fetch_Mode": mode} if mode else {}
    assert is_of_our_own(request(**headers), sits())
    assert is_of_our_own(request("HEAD", **headers), sits())


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Mode": "cors"},
        {"Sec_Fetch_Mode": "same-origin"},
        {"Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Mode": "websocket", "Upgrade": "websocket"},
        {"Upgrade": "WebSocket"},
    ],
)
def test_a_script_of_a_users_own_server_reads_nothing(headers: dict[str, str]) -> None:
    """Such a server lies on the same origin: without the token its scripts see no page, and open no socket."""
    assert not is_of_our_own(request(**headers), sits())
    assert is_of_our_own(request(path=f"/x?_xsrf={sits().xsrf}", **headers), sits())
    assert is_of_our_own(request(X_XSRFToken=sits().xsrf, **headers), sits())


@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_is_changed_without_the_token(verb: str) -> None:
    """A form of another page, which a browser would send the cookie with, does nothing."""
    assert not is_of_our_own(request(verb), sits())
    assert not is_of_our_own(request(verb, body="_xsrf=wrong"), sits())
    assert not is_of_our_own(request(verb, body="_xsrf=%FF%FE"), sits())
    assert not is_of_our_own(request(verb, body=f"_xsrf={sits('other').xsrf}"), sits())
    assert is_of_our_own(request(verb, body=f"_xsrf={sits().xsrf}"), sits())


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_site_does_nothing_even_with_the_token(headers: dict[str, str]) -> None:
    """A token that leaked is of no use elsewhere."""
    body = f"_xsrf={sits().xsrf}"
    assert not is_of_our_own(request("POST", body=body, **headers), sits())
    assert is_of_our_own(request("POST", body=body, Origin="https://hub.example"), sits())
    proxied = {"Origin": "https://public.example", "X_Forwarded_Host": "public.example"}
    assert is_of_our_own(request("POST", body=body, **proxied), sits())
