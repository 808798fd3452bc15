"""``python -m jupyter_gpushare.hub.culling``: our own rounds in a process of their own, as a service of the hub."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from traitlets import Bool, Float, default
from traitlets.config import Application

from jupyter_gpushare.broker.client import NotAnEndpointError
from jupyter_gpushare.hub.culling.evidence_link import EvidenceLink, NoServiceError
from jupyter_gpushare.hub.culling.hub_servers import HubServers, HubTroubleError
from jupyter_gpushare.hub.culling.rounds import Rounds

if TYPE_CHECKING:
    from jupyter_gpushare.hub.culling.rounds import Round

__all__ = ["CullingApp", "main"]


class CullingApp(Application):
    """Stops idle servers by what [culling] of the service's gpushare.toml says.

    Run it as a service of the hub, with the scopes list:users, read:users:name, read:users:activity, read:servers,
    delete:servers and custom:gpushare:admin, and with the address of the service gpushare in GPUSHARE_BROKER. The
    service makes these rounds itself where it is told to; run this where that is to be another process or machine.
    """

    name = "jupyter-gpushare-culling"

    once = Bool(default_value=False, help="Take one round, print what it saw, and exit.").tag(config=True)

    stop_after = Float(
        None,
        allow_none=True,
        min=1.0,
        help="Seconds after which an idle server is stopped where gpushare.toml does not say; never when left out.",
    ).tag(config=True)

    aliases = {"stop-after": "CullingApp.stop_after"}  # noqa: RUF012  # traitlets reads it from the class
    flags = {"once": ({"CullingApp": {"once": True}}, once.help)}  # noqa: RUF012  # as above

    @default("log_level")
    def _log_level(self) -> int:
        return logging.INFO

    def start(self) -> None:
        """Go on until it is ended."""
        if self.extra_args:
            self.exit(f"{self.extra_args[0][:80]!r} is no option. See {self.name} --help.")
        self._log_ours()
        try:
            hub, link = HubServers.of(os.environ), EvidenceLink.of(os.environ, self.stop_after)
        except KeyError as error:
            self.exit(f"{error.args[0]} is not set: JupyterHub sets it for a service that it knows")
        except (NoServiceError, NotAnEndpointError) as error:
            self.exit(str(error))
        try:
            seen = asyncio.run(self._run(Rounds(hub, link, stop_after_s=self.stop_after)))
        except HubTroubleError as error:
            self.exit(str(error))
        except KeyboardInterrupt:
            return
        print("\n".join(_lines(seen)))  # noqa: T201  # what was asked for

    def _log_ours(self) -> None:
        """What our modules log goes where this program's own log goes."""
        ours = logging.getLogger("jupyter_gpushare")
        ours.setLevel(self.log.getEffectiveLevel())
        for handler in getattr(self.log, "handlers", ()):
            ours.addHandler(handler)

    async def _run(self, rounds: Rounds) -> Round:
        if self.once:
            return await rounds.once()
        await rounds.go_on()
        raise AssertionError


def _lines(seen: Round) -> list[str]:
    return [
        *(f"{count:6d} {why}" for why, count in sorted(seen.seen.items())),
        *(f"stopped {each.person}/{each.server}: {each.why}" for each in seen.stopped),
        *(f"went on {each.person}/{each.server}: {why}" for each, why in seen.went_on),
    ]


def main() -> None:
    """Run it."""
    CullingApp.launch_instance()


if __name__ == "__main__":
    main()
