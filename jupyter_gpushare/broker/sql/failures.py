"""What a database's complaint means to the people who run the broker: what is wrong, where, and what to do."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError, StatementError

from jupyter_gpushare.broker.ledger import ConflictError, LedgerError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["explain_failure"]

_KEPT: Final = "Nothing that was kept is lost, and nothing changes for what runs."
_LOCKED: Final = f"is locked by another program. {_KEPT} End that program; the broker tries again by itself."
_FULL: Final = f"is full. {_KEPT} Make room on its disk; the broker tries again by itself."
_READ_ONLY: Final = f"is read-only. {_KEPT} Let the broker's account write it and its folder; it tries again by itself."
_NO_DISK: Final = f"cannot be read or written by the disk. {_KEPT} Look at the disk; the broker tries again by itself."
_DAMAGED: Final = "is damaged. Put its last backup in its place and start the broker again; holders bring their leases."
_GONE: Final = f"cannot be opened. {_KEPT} Make its folder reachable for the broker's account."
_AWAY: Final = f"does not answer. {_KEPT} Start its server again; the broker tries again by itself."
_REFUSED: Final = f"refuses the broker's account. {_KEPT} Give it the right to log in and to write its tables."
_NOT_LET_IN: Final = (
    f"does not let the broker in. {_KEPT} Mend its address, create the database or give the account its right."
)
_OTHER: Final = f"has failed. {_KEPT} The broker tries again by itself."

#: By SQLite's primary result codes (https://sqlite.org/rescode.html).
_SQLITE: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_IOERR: _NO_DISK,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: _GONE,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,
}
#: By the first characters of an SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_POSTGRESQL: Final[Mapping[str, str]] = {
    "08": _AWAY,
    "25006": _READ_ONLY,
    "28": _REFUSED,
    "3D": _NOT_LET_IN,
    "42501": _REFUSED,
    "42": _DAMAGED,
    "53100": _FULL,
    "55P03": _LOCKED,
    "57P": _AWAY,
    "XX": _DAMAGED,
}


def explain_failure(error: Exception, where: str) -> LedgerError:
    """The `LedgerError` that says what *error* means for the ledger at *where*."""
    cause = getattr(error, "orig", None) or error
    short = str(cause).strip().partition("\n")[0]
    if isinstance(error, IntegrityError | DataError) or (
        isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    ):
        return ConflictError(f"The ledger {where} does not keep this: {short}")
    return LedgerError(f"The ledger {where} {_meaning(error, cause)} ({short})")


def _meaning(error: Exception, cause: BaseException) -> str:
    if isinstance(cause, sqlite3.Error):
        return _SQLITE.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF, _OTHER)
    state = getattr(cause, "sqlstate", None)
    if state is None:
        # A connection that could not be made has no state; this word says that a server was there to refuse it.
        if "FATAL" in str(cause):
            return _NOT_LET_IN
        return _AWAY if isinstance(error, OperationalError | InterfaceError) else _DAMAGED
    return next((_POSTGRESQL[state[:n]] for n in (5, 3, 2) if state[:n] in _POSTGRESQL), _OTHER)
