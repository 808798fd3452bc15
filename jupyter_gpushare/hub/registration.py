"""What JupyterHub must know of us: the service, its role, our scopes. All of it is added to what an admin has set."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Final

from traitlets.config.loader import LazyConfigValue

from jupyter_gpushare.hub import plain_http
from jupyter_gpushare.hub.chaining import chain, configured, former_of
from jupyter_gpushare.hub.site_urls import SERVICE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from traitlets.config import Config

__all__ = ["CUSTOM_SCOPES", "add_custom_scopes", "add_roles", "add_server_scopes", "add_service"]

_ACCESS: Final = f"access:services!service={SERVICE}"
_READ: Final = "custom:gpushare:read"
_WRITE: Final = "custom:gpushare:write"
_ADMIN: Final = "custom:gpushare:admin"

#: The hub keeps them and hands them out; what they allow the service knows.
CUSTOM_SCOPES: Final[Mapping[str, Mapping[str, Any]]] = {
    _READ: {"description": "See one's own GPU shares, and how full the GPUs are"},
    _WRITE: {"description": "Ask for, release and end one's own GPU shares", "subscopes": [_READ]},
    _ADMIN: {"description": "Manage everybody's GPU shares, quotas and devices", "subscopes": [_WRITE]},
}
#: What the service may do by itself: see who is in which group and which servers run, and stop idle ones.
_SERVICE_SCOPES: Final = (
    "list:users",
    "read:users:name",
    "read:users:groups",
    "read:users:activity",
    "read:servers",
    "delete:servers",
)
#: What it may know of who has signed in on its pages; of these, what that person may.
_PAGE_SCOPES: Final = ("read:users:name!user", "read:users:groups!user", _READ, _WRITE, _ADMIN)
#: JupyterHub's own defaults, which a list of one's own replaces ("server" and "user" in its documentation of roles).
_SERVER_DEFAULT: Final = ("users:activity!user", "access:servers!server")
_USER_DEFAULT: Final = ("self",)
_HAS_EXTRA_SCOPES: Final = (6,)


def add_service(c: Config, port: int, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Have the hub run the service on *port*, with *arguments* and what *environment* says."""
    plain_http.warn(c)
    _append(
        c,
        "services",
        {
            "name": SERVICE,
            "url": f"http://127.0.0.1:{port}",
            "command": [sys.executable, "-m", "jupyter_gpushare.hub", *arguments],
            "environment": dict(environment),
            "oauth_no_confirm": True,
            "oauth_client_allowed_scopes": list(_PAGE_SCOPES),
            "display": True,
        },
    )


def add_custom_scopes(c: Config) -> None:
    """Let the hub know our scopes; what an admin says of one of them stays."""
    said = _value(c, "custom_scopes", {})
    c.JupyterHub.custom_scopes = {**{name: dict(scope) for name, scope in CUSTOM_SCOPES.items()}, **said}


def add_roles(c: Config, version: tuple[int, ...]) -> None:
    """Let the service do its work, and every user of a hub of *version* use it."""
    _append(c, "load_roles", {"name": f"{SERVICE}-service", "services": [SERVICE], "scopes": list(_SERVICE_SCOPES)})
    roles: list[dict[str, Any]] = c.JupyterHub.load_roles
    of_users = next((role for role in roles if role.get("name") == "user"), None)
    if of_users is not None:
        # An admin's own list replaces the hub's, and whatever else would be added to it.
        of_users["scopes"] = _with(of_users.get("scopes", _USER_DEFAULT), _ACCESS, _WRITE)
    elif version >= _HAS_EXTRA_SCOPES:
        c.JupyterHub.extra_user_scopes = {*_value(c, "extra_user_scopes", set()), _ACCESS, _WRITE}
    else:
        roles.append({"name": "user", "scopes": _with(_USER_DEFAULT, _ACCESS, _WRITE)})


def add_server_scopes(c: Config) -> None:
    """Let each server ask the service for its person: what the person itself may not, its server may not either."""
    roles: list[dict[str, Any]] = _value(c, "load_roles", [])
    of_servers = next((role for role in roles if role.get("name") == "server"), {})
    usual = of_servers.get("scopes", _SERVER_DEFAULT)

    def wrap(former: Any) -> Callable[[Any], Any]:
        def added(scopes: Any) -> list[str]:
            return _with(scopes or usual, _ACCESS, _WRITE)

        async def added_later(scopes: Awaitable[Any]) -> list[str]:
            return added(await scopes)

        def server_token_scopes(spawner: Any) -> list[str] | Awaitable[list[str]]:
            # The hub asks with changes in its database that it has not committed. Waiting here would let another of
            # its requests come between, whose end rolls them back: the server would have no address.
            said = former_of(former, spawner, "server_token_scopes")
            scopes = said(spawner) if callable(said) else said
            return added_later(scopes) if inspect.isawaitable(scopes) else added(scopes)

        return server_token_scopes

    chain(c, "server_token_scopes", wrap)


def _with(scopes: Sequence[str], *more: str) -> list[str]:
    return [*scopes, *(scope for scope in more if scope not in scopes)]


def _append(c: Config, trait: str, item: dict[str, Any]) -> None:
    """Put *item* at the end of a list, whether it was set or only added to so far."""
    c.JupyterHub[trait] = [*_value(c, trait, []), item]


def _value(c: Config, trait: str, empty: Any) -> Any:
    """What is configured, a copy where it will be changed."""
    said = c.JupyterHub.get(trait)
    # ``c.JupyterHub.services.append(…)``, ``….custom_scopes.update(…)`` without having set it
    found = said.get_value(empty) if isinstance(said, LazyConfigValue) else configured(c.JupyterHub, trait)
    if found is None:
        return empty
    return [dict(each) if isinstance(each, dict) else each for each in found] if isinstance(found, list) else found
