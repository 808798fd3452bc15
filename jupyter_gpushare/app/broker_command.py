"""What commands that ask the broker have in common: where it is, how its answer is printed, and what if it is away."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jupyter_core.application import JupyterApp
from traitlets import Bool

from jupyter_gpushare.app.hub_token import with_hub_token
from jupyter_gpushare.broker.client import BROKER, BrokerAway, BrokerClient, BrokerError, Endpoint, NotAnEndpointError
from jupyter_gpushare.demo.command import new_console

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["BrokerCommand", "NoBrokerError", "open_client"]

_NO_BROKER: Final = (
    "No broker is running here. It starts with the first `jupyter gpushare run`, or with `jupyter gpushare broker`."
)


class NoBrokerError(LookupError):
    """There is no broker to ask."""


class BrokerCommand(JupyterApp):
    """A command that asks the broker once, prints what it says, and exits with 1 where it cannot be asked."""

    json = Bool(help="Print JSON.").tag(config=True)

    def start(self) -> None:
        """Print the answer."""
        super().start()
        if self.extra_args:
            self.exit(f"{self.extra_args[0][:80]!r} is no option. See {self.name.replace('-', ' ')} --help.")
        try:
            answer = asyncio.run(self._ask())
        except (BrokerError, BrokerAway, NotAnEndpointError, NoBrokerError) as error:
            self.exit(str(error))
        console = new_console()
        if self.json:
            console.out(json.dumps(msgspec.to_builtins(answer), indent=2), highlight=False)
        else:
            console.print(self.shown(answer))
        self.exit(0)

    async def asked(self, client: BrokerClient) -> Any:
        """Everything that is to be shown."""
        raise NotImplementedError

    def shown(self, answer: Any) -> RenderableType:
        """How people see it."""
        raise NotImplementedError

    async def _ask(self) -> Any:
        return await self.asked(await open_client())


async def open_client() -> BrokerClient:
    """The broker that the environment means; in a hub's server, asked as that server's person.

    Raises:
        NoBrokerError: none is running.
        NotTheHubsError: the server's token would go to somebody else.
        NotAnEndpointError: the environment names something else.
    """
    try:
        endpoint = await asyncio.to_thread(Endpoint.discover, with_hub_token(os.environ))
    except OSError as error:
        raise NoBrokerError(f"The broker did not start: {error}") from None
    if endpoint is None:
        given = os.environ.get(BROKER, "")
        raise NoBrokerError(f"{BROKER}={given} turns the broker off here." if given == "off" else _NO_BROKER)
    return BrokerClient(endpoint)
