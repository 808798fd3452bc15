"""What JupyterHub tells a service that it runs: where the hub is, and who the service is there.

The names are JupyterHub's own (its documentation of services, "Launching a hub-managed service"), all but
``GPUSHARE_HUB_TOKEN``, the secret that `setup_gpushare` gives to this service and to the hub's hooks, and
``GPUSHARE_TEMPLATE_VARS``, what the hub's templates are given besides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HUB_TOKEN", "TEMPLATE_VARS", "EnvironmentProblemError", "HubEnvironment"]

HUB_TOKEN: Final = "GPUSHARE_HUB_TOKEN"  # noqa: S105  # a variable's name
TEMPLATE_VARS: Final = "GPUSHARE_TEMPLATE_VARS"
_SHORTEST_TOKEN: Final = 32
_OWN_ADDRESSES: Final = frozenset({"127.0.0.1", "localhost"})
_HOW: Final = "JupyterHub sets it for a service that setup_gpushare(c) has added to its configuration"


class EnvironmentProblemError(ValueError):
    """A variable is missing or wrong. Names it, and says who sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubEnvironment:
    """Where the hub is, and who we are there.

    Attributes:
        name: of this service, at the hub.
        prefix: below which everything of ours is, for browsers; begins and ends with a slash.
        base_url: above the hub and all servers; begins and ends with a slash.
        api_url: the hub's REST interface, for programs on this machine.
        api_token: by which the hub knows this service.
        client_id: this service as an OAuth client.
        port: on which to listen, on this machine's own address alone: the hub's proxy is in front of it.
        hub_token: what the hub's own hooks show.
        template_vars: what the admin gives the hub's templates.
        host: scheme and host of the hub where each user has a domain of its own; empty for one domain.
    """

    name: str
    prefix: str
    base_url: str
    api_url: str
    api_token: str
    client_id: str
    port: int
    hub_token: str
    host: str = ""
    template_vars: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hub_prefix(self) -> str:
        """The hub's own pages, for browsers; begins and ends with a slash."""
        return f"{self.base_url}hub/"

    @property
    def hub_url(self) -> str:
        """The hub's own pages, with their host where that is another one."""
        return f"{self.host}{self.hub_prefix}"

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Read the variables.

        Raises:
            EnvironmentProblemError: one is missing or wrong.
        """
        url = urlsplit(_get(environ, "JUPYTERHUB_SERVICE_URL"))
        if url.scheme != "http" or url.hostname not in _OWN_ADDRESSES or not url.port:
            raise EnvironmentProblemError(
                f"JUPYTERHUB_SERVICE_URL={url.geturl()[:200]} cannot be listened on: write for example "
                "http://127.0.0.1:10203"
            )
        token = _get(environ, HUB_TOKEN)
        if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
            raise EnvironmentProblemError(
                f"{HUB_TOKEN} is shorter than {_SHORTEST_TOKEN} plain characters: leave it to setup_gpushare(c)"
            )
        name = _get(environ, "JUPYTERHUB_SERVICE_NAME")
        return cls(
            name=name,
            prefix=_slashed(_get(environ, "JUPYTERHUB_SERVICE_PREFIX")),
            base_url=_slashed(environ.get("JUPYTERHUB_BASE_URL") or "/"),
            api_url=_get(environ, "JUPYTERHUB_API_URL").rstrip("/"),
            api_token=_get(environ, "JUPYTERHUB_API_TOKEN"),
            client_id=environ.get("JUPYTERHUB_CLIENT_ID") or f"service-{name}",
            port=url.port,
            hub_token=token,
            host=environ.get("JUPYTERHUB_HOST", "").rstrip("/"),
            template_vars=_variables(environ.get(TEMPLATE_VARS, "")),
        )


def _variables(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except msgspec.DecodeError as error:
        raise EnvironmentProblemError(
            f"{TEMPLATE_VARS} cannot be read ({error}): leave it to setup_gpushare(c)"
        ) from None


def _get(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise EnvironmentProblemError(f"{name} is not set: {_HOW}")
    return value


def _slashed(path: str) -> str:
    inner = path.strip("/")
    return f"/{inner}/" if inner else "/"
