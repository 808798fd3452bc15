"""A real JupyterHub: the share that is picked is the share that the server has, and no other can be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import jupyterhub  # type: ignore[import-untyped]
import pytest

from .running_hub import RunningHub, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .browser_user import BrowserUser

pytestmark = pytest.mark.hub


@pytest.fixture
def user(hub: RunningHub, request: pytest.FixtureRequest) -> Iterator[BrowserUser]:
    """Somebody new in each test, whose name has a dot in it."""
    browser = hub.log_in(f"{request.node.originalname.removeprefix('test_').replace('_', '-')[:24]}.x")
    yield browser
    browser.close()


def test_picked_share_is_the_servers(hub: RunningHub, user: BrowserUser) -> None:
    """Half a GPU picked on the spawn page is what the sidebar's interface then says; the next pick replaces it."""
    form = user.open_spawn_page()
    assert form.choices["share"] == ["none", "0.25", "0.5", "0.25..0.8", "1"]
    assert form.fields["share"] == "0.25", "the default is selected"
    assert user.submit(form, share="0.5").status_code == 302
    wait_for("server ready", user.server_when_ready)
    share = user.session().raise_for_status().json()["share"]
    assert (share["text"], share["source"]) == ("0.5", "broker")

    assert user.api("DELETE", f"users/{user.name}/server").is_success
    wait_for("server gone", lambda: True if user.server() is None else None)
    form = user.open_spawn_page()
    assert form.fields["share"] == "0.5", "the last pick is selected"
    assert user.submit(form, share="0.25..0.8").status_code == 302
    wait_for("second server ready", user.server_when_ready)
    assert user.session().raise_for_status().json()["share"]["text"] == "0.25..0.8"
    assert hub.server_processes(user.name)


@pytest.mark.parametrize("share", ["0.75", "8", "0.5; rm -rf /", '<script>alert("x")</script>', ""])
def test_form_with_another_share(hub: RunningHub, user: BrowserUser, share: str) -> None:
    """A form that was tampered with starts no server: the page comes back and says what can be had, escaped."""
    form = user.open_spawn_page()
    response = user.submit(form, share=share)
    assert response.status_code == 422
    assert "Choose one of these: 0.25, 0.5, 0.25..0.8, 1." in response.text
    assert "<script>alert" not in response.text
    assert user.server() is None
    assert hub.server_processes(user.name) == []


# JupyterHub 5 takes the body for the options, JupyterHub 6 takes this and a body that names them.
BODIES: list[dict[str, Any]] = [{"share": "0.75"}, {"share": ["0.5"]}, {"share": 0.5}, {"share": {"x": 1}}]
if jupyterhub.version_info >= (6,):
    BODIES.append({"user_options": {"share": "0.75"}})


@pytest.mark.parametrize("body", BODIES)
def test_api_with_another_share(hub: RunningHub, user: BrowserUser, body: dict[str, Any]) -> None:
    """The REST interface passes the form by, and refuses just the same: with the message, and no server is left."""
    headers = {"Authorization": f"token {user.token}"}
    url = f"{hub.url}/hub/api/users/{user.name}/server"
    response = httpx.post(url, json=body, headers=headers, timeout=60)
    assert response.status_code == 422
    assert "Choose one of these: 0.25, 0.5, 0.25..0.8, 1." in response.json()["message"]
    assert user.server() is None
    assert hub.server_processes(user.name) == []


def test_api_without_options(user: BrowserUser) -> None:
    """Who asks for nothing gets the admin's default, not a whole GPU."""
    assert user.api("POST", f"users/{user.name}/server", json={}).status_code in {201, 202}
    wait_for("server ready", user.server_when_ready)
    assert user.session().raise_for_status().json()["share"]["text"] == "0.25"
