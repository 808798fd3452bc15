"""Where the service is: for the hub beside it, for the servers that it starts, and for people's browsers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = ["SERVICE", "SiteUrls"]

#: The service's name at the hub.
SERVICE: Final = "gpushare"


@dataclass(frozen=True, slots=True)
class SiteUrls:
    """Addresses of the service; each ends with a slash.

    Attributes:
        port: on which it listens, on this machine alone.
        base_url: above the hub and all servers, where the hub itself does not say it.
        server_url: where servers reach it that do not run on this machine; empty where they do.
        host: scheme and host of the service, where the hub gives each its own; empty for the hub's own.
    """

    port: int
    base_url: str = "/"
    server_url: str = ""
    host: str = ""

    def for_hub(self, spawner: Any) -> str:
        """For the hub's own process, past the proxy."""
        return f"http://127.0.0.1:{self.port}{self._prefix(spawner)}"

    def for_server(self, spawner: Any) -> str:
        """For *spawner*'s server."""
        return self.server_url or self.for_hub(spawner)

    def for_browser(self, spawner: Any) -> str:
        """For links in pages."""
        return f"{self.host}{self._prefix(spawner)}"

    def _prefix(self, spawner: Any) -> str:
        hub = getattr(getattr(spawner, "hub", None), "base_url", "")
        base = hub.removesuffix("hub/") if hub.endswith("/hub/") else self.base_url
        return f"{base.rstrip('/')}/services/{SERVICE}/"
