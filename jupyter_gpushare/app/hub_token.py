"""A hub server's own token, for commands in its terminals: shown to that hub's service, and to nobody else.

JupyterHub 5.5 and 6 both tell a server its token (``JUPYTERHUB_API_TOKEN``), where the hub is (``JUPYTERHUB_API_URL``,
and ``JUPYTERHUB_PUBLIC_HUB_URL`` where the hub knows that) and what is above the hub (``JUPYTERHUB_BASE_URL``). The
origin alone proves nothing: below it are other people's servers, too. So it is the service's whole address that must be
the hub's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from jupyter_gpushare.broker.client import BROKER, HUB_SERVICE, TOKEN, Endpoint, NotAnEndpointError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["HUB_TOKEN", "NotTheHubsError", "with_hub_token"]

#: The variable with which JupyterHub gives a server its token.
HUB_TOKEN: Final = "JUPYTERHUB_API_TOKEN"  # noqa: S105  # the variable's name
_BASE: Final = "JUPYTERHUB_BASE_URL"
_PUBLIC: Final = "JUPYTERHUB_PUBLIC_HUB_URL"
_API: Final = "JUPYTERHUB_API_URL"
_NO_ADDRESSES: Final = ("", "auto", "start", "off")
_USUAL_PORTS: Final = {"http": ":80", "https": ":443"}


class NotTheHubsError(NotAnEndpointError):
    """The hub's token would go to an address that is not known to be the hub's. Says what to set instead."""


def with_hub_token(environ: Mapping[str, str]) -> Mapping[str, str]:
    """*environ* as commands take it: with the server's own token where nothing else says who asks.

    A token for the server's share, or one of the person's own from the hub's page *Token*, goes before it, wherever the
    broker is. That the server's own token was written there by hand makes it no other token.

    Raises:
        NotTheHubsError: it would be shown to somebody else than the hub.
        NotAnEndpointError: GPUSHARE_BROKER is no address.
    """
    own, given = (environ.get(name, "").strip() for name in (HUB_TOKEN, TOKEN))
    address = environ.get(BROKER, "").strip()
    if not own or given not in {"", own} or address in _NO_ADDRESSES:
        return environ
    endpoint = Endpoint.parse(address)
    if endpoint.socket:
        return environ  # no token is shown there
    if _plain(endpoint.url) not in {_plain(url) for url in _of_the_hub(environ)}:
        raise NotTheHubsError(_sentence(address, environ.get(HUB_SERVICE, "")))
    return {**environ, TOKEN: own}


def _of_the_hub(environ: Mapping[str, str]) -> Iterator[str]:
    """Where the hub's service is, for all that the hub told its server."""
    base = environ.get(_BASE, "").rstrip("/")
    for name in (HUB_SERVICE, _PUBLIC, _API):
        told = environ.get(name, "").strip()
        parts = urlsplit(told)
        try:
            yield Endpoint.parse(told if name == HUB_SERVICE else f"{parts.scheme}://{parts.netloc}{base}").url
        except NotAnEndpointError:
            continue  # not told, as the public one of most hubs


def _plain(url: str) -> tuple[str, str, str]:
    """What makes two addresses the same."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower().removesuffix(_USUAL_PORTS.get(parts.scheme, "")), parts.path


def _sentence(address: str, hubs: str) -> str:
    back = f"write {BROKER}={hubs}, or " if hubs else ""
    return (
        f"{BROKER}={address} is not known to be the service of this server's hub, so the server's token ({HUB_TOKEN}) "
        f"is not shown there: {back}make a token on the hub's page Token and write it into {TOKEN}"
    )
