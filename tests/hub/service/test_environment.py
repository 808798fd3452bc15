"""What the hub tells the service: read, or refused by the name of the variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.hub.service.environment import EnvironmentProblemError, HubEnvironment
from jupyter_gpushare.hub.service.hub_rest import HubRest
from jupyter_gpushare.hub.service.own_interface import OwnTokens
from jupyter_gpushare.hub.service.secret import cookie_secret
from jupyter_gpushare.hub.service.standing import Level, Standing

if TYPE_CHECKING:
    from pathlib import Path

ENVIRON = {
    "JUPYTERHUB_SERVICE_NAME": "gpushare",
    "JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:10203",
    "JUPYTERHUB_SERVICE_PREFIX": "/services/gpushare/",
    "JUPYTERHUB_API_URL": "http://127.0.0.1:8081/hub/api",
    "JUPYTERHUB_API_TOKEN": "a" * 32,
    "GPUSHARE_HUB_TOKEN": "h" * 40,
}


def test_a_hub_at_the_root() -> None:
    """What a hub sets without more configuration."""
    known = HubEnvironment.read(ENVIRON)
    assert (known.port, known.prefix, known.hub_prefix) == (10203, "/services/gpushare/", "/hub/")
    assert (known.client_id, known.hub_url) == ("service-gpushare", "/hub/")


def test_a_hub_below_a_path_and_with_a_domain_for_each_user() -> None:
    """`base_url` and `JUPYTERHUB_HOST` change where pages lead."""
    more = {
        "JUPYTERHUB_BASE_URL": "/jupyter/",
        "JUPYTERHUB_SERVICE_PREFIX": "/jupyter/services/gpushare/",
        "JUPYTERHUB_HOST": "https://hub.example/",
    }
    known = HubEnvironment.read(ENVIRON | more)
    assert known.hub_url == "https://hub.example/jupyter/hub/"


@pytest.mark.parametrize("name", sorted(ENVIRON))
def test_a_variable_that_is_missing_is_named(name: str) -> None:
    """And who would set it."""
    with pytest.raises(EnvironmentProblemError, match=f"{name} is not set: JupyterHub sets it"):
        HubEnvironment.read({**ENVIRON, name: ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JUPYTERHUB_SERVICE_URL", "https://127.0.0.1:10203"),
        ("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1"),
        ("JUPYTERHUB_SERVICE_URL", "http://0.0.0.0:10203"),
        ("JUPYTERHUB_SERVICE_URL", "unix:/run/x"),
        ("GPUSHARE_HUB_TOKEN", "short"),
        ("GPUSHARE_TEMPLATE_VARS", "no json"),
        ("GPUSHARE_TEMPLATE_VARS", "[]"),
        ("GPUSHARE_HUB_TOKEN", "é" * 40),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(name: str, value: str) -> None:
    """With what to write instead."""
    with pytest.raises(EnvironmentProblemError, match=name):
        HubEnvironment.read({**ENVIRON, name: value})


def test_the_secret_of_cookies_stays_over_a_restart_and_is_nobody_elses(tmp_path: Path) -> None:
    """Who has signed in stays so; a file that others can read is refused."""
    state = tmp_path / "state"
    secret = cookie_secret(state)
    assert cookie_secret(state) == secret
    assert len(secret) == 64
    (state / "cookie.key").chmod(0o644)
    with pytest.raises(PermissionError, match="can be read by others"):
        cookie_secret(state)
    (state / "cookie.key").chmod(0o600)
    (state / "cookie.key").write_text("short")
    with pytest.raises(PermissionError, match="too short"):
        cookie_secret(state)


def test_a_state_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    """In one sentence with the command that helps."""
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    with pytest.raises(OSError, match=f"chmod 700 {state}"):
        cookie_secret(state)


def test_our_own_tokens_are_of_this_process_and_of_this_minute() -> None:
    """Another process's, an old one and a changed one are nobody's."""
    now = 100.0
    tokens = OwnTokens(lambda: now)
    standing = Standing("ana", is_service=False, groups=frozenset({"g"}), level=Level.ACT)
    token = tokens.issue(standing)
    assert tokens.standing_of(token) == standing
    assert OwnTokens(lambda: now).standing_of(token) is None
    assert tokens.standing_of(token[:-1] + "x") is None
    assert tokens.standing_of(token.replace("gpi_", "gpi_A")) is None
    now = 161.0
    assert tokens.standing_of(token) is None


def test_the_next_page_of_a_list_is_never_another_hosts() -> None:
    """Whatever the answer says, our token is shown to the hub alone."""
    hub = HubRest("http://127.0.0.1:8081/jupyter/hub/api", "t")
    assert hub._path_of("https://evil.example/jupyter/hub/api/users?offset=200") == "/users?offset=200"
    assert hub._path_of("//evil.example/?x=1") == "/users?x=1"
    assert hub._path_of("/jupyter/hub/api/users?offset=2&limit=2") == "/users?offset=2&limit=2"
