"""``jupyter gpushare broker``: runs a broker in the foreground."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.application import JupyterApp
from traitlets import Bool, Float, Int, Unicode

from jupyter_gpushare.broker.configuration import ConfigurationError
from jupyter_gpushare.broker.garbage import collect_seldom
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.listening import inherited
from jupyter_gpushare.broker.service import Broker
from jupyter_gpushare.broker.settings import Settings, sqlite

if TYPE_CHECKING:
    from typing import Any

__all__ = ["BrokerApp"]

_MOST_PORTS = 65535
# While the ledger's or the devices' thread is at work, whoever answers requests waits so long for Python after each
# read and write, seconds: a tenth of what is usual.
_TURN_S = 0.0005


def _flag(trait: str, help_text: str) -> tuple[dict[str, dict[str, Any]], str]:
    return {"BrokerApp": {trait: True}}, help_text


class BrokerApp(JupyterApp):
    """Decide who holds which GPU: quotas, fair shares, and idle shares lent to training."""

    name = "jupyter-gpushare-broker"
    description = __doc__
    examples = (
        "jupyter gpushare broker                                   # for yourself, until Ctrl-C\n"
        "jupyter gpushare broker --multi-user --config gpushare.toml # for everybody on this machine"
    )

    on_demand = Bool(help="End by itself when nobody has needed it for ten minutes.").tag(config=True)
    multi_user = Bool(help="Serve every user of this machine, each as himself.").tag(config=True)
    socket = Unicode(help="Listen on this Unix socket.").tag(config=True)
    configuration = Unicode(help="The admin's gpushare.toml. What it sets is read-only elsewhere.").tag(config=True)
    ledger = Unicode(help="Where the books are: sqlite:////path, postgresql://…, or memory.").tag(config=True)
    state = Unicode(help="A directory for what stays: the books, unless --ledger says otherwise.").tag(config=True)
    address = Unicode("127.0.0.1", help="The network address to listen on, with --port.").tag(config=True)
    port = Int(-1, help="Listen on this TCP port too; 0 takes any free one.").tag(config=True)
    tokens = Unicode(help="A file with lines 'person token' or 'person token admin', for --port.").tag(config=True)
    idle = Float(-1, help="End by itself after so many seconds without a holder.").tag(config=True)

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        "socket": "BrokerApp.socket",
        "config": "BrokerApp.configuration",
        "ledger": "BrokerApp.ledger",
        "state": "BrokerApp.state",
        "address": "BrokerApp.address",
        "port": "BrokerApp.port",
        "tokens": "BrokerApp.tokens",
        "idle": "BrokerApp.idle",
        "log-level": "Application.log_level",
    }
    flags = {  # noqa: RUF012  # as above
        "on-demand": _flag("on_demand", "End by itself when nobody needs it any more."),
        "multi-user": _flag("multi_user", "Serve every user of this machine."),
    }

    def start(self) -> None:
        """Run until stopped."""
        super().start()
        if self.extra_args:
            self.exit(f"{self.extra_args[0]!r} is no option of the broker. See jupyter gpushare broker --help.")
        if not -1 <= self.port <= _MOST_PORTS:
            self.exit(f"--port {self.port} is no port; write for example --port 8765")
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
        logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of each of its plug-ins
        try:
            asyncio.run(self._serve(self._settings()))
        except (LedgerError, ConfigurationError, ValueError, OSError) as error:
            self.exit(f"The broker cannot start. {error}")

    def _settings(self) -> Settings:
        usual = (Settings.multi_user if self.multi_user else Settings.on_demand)(os.environ)
        state = Path(self.state) if self.state else usual.state
        socket = Path(self.socket).absolute() if self.socket else usual.socket
        quit_after = usual.quit_after_s if self.on_demand else None
        return replace(
            usual,
            state=state,
            socket=socket,
            runtime=socket.parent if self.socket and socket else usual.runtime,
            ledger=self.ledger or sqlite(state),
            configuration=Path(self.configuration) if self.configuration else None,
            tokens=Path(self.tokens) if self.tokens else None,
            address=self.address,
            port=None if self.port < 0 else self.port,
            inherited=inherited(os.environ),
            quit_after_s=self.idle if self.idle >= 0 else quit_after,
        )

    async def _serve(self, settings: Settings) -> None:
        broker = Broker(settings)
        loop = asyncio.get_running_loop()
        sys.setswitchinterval(_TURN_S)
        # Until it listens a signal ends it as any program; nothing is promised yet.
        await broker.start()
        tidying = loop.create_task(collect_seldom())
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, broker.stopped.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.create_task(_reload(broker)))
        for address in broker.addresses:
            print(f"The broker listens: GPUSHARE_BROKER={address}", flush=True)  # noqa: T201  # a program's message
        await broker.stopped.wait()
        tidying.cancel()
        await broker.stop()


async def _reload(broker: Broker) -> None:
    try:
        await broker.reload()
    except (ConfigurationError, OSError) as error:
        logging.getLogger(__name__).error("The configuration is as it was: %s", error)  # noqa: TRY400  # for people
    else:
        logging.getLogger(__name__).info("The configuration was read anew")
