"""A word to the admin of a hub that people reach without https: there browsers do not say which page sends a request.

The hub's own set-up is all that can be looked at: what speaks https before the hub's proxy it does not know unless
`JupyterHub.public_url` says so.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from jupyter_gpushare.hub.chaining import configured

if TYPE_CHECKING:
    from traitlets.config import Config

__all__ = ["public_address", "warn"]

_LOG: Final = logging.getLogger(__name__)
_USUAL_PORT: Final = 8000
_WARNING: Final = (
    "People reach this hub at %s, without https. There a page of another person's server can press buttons of the GPU "
    "shares' pages in the name of whoever opens it, an admin too, besides reading what is sent. Set "
    "c.JupyterHub.ssl_cert and ssl_key; or, where something before the hub speaks https, its address as "
    "c.JupyterHub.public_url."
)


def public_address(c: Config) -> str:
    """Where people reach the hub, as far as its configuration says."""
    hub = c.JupyterHub
    if said := configured(hub, "public_url") or configured(hub, "subdomain_host"):
        return said if "://" in said else f"https://{said}"
    bound: str = (
        configured(hub, "bind_url") or f"http://{configured(hub, 'ip') or ''}:{configured(hub, 'port') or 8000}"
    )
    has_certificate = bool(configured(hub, "ssl_cert") or configured(hub, "ssl_key"))
    return bound.replace("http://", "https://", 1) if has_certificate else bound


def warn(c: Config) -> None:
    """Say it in the hub's log, if it is so."""
    address = public_address(c)
    parts = urlsplit(address)
    if parts.scheme == "http" and not _is_here(parts.hostname or ""):
        _LOG.warning(_WARNING, address)


def _is_here(host: str) -> bool:
    """Whether only this machine's own browsers get to *host*, which they trust as they trust https."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
