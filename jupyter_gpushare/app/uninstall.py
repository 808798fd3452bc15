"""``jupyter gpushare uninstall``: brings everybody back, takes back what was installed, and says what is left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from jupyter_core.application import JupyterApp
from rich.text import Text
from traitlets import Bool, Float, List, Unicode

from jupyter_gpushare.app.broker_command import NoBrokerError, open_client
from jupyter_gpushare.app.hub_token import NotTheHubsError
from jupyter_gpushare.app.ledger_files import holders_of
from jupyter_gpushare.app.left_behind import left_behind
from jupyter_gpushare.broker import places
from jupyter_gpushare.broker.admin_wire import StopParkingRequest
from jupyter_gpushare.broker.client import BrokerAway, BrokerError, NotAnEndpointError
from jupyter_gpushare.broker.install.installing import uninstall
from jupyter_gpushare.broker.install.manifest import PLACE, below
from jupyter_gpushare.broker.install.planning import InstallError, check_may_change
from jupyter_gpushare.broker.wire import BrokerModel, LeasesAnswer
from jupyter_gpushare.demo.command import new_console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jupyter_gpushare.app.left_behind import Left
    from jupyter_gpushare.broker.client import BrokerClient
    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = ["UninstallApp", "UninstallError", "bring_back"]

_ROOT: Final = Path("/")
_LOOK_EVERY_S: Final = 0.5
#: On their way off a device, away from it, or on their way back.
_AWAY: Final = frozenset({"parking", "parked", "resuming"})
_MOST_NAMED: Final = 5


class UninstallError(Exception):
    """It is not the time to uninstall. Says why, and what to do; nothing was removed."""


class UninstallApp(JupyterApp):
    """Bring everybody back, take back what install-service wrote, say what is left. Books stay without --purge."""

    name = "jupyter-gpushare-uninstall"
    description = __doc__
    examples = "jupyter gpushare uninstall --check\nsudo jupyter gpushare uninstall --purge"

    check = Bool(help="Only say what of us is on this machine. Exits with 1 if there is anything.").tag(config=True)
    purge = Bool(help="Remove the books and the account too: hours of use and who waits are lost.").tag(config=True)
    root = Unicode("/", help="The root directory of the machine that it is for; for images. Nothing is stopped.").tag(
        config=True
    )
    hub_config = List(Unicode(), help="More files or directories with a hub's configuration to look into.").tag(
        config=True
    )
    wait_s = Float(600.0, help="How many seconds to wait for those who are parked. Then nothing is removed.").tag(
        config=True
    )
    json = Bool(help="With --check: print JSON.").tag(config=True)

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        "root": "UninstallApp.root",
        "hub-config": "UninstallApp.hub_config",
        "wait": "UninstallApp.wait_s",
    }
    flags = {  # noqa: RUF012  # as above
        "check": ({"UninstallApp": {"check": True}}, "Only say what of us is on this machine."),
        "purge": ({"UninstallApp": {"purge": True}}, "Remove the books and the account too."),
        "json": ({"UninstallApp": {"json": True}}, "With --check: print JSON."),
    }

    def start(self) -> None:
        """Do it, and say what was done and what is left."""
        super().start()
        if self.extra_args:
            self.exit(f"{self.extra_args[0][:80]!r} is no option. See jupyter gpushare uninstall --help.")
        root = Path(self.root).absolute()
        try:
            if not self.check:
                self._uninstall(root)
        except (UninstallError, InstallError, OSError) as error:
            self.exit(str(error))
        left = left_behind(root, os.environ, [Path(each) for each in self.hub_config])
        self._tell(left)
        # What somebody wanted to keep is no failure to remove it.
        self.exit(1 if any(self.check or each.kind != "books" for each in left) else 0)

    def _uninstall(self, root: Path) -> None:
        is_installed = below(root, PLACE).exists()
        if is_installed:
            check_may_change(root, "uninstall")
        if root == _ROOT:
            self._say(asyncio.run(_everybody_back(self.wait_s, lambda line: self._say([line]))))
        if is_installed:
            self._say(uninstall(root, purge=self.purge))
        if self.purge and root == _ROOT:
            self._say(_purge_own(os.environ))

    def _tell(self, left: list[Left]) -> None:
        if self.json:
            new_console().out(json.dumps(msgspec.to_builtins(left), indent=2), highlight=False)
        elif not left:
            self._say(["Nothing of jupyter_gpushare is left but the package itself: pip uninstall jupyter_gpushare"])
        else:
            self._say(["What is here:", *(f"  {each.kind}: {each.what}\n    {each.remedy}" for each in left)])

    def _say(self, lines: Iterable[str]) -> None:
        console = new_console()
        for line in lines:
            console.print(Text(line), soft_wrap=True)


async def _everybody_back(wait_s: float, say: Callable[[str], None]) -> list[str]:
    try:
        client = await open_client()
    except NotTheHubsError as error:
        raise UninstallError(str(error)) from None
    except (NoBrokerError, NotAnEndpointError):
        return ["No broker is running here."]
    return await bring_back(client, wait_s, say)


async def bring_back(client: BrokerClient, wait_s: float, say: Callable[[str], None] = lambda _line: None) -> list[str]:
    """Stop all parking, and wait until nobody is parked any more; gives what was done.

    Raises:
        UninstallError: the broker refuses, or somebody is still parked after *wait_s*.
    """
    end = time.monotonic() + wait_s
    try:
        request = StopParkingRequest(stop=True, why="uninstall")
        await client.request("POST", "admin/stop-parking", request, type=BrokerModel)
        before = -1
        while away := await _away(client):
            if len(away) != before:
                say(f"{len(away)} are parked, or on their way: {_named(away)}")
            before = len(away)
            if time.monotonic() > end:
                raise UninstallError(
                    f"{len(away)} are still parked after {wait_s:g} s: {_named(away)}. Nothing was removed, and nobody "
                    "is parked any more. Run this again (--wait=SECONDS), have them ended, or have parking begin anew: "
                    "jupyter gpushare admin stop-parking --undo"
                )
            await asyncio.sleep(_LOOK_EVERY_S)
    except BrokerError as error:
        raise UninstallError(f"Nothing was removed. The broker says: {error}") from None
    except BrokerAway as error:
        raise UninstallError(f"Nothing was removed, as nobody can say who is parked. {error}") from None
    return ["Nobody is parked, and nobody is parked any more."]


async def _away(client: BrokerClient) -> list[LeaseModel]:
    answer = await client.request("GET", "leases", type=LeasesAnswer)
    return [lease for lease in answer.leases if lease.status in _AWAY]


def _named(leases: list[LeaseModel]) -> str:
    named = [f"{each.name or each.id} of {each.person or each.project}" for each in leases[:_MOST_NAMED]]
    more = len(leases) - len(named)
    return ", ".join([*named, *([f"and {more} more"] if more > 0 else [])])


def _purge_own(environ: Mapping[str, str]) -> list[str]:
    """Remove what this user's own broker wrote, unless it still runs and uses it."""
    own = (places.user_runtime(environ), places.user_state(environ))
    there = [each for each in own if each.is_dir() and not each.is_symlink() and each.stat().st_uid == os.getuid()]
    users = holders_of(places.user_state(environ) / "broker.sqlite")
    if users:
        return [f"kept {each}: your own broker still runs (process {users[0]})" for each in there]
    for directory in there:
        shutil.rmtree(directory)
    return [f"removed {each}" for each in there]
