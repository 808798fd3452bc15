"""Copies of an SQLite ledger: made while its broker runs, looked at before they are trusted, put back whole."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Backup", "LedgerFileError", "back_up", "holders_of", "look_at", "put_back"]

_PATIENCE_S: Final = 10.0
_OURS_ALONE: Final = 0o600
_COMPANIONS: Final = ("-wal", "-shm", "-journal")


class LedgerFileError(Exception):
    """A copy cannot be made, trusted or put back. Says which file, why, and what to do; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What is in a copy.

    Attributes:
        path: where it is.
        revision: of its tables; see ``jupyter gpushare rollback``.
        leases: how many there are.
        parked: how many of them are parked.
        newest: when the last line of its audit was written, in seconds since the epoch; None without any.
    """

    path: str
    revision: str
    leases: int
    parked: int
    newest: float | None

    @property
    def sentence(self) -> str:
        """For people."""
        at = "" if self.newest is None else f", as of {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.newest))}"
        return f"{self.leases} leases, {self.parked} of them parked{at} (revision {self.revision})"


def back_up(source: Path, target: Path) -> Backup:
    """Copy the ledger *source* to the new file *target*, as it is at one moment; its broker may run meanwhile.

    Raises:
        LedgerFileError: there is no ledger, *target* is there already, or it cannot be written.
    """
    if not source.is_file():
        raise LedgerFileError(f"There is no ledger {source}. Name it with --ledger or --state.")
    if target.exists():
        raise LedgerFileError(f"{target} is there already. Write to another file, or remove it.")
    with _new_file(target.parent, target.name) as new:
        _copy(source, new)
        found = look_at(new)
        try:
            os.link(new, target)  # unlike a rename it takes nobody's place
        except OSError as error:
            raise LedgerFileError(f"{target} cannot be written: {error.strerror}.") from None
    _sync(target.parent)
    return Backup(str(target), found.revision, found.leases, found.parked, found.newest)


def look_at(path: Path) -> Backup:
    """What is in the copy *path*, if it is whole.

    Raises:
        LedgerFileError: it is no ledger, or damaged.
    """
    if not path.is_file():
        raise LedgerFileError(f"There is no file {path}.")
    try:
        with closing(_connect(path, "ro")) as connection:
            return _look(path, connection)
    except sqlite3.Error as error:
        raise LedgerFileError(f"{path} is no backup of a ledger, or damaged: {error}. Take another one.") from None


def _look(path: Path, connection: sqlite3.Connection) -> Backup:
    (state,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if state != "ok":
        raise LedgerFileError(f"{path} is damaged: {state}. Take another backup.")
    (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    leases, parked = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE status = 'parked') FROM leases"
    ).fetchone()
    (newest,) = connection.execute("SELECT max(at) FROM audit").fetchone()
    return Backup(str(path), revision, leases, parked, newest)


def put_back(backup: Path, target: Path) -> tuple[Backup, Path | None]:
    """Put *backup* in the place of the ledger *target*; gives where the one before was moved to, if there was one.

    Raises:
        LedgerFileError: the backup is none, or a broker has the ledger open.
    """
    found = look_at(backup)
    users = holders_of(target)
    if users:
        pids = ", ".join(map(str, users))
        raise LedgerFileError(f"A broker has {target} open (process {pids}). Stop it first; holders go on without it.")
    if not target.parent.is_dir():
        raise LedgerFileError(f"There is no directory {target.parent}. Name the ledger with --ledger or --state.")
    with _new_file(target.parent, target.name) as new:
        _copy(backup, new)
        look_at(new)
        _give_to_owner(new, target)
        former = _move_away(target)
        new.replace(target)
    _sync(target.parent)
    return found, former


def holders_of(path: Path) -> list[int]:
    """The processes of this machine, as far as this one may see, that have the file *path* open."""
    try:
        wanted = path.stat()
    except OSError:
        return []
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(_is_same(each, wanted) for each in (process / "fd").iterdir()):
                found.append(int(process.name))
    return sorted(each for each in found if each != os.getpid())


def _is_same(descriptor: Path, wanted: os.stat_result) -> bool:
    try:
        found = descriptor.stat()
    except OSError:  # closed just now
        return False
    return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=_PATIENCE_S, isolation_level=None)


def _copy(source: Path, target: Path) -> None:
    """In one step, so that it is of one moment (https://sqlite.org/backup.html). Nobody who writes waits for it."""
    try:
        with closing(_connect(source, "ro")) as old, closing(_connect(target, "rw")) as new:
            old.backup(new, pages=-1)
            # A file of its own: the log beside it would be lost by whoever moves it.
            new.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise LedgerFileError(f"{source} cannot be copied: {error}.") from None


@contextmanager
def _new_file(directory: Path, name: str) -> Iterator[Path]:
    """An empty file that nobody else may read: the audit names people. Gone afterwards, unless it was moved."""
    new = directory / f".{name}.{os.getpid()}.new"
    try:
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OURS_ALONE))
    except OSError as error:
        raise LedgerFileError(f"{directory} cannot be written to: {error.strerror}.") from None
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)


def _give_to_owner(new: Path, target: Path) -> None:
    """Whoever owns the ledger, or its directory, owns the new one: root restores for the broker's account."""
    owner = (target if target.exists() else target.parent).stat()
    if os.geteuid() == 0:
        os.chown(new, owner.st_uid, owner.st_gid)


def _move_away(target: Path) -> Path | None:
    """The ledger that was there, and what belongs to it: a log of its own would spoil the new one."""
    if not target.exists():
        for companion in _COMPANIONS:
            target.with_name(target.name + companion).unlink(missing_ok=True)
        return None
    former = target.with_name(f"{target.name}.before-{time.strftime('%Y%m%d-%H%M%S')}")
    for companion in (*_COMPANIONS, ""):
        with suppress(FileNotFoundError):
            target.with_name(target.name + companion).rename(former.with_name(former.name + companion))
    return former


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
