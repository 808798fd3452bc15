"""A broker's books are copied while it runs, put back whole, and taken back to what an older version reads."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.app.backup import BackupApp, RestoreApp, RollbackApp, find_ledger
from jupyter_gpushare.app.ledger_files import LedgerFileError, back_up, holders_of, look_at, put_back
from jupyter_gpushare.app.rolling_back import revisions, roll_back
from jupyter_gpushare.broker import places
from jupyter_gpushare.broker.sql.ledger import SqlLedger
from jupyter_gpushare.broker.sql.schema import HEAD
from jupyter_gpushare.rules.snapshot import EMPTY
from tests.broker.ledger.books import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT 1 FROM leases").fetchone()
print("open", flush=True)
input()
"""


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """The ledger of a broker that has stopped, with everything in it."""
    path = tmp_path / "state" / "broker.sqlite"
    with closing(SqlLedger.open(f"sqlite:///{path}")) as ledger:
        ledger.take_over("first")
        ledger.commit(EVERYTHING)
    return path


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Somebody else's process has *path* open as a database."""
    command = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def run(*command: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command of ours, as people run it."""
    line = [sys.executable, "-m", "jupyter_gpushare.app", *command]
    return subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, **(environ or {})})


def loaded(path: Path) -> object:
    """The books in *path*, as a broker reads them."""
    with closing(SqlLedger.open(f"sqlite:///{path}")) as ledger:
        return ledger.load()


def test_a_copy_is_made_while_somebody_writes(books: Path, tmp_path: Path) -> None:
    """The broker need not stop: what is committed is in the copy, what is not is not, and nobody waits."""
    with closing(sqlite3.connect(books, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM leases")
        made = back_up(books, tmp_path / "copy.sqlite")
        writer.execute("ROLLBACK")
    assert (made.leases, made.revision) == (len(EVERYTHING.leases), HEAD)
    assert loaded(tmp_path / "copy.sqlite") == EMPTY.with_change(EVERYTHING)


def test_a_copy_is_one_file_for_its_owner_alone(books: Path, tmp_path: Path) -> None:
    """The audit names people; and whoever moves the copy must not need a log beside it."""
    old = os.umask(0)
    try:
        back_up(books, tmp_path / "copy.sqlite")
    finally:
        os.umask(old)
    assert (tmp_path / "copy.sqlite").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"state", "copy.sqlite"}


def test_a_backup_takes_nobodys_place(books: Path, tmp_path: Path) -> None:
    """Last week's backup is not written over by mistake, and a failed copy leaves nothing."""
    (tmp_path / "old").write_text("last week")
    with pytest.raises(LedgerFileError, match="is there already"):
        back_up(books, tmp_path / "old")
    with pytest.raises(LedgerFileError, match="cannot be written"):
        back_up(books, tmp_path / "nowhere" / "copy")
    with pytest.raises(LedgerFileError, match="There is no ledger"):
        back_up(tmp_path / "no.sqlite", tmp_path / "copy")
    assert (tmp_path / "old").read_text() == "last week"
    assert {path.name for path in tmp_path.iterdir()} == {"state", "old"}


def test_what_is_put_back_is_what_was_copied(books: Path, tmp_path: Path) -> None:
    """Even in the place of a damaged ledger, whose log would spoil the new one; what was there is kept."""
    back_up(books, tmp_path / "copy.sqlite")
    books.write_bytes(os.urandom(8192))
    wal = books.with_name("broker.sqlite-wal")
    wal.write_bytes(b"rubbish")
    _, former = put_back(tmp_path / "copy.sqlite", books)
    assert loaded(books) == EMPTY.with_change(EVERYTHING)
    assert books.stat().st_mode & 0o777 == 0o600
    assert former is not None
    assert former.stat().st_size == 8192
    assert former.with_name(f"{former.name}-wal").read_bytes() == b"rubbish"


def test_a_ledger_that_is_gone_is_put_back(books: Path, tmp_path: Path) -> None:
    """A lost disk is what backups are for; a log that was left behind is not taken for the new one's."""
    back_up(books, tmp_path / "copy.sqlite")
    books.unlink()
    books.with_name("broker.sqlite-wal").write_bytes(b"rubbish")
    assert put_back(tmp_path / "copy.sqlite", books)[1] is None
    assert loaded(books) == EMPTY.with_change(EVERYTHING)


def test_nothing_is_put_under_a_broker_that_runs(books: Path, tmp_path: Path) -> None:
    """It would write on into the file that is no more; its process is named."""
    back_up(books, tmp_path / "copy.sqlite")
    with opened(books) as pid:
        assert holders_of(books) == [pid]
        with pytest.raises(LedgerFileError, match=rf"has .* open \(process {pid}\). Stop it first"):
            put_back(tmp_path / "copy.sqlite", books)
        with pytest.raises(LedgerFileError, match=rf"\(process {pid}\). Stop it first"):
            roll_back(f"sqlite:///{books}", "0002")
    assert holders_of(books) == []
    assert [path.name for path in books.parent.iterdir() if "before" in path.name] == []


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 and then nothing", b"-- a dump\n" * 500])
def test_what_is_no_backup_is_not_put_back(books: Path, tmp_path: Path, content: bytes) -> None:
    """A wrong file is said to be one, and the ledger stays as it is."""
    wrong = tmp_path / "wrong"
    wrong.write_bytes(content)
    with pytest.raises(LedgerFileError, match="is no backup of a ledger, or damaged"):
        put_back(wrong, books)
    assert loaded(books) == EMPTY.with_change(EVERYTHING)


def test_a_damaged_backup_is_not_put_back(books: Path, tmp_path: Path) -> None:
    """A page of it that is not what it was shows before anything is changed."""
    copy = tmp_path / "copy.sqlite"
    back_up(books, copy)
    page = 4096
    with copy.open("r+b") as file:
        file.seek(3 * page)
        file.write(os.urandom(page))
    with pytest.raises(LedgerFileError, match="damaged"):
        put_back(copy, books)
    assert loaded(books) == EMPTY.with_change(EVERYTHING)


def test_a_ledger_goes_a_version_back_and_forth(books: Path) -> None:
    """What the older version knows is as it was; a copy from before is beside it; the newer one reads it again."""
    before, copy = roll_back(f"sqlite:///{books}", "0002")
    assert before == HEAD
    with closing(sqlite3.connect(books)) as older:
        assert older.execute("SELECT version_num FROM alembic_version").fetchone() == ("0002",)
        assert older.execute("SELECT count(*) FROM leases").fetchone() == (len(EVERYTHING.leases),)
        assert older.execute("SELECT count(*) FROM audit").fetchone() == (len(EVERYTHING.audit),)
    assert copy is not None
    assert loaded(copy) == EMPTY.with_change(EVERYTHING)
    assert loaded(books).leases.keys() == EVERYTHING.leases.keys()  # type: ignore[attr-defined]  # books
    assert roll_back(f"sqlite:///{books}", "0002")[1] not in (None, copy)


def test_only_what_can_be_taken_back_is(books: Path, tmp_path: Path) -> None:
    """A revision that nobody knows, or a newer one, or no ledger: said, and nothing is changed."""
    address = f"sqlite:///{books}"
    with pytest.raises(LedgerFileError, match=r"no revision '9'; this version knows 0001, 0002"):
        roll_back(address, "9")
    with pytest.raises(LedgerFileError, match="There is no ledger"):
        roll_back(f"sqlite:///{tmp_path}/no.sqlite", "0002")
    roll_back(address, "0002")
    with pytest.raises(LedgerFileError, match="is at revision 0002: nothing is to be taken back"):
        roll_back(address, HEAD)
    assert list(revisions())[-1] == HEAD


def test_the_commands_say_what_they_did(books: Path, tmp_path: Path) -> None:
    """Each exits with 0 and one sentence, or with 1 and what to do."""
    copy = tmp_path / "copy.sqlite"
    state = f"--state={books.parent}"
    done = run("backup", state, str(copy))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Wrote {copy}: 2 leases, 0 of them parked" in done.stdout
    again = run("backup", state, str(copy))
    assert again.returncode == 1
    assert "is there already" in again.stderr
    told = json.loads(run("restore", f"--ledger=sqlite:///{books}", "--json", str(copy)).stdout)
    assert told["backup"]["leases"] == 2
    assert Path(told["former"]).exists()
    assert "0002" in run("rollback", state).stderr
    assert "was at revision" in run("rollback", state, "0002").stdout
    assert look_at(books).revision == "0002"


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_for_postgresql_the_right_line_is_said(command: str, tmp_path: Path) -> None:
    """Its own tools copy it; the password is not on the line, which anybody may see."""
    address = "--ledger=postgresql+psycopg://gpushare:secret@db.example.org/books"
    done = run(command, address, str(tmp_path / "my copy"))
    assert done.returncode == 1
    tool = {"backup": "pg_dump --format=custom", "restore": "pg_restore --clean"}[command]
    assert tool in done.stderr
    assert "postgresql://gpushare@db.example.org/books" in done.stderr
    assert "secret" not in done.stderr


def test_the_ledger_is_found_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only one that there is is meant; of several somebody must say which."""
    monkeypatch.chdir(tmp_path)
    machine = tmp_path / "machine"
    monkeypatch.setattr(places, "machine_state", lambda: machine)
    environ = {"JUPYTER_DATA_DIR": str(tmp_path / "data")}
    with pytest.raises(LedgerFileError, match="There is no ledger at"):
        find_ledger("", "", environ)
    machine.mkdir()
    (machine / "broker.sqlite").touch()
    assert find_ledger("", "", environ) == f"sqlite:///{machine}/broker.sqlite"
    (tmp_path / "gpushare-state").mkdir()
    (tmp_path / "gpushare-state" / "broker.sqlite").touch()
    with pytest.raises(LedgerFileError, match=r"several ledgers; say which: --ledger sqlite:.* or --ledger sqlite:"):
        find_ledger("", "", environ)
    assert find_ledger("", "x", environ) == f"sqlite:///{tmp_path}/x/broker.sqlite"
    with pytest.raises(LedgerFileError, match="Name one"):
        find_ledger("sqlite:///a", "b", environ)
    with pytest.raises(LedgerFileError, match="is no ledger's address"):
        find_ledger("/a/b", "", environ)


@pytest.mark.parametrize("app", [BackupApp, RestoreApp, RollbackApp])
def test_every_command_takes_the_same_options(app: type[BackupApp]) -> None:
    """Whoever knows one of them knows all."""
    assert set(app.aliases) == {"ledger", "state"}
