"""Takes a ledger back to the tables of an older version, in one transaction; what it does not know is left out."""

from __future__ import annotations

import time
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from jupyter_gpushare.app.ledger_files import LedgerFileError, back_up, holders_of
from jupyter_gpushare.broker.sql.opening import open_engine, place_of
from jupyter_gpushare.broker.sql.upgrade import migrating, migrations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alembic.script import ScriptDirectory
    from sqlalchemy import Connection, Engine

__all__ = ["revisions", "roll_back"]

_PATIENCE_S: Final = 10.0


def revisions() -> Mapping[str, str]:
    """Every revision that this version knows, the oldest first, and what each brought."""
    known = list(_script().walk_revisions())[::-1]
    return {each.revision: (each.doc or "").partition("\n")[0] for each in known}


def roll_back(address: str, wished: str) -> tuple[str, Path | None]:
    """Bring the ledger at *address* to the revision *wished*; gives the one it had, and a copy from before of a file.

    Raises:
        LedgerFileError: there is no such revision or ledger, a broker uses it, or it is older already.
        LedgerError: it cannot be opened.
    """
    known = list(revisions())
    if wished not in known:
        raise LedgerFileError(f"There is no revision {wished[:40]!r}; this version knows {', '.join(known)}.")
    is_file = address.startswith("sqlite:")
    if is_file and not Path(address.removeprefix("sqlite:///")).is_file():
        raise LedgerFileError(f"There is no ledger {address}.")
    engine, _ = open_engine(address, _PATIENCE_S)
    try:
        _check_stopped(engine)
        before = _revision(engine)
        if before not in known or known.index(before) < known.index(wished):
            raise LedgerFileError(
                f"The ledger {place_of(engine)} is at revision {before}: nothing is to be taken back."
            )
        copy = None
        if is_file and before != wished:
            ledger = Path(place_of(engine))
            copy = _free_name(ledger, f"revision-{before}-{time.strftime('%Y%m%d-%H%M%S')}")
            back_up(ledger, copy)
        with migrating(engine) as connection:
            _downgrade(connection, wished)
    except SQLAlchemyError as error:
        raise LedgerFileError(
            f"The ledger {place_of(engine)} cannot be taken back, and is as it was: {error}"
        ) from None
    else:
        return before, copy
    finally:
        engine.dispose()


def _free_name(ledger: Path, what: str) -> Path:
    """Beside *ledger*; nobody's copy is in the way of the next one."""
    names = (ledger.with_name(f"{ledger.name}.{what}{more}") for more in chain([""], (f"-{n}" for n in count(2))))
    return next(name for name in names if not name.exists())


def _script() -> ScriptDirectory:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    from jupyter_gpushare.broker import sql

    config = Config()
    config.set_main_option("script_location", str(Path(sql.__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)


def _downgrade(connection: Connection, wished: str) -> None:
    from alembic import command

    command.downgrade(migrations(connection), wished)


def _revision(engine: Engine) -> str:
    with engine.connect() as connection:
        return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar())


def _check_stopped(engine: Engine) -> None:
    """A broker that runs would write what the older tables have no place for.

    Raises:
        LedgerFileError: one runs.
    """
    if engine.dialect.name == "sqlite":
        others = holders_of(Path(place_of(engine)))
    else:
        # Every connection of ours carries that name.
        query = (
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'gpushare-broker' "
            "AND datname = current_database() AND pid <> pg_backend_pid()"
        )
        with engine.connect() as connection:
            others = [row[0] for row in connection.execute(text(query))]
    if others:
        pids = ", ".join(map(str, others))
        raise LedgerFileError(f"A broker uses {place_of(engine)} (process {pids}). Stop it first; holders go on.")
