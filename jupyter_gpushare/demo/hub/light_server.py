"""A server without notebooks: it answers JupyterHub, and holds the lease that the hub got for it. Uses no GPU.

    c.Spawner.cmd = [sys.executable, "-m", "jupyter_gpushare.demo.hub.light_server"]

For crowds: a hundred of them start while one real server does.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tornado.web import Application, RequestHandler

from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.demo.light_holder import LightHolder

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["main"]

_CLAIM: Final = "GPUSHARE_CLAIM"
#: The share of a server that starts without.
_NO_GPU: Final = "none"


class _Answer(RequestHandler):
    """All that a hub wants to know of a server that starts: it is there."""

    def get(self) -> None:
        self.write({"version": "light"})


async def main(environ: Mapping[str, str]) -> None:
    """Serve where the hub looks, and hold the lease if there is one, until SIGTERM or SIGINT."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    address = urlsplit(environ["JUPYTERHUB_SERVICE_URL"])
    server = Application([(".*", _Answer)], log_function=lambda _: None).listen(
        address.port or 0, address.hostname or "127.0.0.1"
    )
    holder = _hold(environ)
    await ended.wait()
    server.stop()
    if holder is not None:
        await holder.end()


def _hold(environ: Mapping[str, str]) -> LightHolder | None:
    share = environ.get("GPUSHARE_SHARE", _NO_GPU)
    endpoint = Endpoint.discover(environ) if share != _NO_GPU else None
    if endpoint is None:
        return None
    holder = LightHolder(environ[_CLAIM], "interactive", environ["GPUSHARE_PROJECT"], share)
    holder.claim(BrokerClient(endpoint))
    return holder


if __name__ == "__main__":
    asyncio.run(main(os.environ))
