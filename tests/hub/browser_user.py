"""What a browser does on the hub's pages: cookies, hidden fields, the form's own encoding. No script."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import httpx


class Form(HTMLParser):
    """The fields of the page's form as a browser would send it, and the choices of each group of radio buttons."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.choices: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "form" and attributes.get("method") == "post":
            self.action = attributes.get("action") or ""
        name = attributes.get("name")
        if tag != "input" or not name:
            return
        value = attributes.get("value") or ""
        if attributes.get("type") == "radio":
            self.choices.setdefault(name, []).append(value)
            if "checked" not in attributes:
                return
        self.fields[name] = value


class BrowserUser:
    """Somebody who has logged in."""

    def __init__(self, url: str, name: str, password: str) -> None:
        self.name = name
        self._client = httpx.Client(base_url=url, follow_redirects=True, timeout=60)
        form = Form(self._client.get("/hub/login").text)
        fields = {**form.fields, "username": name, "password": password}
        self._client.post("/hub/login", data=fields).raise_for_status()
        self.token = self.api("POST", f"users/{name}/tokens", json={"note": "test"}).json()["token"]

    def close(self) -> None:
        """Close the browser."""
        self._client.close()

    def open_spawn_page(self) -> Form:
        """The form on the page where a server's options are chosen."""
        response = self._client.get("/hub/spawn")
        response.raise_for_status()
        return Form(response.text)

    def submit(self, form: Form, **changed: str) -> httpx.Response:
        """Send *form* with some fields changed, as the page's button does."""
        fields = {name: (None, value) for name, value in {**form.fields, **changed}.items()}
        return self._client.post(form.action, files=fields, follow_redirects=False)

    def api(self, verb: str, path: str, **arguments: Any) -> httpx.Response:
        """Call the hub's REST interface with the session's own cookies."""
        headers = {"X-XSRFToken": self._client.cookies.get("_xsrf", path="/hub/") or ""}
        return self._client.request(verb, f"/hub/api/{path}", headers=headers, **arguments)

    def server(self) -> dict[str, Any] | None:
        """The hub's record of this user's server, None when there is none."""
        servers: dict[str, Any] = self.api("GET", f"users/{self.name}").raise_for_status().json()["servers"]
        return servers.get("")

    def server_when_ready(self) -> dict[str, Any] | None:
        """The record once the server runs."""
        server = self.server()
        return server if server and server["ready"] else None

    def session(self) -> httpx.Response:
        """What the server's own interface says about the session, asked for as a script with a token would."""
        path = f"/user/{self.name}/gpushare/api/v1/session"
        return self._client.get(path, headers={"Authorization": f"token {self.token}"})
