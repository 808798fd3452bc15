"""Runs the service in the foreground: the broker of a hub, and its pages."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_core.application import JupyterApp
from traitlets import Bool, List, Unicode

from jupyter_gpushare.broker.configuration import ConfigurationError
from jupyter_gpushare.broker.garbage import collect_seldom
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.places import PlaceError
from jupyter_gpushare.broker.settings import Settings
from jupyter_gpushare.hub.service import beginning
from jupyter_gpushare.hub.service.application import HubService
from jupyter_gpushare.hub.service.environment import HubEnvironment
from jupyter_gpushare.hub.service.parent import orphaned

if TYPE_CHECKING:
    from jupyter_gpushare.broker.service import Broker

__all__ = ["HubServiceApp"]

_LOG: Final = logging.getLogger(__name__)
# As of the broker's own command: a tenth of Python's usual turn, so that answers need not wait for a thread's work.
_TURN_S: Final = 0.0005
# The service of a hub that was killed is about to end, and has the port until then.
_PORT_WITHIN_S: Final = 15.0
_PORT_AGAIN_S: Final = 0.25


class HubServiceApp(JupyterApp):
    """The broker of a JupyterHub, and its pages. JupyterHub runs it; it is of no use by itself."""

    name = "jupyter-gpushare-hub"
    description = __doc__
    examples = "python -m jupyter_gpushare.hub --config gpushare.toml --state /srv/jupyterhub/gpushare"

    configuration = Unicode(help="The admin's gpushare.toml. What it sets is read-only elsewhere.").tag(config=True)
    ledger = Unicode(help="Where the books are: sqlite:////path, postgresql://…, or memory.").tag(config=True)
    state = Unicode(
        "gpushare-state", help="A directory of the service's own, open to nobody else (0700), for what stays."
    ).tag(config=True)
    unix_users = Bool(
        help="Each hub user is this machine's user of the same name, as with spawners that start servers under it."
    ).tag(config=True)
    template_paths = List(
        Unicode(), help="Where the hub's own changed templates are, as in c.JupyterHub.template_paths."
    ).tag(config=True)

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        "config": "HubServiceApp.configuration",
        "ledger": "HubServiceApp.ledger",
        "state": "HubServiceApp.state",
        "templates": "HubServiceApp.template_paths",
        "log-level": "Application.log_level",
    }
    flags = {  # noqa: RUF012  # as above
        "unix-users": (
            {"HubServiceApp": {"unix_users": True}},
            "Each hub user is this machine's user of the same name.",
        ),
    }

    def start(self) -> None:
        """Run until stopped."""
        super().start()
        if self.extra_args:
            self.exit(f"{self.extra_args[0][:80]!r} is no option of the service. See --help.")
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
        logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of each of its plug-ins
        logging.getLogger("tornado.application").setLevel(logging.WARNING)  # JupyterHub's part tells of each cookie
        try:
            asyncio.run(self._serve())
        except PlaceError as error:
            self.exit(f"The service cannot start. {error}. Its --state must be a directory of its own (chmod 700).")
        except (LedgerError, ConfigurationError, ValueError, OSError) as error:
            self.exit(f"The service cannot start. {error}")

    def _settings(self, environment: HubEnvironment) -> Settings:
        return Settings.hub(
            os.environ,
            state=Path(self.state).absolute(),
            port=environment.port,
            ledger=self.ledger,
            configuration=Path(self.configuration) if self.configuration else None,
            unix_users=self.unix_users,
        )

    async def _serve(self) -> None:
        environment = HubEnvironment.read(os.environ)
        if not beginning.is_answering():
            await _until_free(environment.port)
        service = HubService(environment, self._settings(environment), self.template_paths)
        loop = asyncio.get_running_loop()
        sys.setswitchinterval(_TURN_S)
        # Until it listens a signal ends it as any program; nothing is promised yet.
        await service.start()
        broker = service.broker
        tasks = [loop.create_task(collect_seldom()), loop.create_task(_end_with_hub(broker))]
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, broker.stopped.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.create_task(_reload(broker)))
        _LOG.info("The GPU shares of this hub are at %s", environment.prefix)
        await broker.stopped.wait()
        for task in tasks:
            task.cancel()
        await service.stop()


async def _until_free(port: int) -> None:
    """Wait until nobody listens on *port* any more, for a while: the books are taken over only then.

    Raises:
        OSError: somebody else's program is there; says what to do.
    """
    end = time.monotonic() + _PORT_WITHIN_S
    while await _is_taken(port):
        if time.monotonic() > end:
            text = f"port {port} is taken by another program: give setup_gpushare(c, port=…) another one"
            raise OSError(errno.EADDRINUSE, text)
        await asyncio.sleep(_PORT_AGAIN_S)


async def _is_taken(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def _end_with_hub(broker: Broker) -> None:
    await orphaned()
    _LOG.warning("The hub that ran this service is gone; the next one starts it anew")
    broker.stopped.set()


async def _reload(broker: Broker) -> None:
    try:
        await broker.reload()
    except (ConfigurationError, OSError) as error:
        _LOG.error("The configuration is as it was: %s", error)  # for people
    else:
        _LOG.info("The configuration was read anew")
