"""A real PostgreSQL server of our own in a folder of its own: no port, a socket there, gone when it is stopped."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PostgresqlServer"]

_USER: Final = "gpushare"
_STEP_S: Final = 120
# It stands for a server that never loses its disk, so it need not wait for it.
_SETTINGS: Final = "-c listen_addresses='' -c fsync=off -c max_connections=40"


class PostgresqlServer:
    """Start one with `running`; each database of it is a new ledger."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "log"
        self._numbers = count(1)
        # As root it would refuse to run.
        self._account = _account() if os.geteuid() == 0 else None

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[PostgresqlServer]:
        """A server, for as long as it is needed."""
        folder = Path(tempfile.mkdtemp(prefix="gpushare-pg-"))
        server = cls(folder)
        try:
            server.create()
            server.start()
            yield server
            server.stop()
        finally:
            shutil.rmtree(folder)

    def create(self) -> None:
        """Make its files."""
        if self._account is not None:
            os.chown(self._folder, self._account.pw_uid, self._account.pw_gid)
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", _USER, "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"{_SETTINGS} -k {self._folder}"
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._log), "-w", "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop it; ``immediate`` is as if it had crashed."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", how, "stop")

    def create_database(self) -> str:
        """The address of a new, empty database."""
        name = f"ledger_{next(self._numbers)}"
        with psycopg.connect(host=str(self._folder), user=_USER, dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://{_USER}@/{name}?host={self._folder}"

    def _run(self, program: str, *arguments: str) -> None:
        who = {} if self._account is None else {"user": self._account.pw_uid, "group": self._account.pw_gid}
        # To a file, not to a pipe: the server keeps it open for as long as it runs.
        with tempfile.TemporaryFile("w+") as output:
            command = [_program(program), *arguments]
            run = subprocess.run(  # type: ignore[call-overload]  # user and group, or neither
                command, cwd=self._folder, stdout=output, stderr=output, timeout=_STEP_S, check=False, **who
            )
            output.seek(0)
            assert run.returncode == 0, output.read()


def _account() -> pwd.struct_passwd:
    known = {each.pw_name: each for each in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _program(name: str) -> str:
    """Debian keeps the server's programs beside each version, and not on the path."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = str(installed[-1]) if installed else shutil.which(name)
    assert found, f"{name} is missing: install PostgreSQL's server, for example with apt-get install postgresql"
    return found
