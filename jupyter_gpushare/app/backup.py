"""``jupyter gpushare backup``, ``restore`` and ``rollback``: a broker's books copied, put back, taken back."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jupyter_core.application import JupyterApp
from rich.text import Text
from traitlets import Bool, Unicode

from jupyter_gpushare.app.ledger_files import LedgerFileError, back_up, put_back
from jupyter_gpushare.app.rolling_back import revisions, roll_back
from jupyter_gpushare.broker import places
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.settings import sqlite
from jupyter_gpushare.demo.command import new_console

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BackupApp", "RestoreApp", "RollbackApp", "find_ledger"]

_SQLITE: Final = "sqlite:///"
_HUB_STATE: Final = "gpushare-state"
_ALIASES: Final = ("ledger", "state")
_IN_POSTGRESQL: Final = "This ledger is in PostgreSQL, which has tools of its own. Run:\n  {line}"


class _LedgerCommand(JupyterApp):
    """A command about one ledger, which prints what it did, and exits with 1 where it could not."""

    ledger = Unicode(help="The ledger's address, such as sqlite:////var/lib/gpushare/broker.sqlite.").tag(config=True)
    state = Unicode(help="The broker's state directory, in which its ledger is.").tag(config=True)
    json = Bool(help="Print JSON.").tag(config=True)

    def start(self) -> None:
        """Do it, and say what was done."""
        super().start()
        try:
            said, answer = self.do(find_ledger(self.ledger, self.state, os.environ))
        except (LedgerFileError, LedgerError, OSError) as error:
            self.exit(str(error))
        console = new_console()
        if self.json:
            console.out(json.dumps(msgspec.to_builtins(answer), indent=2), highlight=False)
        else:
            console.print(Text(said), soft_wrap=True)
        self.exit(0)

    def do(self, address: str) -> tuple[str, Any]:
        """Do it with the ledger at *address*; gives what is said, and the same for programs."""
        raise NotImplementedError

    def only_argument(self, what: str) -> str:
        """The one argument."""
        if len(self.extra_args) != 1 or self.extra_args[0].startswith("-"):
            self.exit(f"{what} For example: {self.examples}")
        return self.extra_args[0]


def _options(app: str) -> dict[str, Any]:
    return {name: f"{app}.{name}" for name in _ALIASES}


class BackupApp(_LedgerCommand):
    """Copy the broker's books to a file while it runs. In PostgreSQL: says how."""

    name = "jupyter-gpushare-backup"
    description = __doc__
    examples = "jupyter gpushare backup /backup/gpushare-monday.sqlite"

    aliases = _options("BackupApp")
    flags = {"json": ({"BackupApp": {"json": True}}, "Print JSON.")}  # noqa: RUF012  # traitlets reads it

    def do(self, address: str) -> tuple[str, Any]:
        """Copy it."""
        target = Path(self.only_argument("To which file?"))
        if not address.startswith(_SQLITE):
            raise LedgerFileError(_IN_POSTGRESQL.format(line=_dump(address, target)))
        made = back_up(_file_of(address), target.absolute())
        return f"Wrote {made.path}: {made.sentence}.", made


class RestoreApp(_LedgerCommand):
    """Put a backup in the place of the books of a stopped broker. Holders go on, and bring what is newer."""

    name = "jupyter-gpushare-restore"
    description = __doc__
    examples = "jupyter gpushare restore /backup/gpushare-monday.sqlite"

    aliases = _options("RestoreApp")
    flags = {"json": ({"RestoreApp": {"json": True}}, "Print JSON.")}  # noqa: RUF012  # as above

    def do(self, address: str) -> tuple[str, Any]:
        """Put it back."""
        backup = Path(self.only_argument("Which file?"))
        if not address.startswith(_SQLITE):
            raise LedgerFileError(_IN_POSTGRESQL.format(line=_load(address, backup)))
        ledger = _file_of(address)
        found, former = put_back(backup.absolute(), ledger)
        kept = "" if former is None else f" What was there before is in {former}."
        said = f"{ledger} is as in {backup}: {found.sentence}.{kept} Start the broker: holders bring what is newer."
        return said, {"ledger": str(ledger), "backup": found, "former": None if former is None else str(former)}


class RollbackApp(_LedgerCommand):
    """Take the books of a stopped broker back to what an older version reads; then install that one."""

    name = "jupyter-gpushare-rollback"
    description = __doc__
    examples = "jupyter gpushare rollback 0002"

    aliases = _options("RollbackApp")
    flags = {"json": ({"RollbackApp": {"json": True}}, "Print JSON.")}  # noqa: RUF012  # as above

    def do(self, address: str) -> tuple[str, Any]:
        """Take it back."""
        if not self.extra_args:
            lines = [f"  {name}  {text}" for name, text in revisions().items()]
            raise LedgerFileError("\n".join(["To which revision? This version knows, the oldest first:", *lines]))
        wished = self.only_argument("To which revision?")
        before, copy = roll_back(address, wished)
        kept = f" A copy from before is in {copy}." if copy is not None else ""
        said = f"The ledger was at revision {before} and is at {wished}.{kept} Now install the older version."
        return said, {"before": before, "revision": wished, "copy": None if copy is None else str(copy)}


def find_ledger(ledger: str, state: str, environ: Mapping[str, str]) -> str:
    """The address of the ledger that is meant: the one that is named, or the only one that there is.

    Raises:
        LedgerFileError: it cannot be told which; says which there are.
    """
    if ledger and state:
        raise LedgerFileError("Name one: --ledger ADDRESS or --state DIRECTORY.")
    if ledger:
        if not ledger.startswith((_SQLITE, "postgresql:", "postgresql+")):
            raise LedgerFileError(
                f"{ledger[:80]!r} is no ledger's address; write for example {_SQLITE}/srv/broker.sqlite"
            )
        return ledger
    if state:
        return sqlite(Path(state))
    usual = (places.machine_state(), places.user_state(environ), Path(_HUB_STATE))
    there = [address for address in map(sqlite, usual) if _file_of(address).is_file()]
    if len(there) == 1:
        return there[0]
    known = " or ".join(f"--ledger {address}" for address in there)
    if there:
        raise LedgerFileError(f"There are several ledgers; say which: {known}")
    raise LedgerFileError(
        f"There is no ledger at {', '.join(map(str, usual))}. Name it: --state DIRECTORY, or --ledger ADDRESS."
    )


def _file_of(address: str) -> Path:
    return Path(address.removeprefix(_SQLITE))


def _dump(address: str, target: Path) -> str:
    plain = _without_driver(address)
    return f"pg_dump --format=custom --file={shlex.quote(str(target))} --dbname={shlex.quote(plain)}"


def _load(address: str, backup: Path) -> str:
    plain = _without_driver(address)
    options = "--clean --if-exists --single-transaction --exit-on-error"
    return f"pg_restore {options} --dbname={shlex.quote(plain)} {shlex.quote(str(backup))}"


def _without_driver(address: str) -> str:
    """As PostgreSQL's own tools want it, and without a password: they ask for it, or have it from ~/.pgpass."""
    from sqlalchemy import make_url

    # `URL.set` takes no None: https://docs.sqlalchemy.org/en/20/core/engines.html#sqlalchemy.engine.URL.set
    url = make_url(address).set(drivername="postgresql")._replace(password=None)
    return url.render_as_string()
