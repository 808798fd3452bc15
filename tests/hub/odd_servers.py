"""Servers that know us less well than they should: one without our extension, and one with a version that was before.

In the hub's process `install` has people of these names get such servers. Run as a program, this is one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, Final

from jupyter_gpushare.demo.hub.light_server import main

#: Who has them.
WITHOUT_US: Final = "without-us"
OLDER: Final = "older"


def install() -> None:
    """Give these people their odd servers."""
    from jupyterhub.spawner import LocalProcessSpawner  # type: ignore[import-untyped]

    start = LocalProcessSpawner.start

    async def odd_start(spawner: Any) -> Any:
        if spawner.user.name in (WITHOUT_US, OLDER):
            spawner.cmd = [sys.executable, "-m", "tests.hub.odd_servers"]
        return await start(spawner)

    LocalProcessSpawner.start = odd_start


def _as_they_see_it(environ: dict[str, str]) -> dict[str, str]:
    """One without us holds nothing; one of before made a key of its own, as it knew of no claims of a hub's."""
    if environ["JUPYTERHUB_USER"] == WITHOUT_US:
        return {name: value for name, value in environ.items() if not name.startswith("GPUSHARE_")}
    return environ | {"GPUSHARE_CLAIM": f"session-{os.getpid()}"}


if __name__ == "__main__":
    asyncio.run(main(_as_they_see_it(dict(os.environ))))
