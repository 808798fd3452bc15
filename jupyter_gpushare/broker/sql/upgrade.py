"""Brings a ledger to the newest schema, in one transaction: all of it or nothing."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, text

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.sql.opening import WRITING, place_of
from jupyter_gpushare.broker.sql.schema import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alembic.config import Config
    from sqlalchemy import Connection, Engine

__all__ = ["migrating", "migrations", "upgrade"]

# Any number, as long as it stays the same: whoever has it upgrades, the others wait.
_UPGRADE_LOCK: Final = 4858_0408


def migrations(connection: Connection) -> Config:
    """Alembic's settings for our revisions, on *connection*."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(engine: Engine) -> None:
    """Upgrade the ledger of *engine* if it needs it; a new one is made.

    Raises:
        LedgerError: a newer version has written it.
    """
    with engine.connect() as connection:
        if _revision(connection) == HEAD:
            return
    with migrating(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
        # Another broker may have done it in the meantime.
        if (found := _revision(connection)) != HEAD:
            _run(connection, found)


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """One transaction in which tables may be altered.

    SQLite alters a table by making a new one and dropping the old one, and with foreign keys on, the drop deletes all
    that refers to it (https://www.sqlite.org/lang_altertable.html#otheralter): they are off, and checked at the end.

    Raises:
        LedgerError: something refers to nothing afterwards. All is as it was before.
    """
    with engine.connect().execution_options(**{WRITING: True}) as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        # Inside a transaction the pragma would do nothing.
        raw = connection.connection.cursor() if is_sqlite else None
        if raw is not None:
            raw.execute("PRAGMA foreign_keys = OFF")
        try:
            with connection.begin():
                yield connection
                if is_sqlite and (lost := connection.exec_driver_sql("PRAGMA foreign_key_check").all()):
                    raise LedgerError(f"The upgrade of {place_of(engine)} would lose {len(lost)} rows; it was undone.")
        finally:
            if raw is not None:
                raw.execute("PRAGMA foreign_keys = ON")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _run(connection: Connection, found: str | None) -> None:
    # Alembic takes a while to load: only for those who need it.
    from alembic import command
    from alembic.script import ScriptDirectory

    config = migrations(connection)
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise LedgerError(
            f"The ledger {place_of(connection.engine)} was written by a newer version of jupyter_gpushare "
            f"(revision {found}; this one knows up to {HEAD}). Nothing was changed. "
            "Install that version again, or put back the backup from before the upgrade."
        )
    command.upgrade(config, "head")
