"""Somebody's browser on the hub, without scripts: cookies, hidden fields, forms as a browser sends them."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final, Self

import httpx

from jupyter_gpushare.demo.server import FrontEnd, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["WAIT", "Form", "Visitor", "is_started", "is_wait", "refused"]

_POLL_S: Final = 0.05
_ERROR: Final = 400
# The proxy closes a connection that was idle for 5 s, at times in the moment in which we use it again.
_LIMITS: Final = httpx.Limits(keepalive_expiry=2.0)
#: Part of the address of the page on which people wait.
WAIT: Final = "/services/gpushare/wait/"
_HIDES: Final = frozenset({"script", "style", "template"})


class Form(HTMLParser):
    """A page's forms that send something: the fields of one of them, its buttons' values; the page's text and links.

    Args:
        page: the page.
        wanted: part of the address to which the form sends; the first form that sends anything if empty.
    """

    def __init__(self, page: str, wanted: str = "") -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.choices: dict[str, list[str]] = {}
        self.unavailable: set[str] = set()
        self.links: list[str] = []
        self._wanted, self._inside, self._hidden = wanted, False, 0
        self._text: list[str] = []
        self.feed(page)
        self.text = " ".join(" ".join(self._text).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember what a browser would send."""
        attributes = {name: value or "" for name, value in attrs}
        self._hidden += tag in _HIDES
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag == "form":
            action = attributes.get("action", "")
            is_it = attributes.get("method", "").lower() == "post" and self._wanted in action and self.action is None
            self._inside = is_it
            if is_it:
                self.action = action
        elif self._inside and attributes.get("name"):
            self._take(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        """A field behind the form's end is none of its."""
        self._hidden -= tag in _HIDES and self._hidden > 0
        if tag == "form":
            self._inside = False

    def handle_data(self, data: str) -> None:
        """What people read."""
        if not self._hidden:
            self._text.append(data)

    def _take(self, tag: str, attributes: dict[str, str]) -> None:
        name, value = attributes["name"], attributes.get("value", "")
        if tag == "button" or attributes.get("type") == "submit":
            self.choices.setdefault(name, []).append(value)
            return
        if attributes.get("type") in ("radio", "checkbox"):
            self.choices.setdefault(name, []).append(value)
            if "disabled" in attributes:
                self.unavailable.add(value)
            if "checked" not in attributes:
                return
        if tag in ("input", "textarea") and "disabled" not in attributes:
            self.fields[name] = value


class Visitor:
    """Who has signed in; *token* is theirs for the hub, their server and the service. *deadline_s* bounds each wait."""

    def __init__(self, client: httpx.AsyncClient, url: str, name: str, deadline_s: float) -> None:
        self.client, self.url, self.name, self.deadline_s = client, url, name, deadline_s
        self.token = ""

    @classmethod
    async def sign_in(cls, url: str, name: str, password: str, deadline_s: float) -> Self:
        """Sign in on the hub's own page.

        Raises:
            ServerError: the hub lets nobody in with it.
        """
        client = httpx.AsyncClient(base_url=url, follow_redirects=True, timeout=deadline_s, limits=_LIMITS)
        visitor = cls(client, url, name, deadline_s)
        try:
            form = Form((await client.get("/hub/login")).text)
            answer = await client.post(
                "/hub/login", data={**form.fields, "username": name, "password": password}, follow_redirects=False
            )
            if answer.status_code != 302:  # noqa: PLR2004
                raise ServerError(f"{name} could not sign in: HTTP {answer.status_code}")  # noqa: TRY301  # closes too
            made = await visitor.api("POST", f"users/{name}/tokens", json={"note": "of the demo"})
            visitor.token = made.raise_for_status().json()["token"]
        except BaseException:
            await client.aclose()
            raise
        return visitor

    async def close(self) -> None:
        """Close the browser."""
        await self.client.aclose()

    async def api(self, verb: str, path: str, **arguments: Any) -> httpx.Response:
        """Call the hub's REST interface as its own pages do."""
        headers = {"X-XSRFToken": self.client.cookies.get("_xsrf", path="/hub/") or ""}
        return await self.client.request(verb, f"/hub/api/{path}", headers=headers, **arguments)

    async def page(self, path: str) -> httpx.Response:
        """Open a page; an error is an answer too."""
        return await self.client.get(path)

    async def spawn_page(self, server: str = "") -> Form:
        """The page where a server's options are chosen.

        Raises:
            ServerError: it is not shown.
        """
        answer = await self.page(f"/hub/spawn/{self.name}/{server}" if server else "/hub/spawn")
        form = Form(answer.text, "/spawn")
        if form.action is None:
            raise ServerError(f"{answer.url} has no form (HTTP {answer.status_code}): {form.text[:500]}")
        return form

    async def submit(self, form: Form, **changed: str) -> httpx.Response:
        """Press the form's button with some fields changed; where it leads is not gone to."""
        fields = {name: (None, value) for name, value in {**form.fields, **changed}.items()}
        return await self.client.post(form.action or "", files=fields, follow_redirects=False)

    async def spawn(self, share: str, server: str = "") -> float:
        """Pick *share* and start the server until it answers; where we are told to wait, we wait. Seconds of that.

        Raises:
            ServerError: the hub or the service refuses; with its words.
        """
        answer = await self.submit(await self.spawn_page(server), share=share)
        waited = 0.0
        while address := await self.wait_address(answer, server):
            began = time.monotonic()
            answer = await self.until("its turn", partial(self.turn, address))
            waited += time.monotonic() - began
        return waited

    async def wait_address(self, answer: httpx.Response, server: str = "") -> str:
        """Where the hub sends us to wait, after *answer* to a start; empty when the server answers.

        A hub that takes longer than a second to decide answers before, and tells the outcome on a page of its own.

        Raises:
            ServerError: it does not start; with the hub's words.
        """
        if is_wait(answer):
            return answer.headers["Location"]
        if not is_started(answer.headers.get("Location", "") or answer.url.path):
            raise refused(answer)
        failed = await self.outcome(server)
        if failed is None:
            return ""
        link = next((link for link in Form(failed.text).links if WAIT in link), "")
        if not link:
            raise refused(failed)
        return link

    async def outcome(self, server: str = "") -> httpx.Response | None:
        """Wait until the server answers: None; or until its start has failed: the page that says why."""

        async def decided() -> str | None:
            record = await self.server(server)
            return "failed" if record is None else "ready" if record["ready"] else None

        if await self.until("its server", decided) == "ready":
            return None
        return await self.page(f"/hub/spawn-pending/{self.name}{f'/{server}' if server else ''}")

    async def turn(self, address: str) -> httpx.Response | None:
        """Look at the wait page, as one without scripts does now and then; the hub's answer once it is our turn.

        Raises:
            ServerError: it will not be; with the page's words.
        """
        page = await self.client.get(address)
        if page.status_code < _ERROR and is_started(page.url.path):
            return page
        if page.status_code >= _ERROR or not Form(page.text, WAIT).action:
            raise refused(page)
        return None

    async def server(self, name: str = "") -> dict[str, Any] | None:
        """The hub's record of this person's server, None when there is none."""
        answer = await self.api("GET", f"users/{self.name}")
        record: dict[str, Any] | None = answer.raise_for_status().json()["servers"].get(name)
        return record

    async def until_ready(self, name: str = "") -> dict[str, Any]:
        """Wait until the server answers.

        Raises:
            ServerError: it does not start, or the deadline passed.
        """
        if (failed := await self.outcome(name)) is not None:
            raise refused(failed)
        record = await self.server(name)
        assert record is not None  # noqa: S101  # it has just answered
        return record

    async def stop_server(self, name: str = "") -> None:
        """Stop the server and wait until the hub has forgotten it."""
        path = f"users/{self.name}/servers/{name}" if name else f"users/{self.name}/server"
        (await self.api("DELETE", path)).raise_for_status()

        async def gone() -> bool | None:
            record = await self.server(name)
            return True if record is None or not (record["ready"] or record["pending"]) else None

        await self.until("the end of its server", gone)

    async def until(self, what: str, look: Callable[[], Awaitable[Any]]) -> Any:
        """The first true value that *look* gives.

        Raises:
            ServerError: the deadline passed.
        """
        give_up = time.monotonic() + self.deadline_s
        while not (found := await look()):
            if time.monotonic() > give_up:
                raise ServerError(f"{self.name} waited {self.deadline_s:.0f} s for {what}.")
            await asyncio.sleep(_POLL_S)
        return found

    def front_end(self, name: str = "") -> FrontEnd:
        """The server itself, asked through the hub's proxy."""
        return FrontEnd(f"{self.url}/user/{self.name}/{name + '/' if name else ''}", self.token, self.deadline_s)


def is_wait(answer: httpx.Response) -> bool:
    """Whether the answer to a spawn form leads to the page on which people wait for a share."""
    return answer.is_redirect and WAIT in answer.headers["Location"]


def is_started(address: str) -> bool:
    """Whether this is where the hub sends somebody whose server starts."""
    return "/spawn-pending/" in address or "/user/" in address


def refused(answer: httpx.Response) -> ServerError:
    """What to raise for a start that the page *answer* refuses."""
    return ServerError(f"it does not start: HTTP {answer.status_code} {answer.url} {Form(answer.text).text[:500]}")
