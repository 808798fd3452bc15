"""What happens to a ledger on disk, and what it says then. Nothing is ever half kept."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.sql.ledger import SqlLedger
from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.snapshot import EMPTY
from tests.broker.ledger.books import a_lease, keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
FIRST = keep(a_lease("first"), audit=(Entry(1.0, Verb.SUBMITTED, "first"),))
SECOND = keep(a_lease("second"), audit=(Entry(2.0, Verb.SUBMITTED, "second"),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is."""
    return tmp_path / "broker.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqlLedger]:
    """A ledger with a first lease in it; it waits for nobody."""
    ledger = SqlLedger.open(f"sqlite:///{path}", patience_s=0.05)
    ledger.take_over("first")
    ledger.commit(FIRST)
    yield ledger
    ledger.close()


@contextmanager
def told(*words: str) -> Iterator[None]:
    """Expect a `LedgerError` that says all of this."""
    with pytest.raises(LedgerError) as raised:
        yield
    for word in words:
        assert word in str(raised.value)


def test_a_locked_ledger_is_waited_for_and_then_named(ledger: SqlLedger, path: Path) -> None:
    """Another program's lock is told with what to do, and once it is gone the same commit is kept."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with told(str(path), "locked by another program", "Nothing that was kept is lost", "tries again"):
        ledger.commit(SECOND)
    assert set(ledger.load().leases) == {"first"}
    other.execute("ROLLBACK")
    other.close()
    ledger.commit(SECOND)
    assert set(ledger.load().leases) == {"first", "second"}


def test_a_full_disk_is_named_and_keeps_all_or_nothing(ledger: SqlLedger) -> None:
    """Where a large change does not fit nothing of it is kept, and once there is room the same change is."""
    with ledger.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    room = [pages]
    event.listen(
        ledger.engine, "checkout", lambda raw, _record, _proxy: raw.execute(f"PRAGMA max_page_count = {room[0]}")
    )
    many = keep(*(a_lease(f"lease-{n}", name="x" * 200) for n in range(500)))
    with told("is full", "Make room"):
        ledger.commit(many)
    assert ledger.load() == EMPTY.with_change(FIRST)
    room[0] = 1 << 30
    ledger.commit(many)
    assert len(ledger.load().leases) == 501


def test_a_disk_that_fails_is_named(path: Path) -> None:
    """A limit of the operating system on the file's size is told as trouble of the disk, and nothing is half kept."""
    program = """
        import resource, signal, sys
        from tests.broker.ledger.books import a_lease, keep
        from jupyter_gpushare.broker.ledger import LedgerError
        from jupyter_gpushare.broker.sql.ledger import SqlLedger
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        ledger = SqlLedger.open(sys.argv[1])
        ledger.take_over("child")
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        try:
            ledger.commit(keep(*(a_lease(f"lease-{n}", name="x" * 200) for n in range(5000))))
        except LedgerError as error:
            print(error)
    """
    output = run_child(program, f"sqlite:///{path}")
    assert "cannot be read or written by the disk" in output or "is full" in output
    assert SqlLedger.open(f"sqlite:///{path}").load() == EMPTY


def test_a_deleted_ledger_is_not_written_on(ledger: SqlLedger, path: Path) -> None:
    """Commits into a file that nobody can find again would be lost without a word: they are refused."""
    path.unlink()
    with told("is gone", "last backup"):
        ledger.commit(SECOND)
    with told("is gone"):
        ledger.load()
    assert not path.exists()


def test_a_ledger_that_was_replaced_is_not_written_on(ledger: SqlLedger, path: Path, tmp_path: Path) -> None:
    """A backup put in place while the broker runs is left as it is until the broker starts again."""
    backup = tmp_path / "backup.sqlite"
    with sqlite3.connect(path) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    source.close()
    target.close()
    ledger.commit(SECOND)
    backup.replace(path)
    with told("another file is in its place"):
        ledger.commit(SECOND)


def test_yesterdays_backup_goes_on(ledger: SqlLedger, tmp_path: Path) -> None:
    """A broker on a restored backup is the one writer of it, whoever wrote when it was made."""
    backup = tmp_path / "backup.sqlite"
    with sqlite3.connect(ledger.place) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    source.close()
    target.close()
    ledger.commit(SECOND)
    restored = SqlLedger.open(f"sqlite:///{backup}")
    restored.take_over("tomorrow")
    assert restored.load() == EMPTY.with_change(FIRST)
    restored.commit(SECOND)
    assert [each.number for each in restored.audit()] == [1, 2]
    restored.close()


def scribble(path: Path) -> None:
    """Overwrite everything but the first page."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (scribble, "is damaged"),
        (lambda path: path.write_bytes(b"not a ledger at all, but long enough to look at " * 100), "is damaged"),
        (lambda path: os.truncate(path, 6000), "is damaged"),
    ],
    ids=["scribbled", "other file", "cut off"],
)
def test_a_damaged_ledger_is_named(ledger: SqlLedger, path: Path, damage: Callable[[Path], None], word: str) -> None:
    """A broker never starts on books that it cannot trust; it says what to put in their place."""
    ledger.close()
    damage(path)
    with told(str(path), word, "backup"):
        SqlLedger.open(f"sqlite:///{path}").load()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE leases SET status = 'dancing'",
        "UPDATE leases SET share = 'a lot'",
        "UPDATE leases SET reason = 'JUST_SO'",
        "INSERT INTO devices VALUES ('GPU-1', 'h', 'a100', 'p', 1, 0, 0, 'asleep')",
    ],
)
def test_rows_that_say_nonsense_are_damage(ledger: SqlLedger, path: Path, statement: str) -> None:
    """What no version of ours could have written is not taken for a lease or a device."""
    with sqlite3.connect(path) as stranger:
        stranger.execute(statement)
    stranger.close()
    with told(str(path), "is damaged", "backup"):
        ledger.load()


def test_a_read_only_ledger_is_named(ledger: SqlLedger, path: Path) -> None:
    """An account that may read and not write is told so, and nothing is kept."""
    ledger.close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    for folder in path.parents:
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith("pytest"):
            folder.chmod(0o755)
    program = """
        import os, sys
        from jupyter_gpushare.broker.ledger import LedgerError
        from jupyter_gpushare.broker.sql.ledger import SqlLedger
        from jupyter_gpushare.broker.sql import upgrade
        if os.geteuid() == 0:  # root may write everything
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        try:
            SqlLedger.open(sys.argv[1]).take_over("child")
        except LedgerError as error:
            print(error)
    """
    output = run_child(program, f"sqlite:///{path}")
    assert "Let the broker's account write" in output
    path.parent.chmod(0o755)
    path.chmod(0o644)
    assert SqlLedger.open(f"sqlite:///{path}").load() == EMPTY.with_change(FIRST)


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    """A ledger that cannot even be made says where, and how to name another place."""
    (tmp_path / "file").touch()
    with told(str(tmp_path), "cannot be opened", "--ledger"):
        SqlLedger.open(f"sqlite:///{tmp_path}/file/broker.sqlite")


@pytest.mark.parametrize("address", ["", "broker.sqlite", "mysql://host/db", "sqlite://", "sqlite:///:memory:", "://"])
def test_what_is_no_address_is_told_how_to_write_one(address: str) -> None:
    """A wrong ``--ledger`` is refused with right ones."""
    with told("write for example sqlite:////var/lib/gpushare/broker.sqlite"):
        SqlLedger.open(address)


def test_nobody_else_can_read_the_ledger(ledger: SqlLedger, path: Path) -> None:
    """The audit names people: its file is for the broker's account alone."""
    assert path.stat().st_mode & 0o077 == 0


def test_a_killed_broker_loses_no_commit_that_it_heard_of(path: Path) -> None:
    """Killed at any moment, all that was acknowledged is there, and of the next change all or nothing."""
    program = """
        import sys
        from jupyter_gpushare.broker.sql.ledger import SqlLedger
        from jupyter_gpushare.rules.change import Entry, Verb
        from tests.broker.ledger.books import a_lease, keep
        ledger = SqlLedger.open(sys.argv[1])
        ledger.take_over("child")
        for n in range(100_000):
            ledger.commit(keep(a_lease(f"lease-{n}"), audit=(Entry(float(n), Verb.GRANTED, f"lease-{n}"),)))
            print(n, flush=True)
    """
    for turn, acknowledged in enumerate((1, 7, 20)):
        where = f"sqlite:///{path}-{turn}"
        child = start_child(program, where)
        assert child.stdout is not None
        heard = -1
        while heard < acknowledged:
            heard = int(child.stdout.readline())
        child.kill()
        heard = int([str(heard), *child.stdout.read().split()][-1])
        child.wait()
        child.stdout.close()
        ledger = SqlLedger.open(where)
        kept = [each.entry.lease for each in ledger.audit(limit=100_000)]
        assert kept == [f"lease-{n}" for n in range(len(kept))]
        assert len(kept) - 1 in (heard, heard + 1)
        assert set(ledger.load().leases) == set(kept)
        ledger.close()


def test_a_commit_whose_end_was_not_heard_is_kept_once(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks after the commit and before its answer doubles no line of the audit."""
    real = ledger.engine.dialect.do_commit

    def commit_and_fall_silent(connection: sqlite3.Connection) -> None:
        real(connection)  # type: ignore[arg-type]  # what the driver gives
        monkeypatch.undo()
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(ledger.engine.dialect, "do_commit", commit_and_fall_silent)
    with told("has failed"):
        ledger.commit(SECOND)
    third = Entry(3.0, Verb.GRANTED, "second")
    ledger.commit(SECOND.then(Change(audit=(third,))))
    assert [each.entry for each in ledger.audit()] == [*FIRST.audit, *SECOND.audit, third]
    ledger.commit(SECOND)
    assert len(ledger.audit()) == 4


def start_child(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python program that may import ours."""
    lines = program.splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    text = "\n".join(line[indent:] for line in lines)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )


def run_child(program: str, *arguments: str) -> str:
    """Run such a program to its end; what it printed."""
    child = start_child(program, *arguments)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    return output
