"""From every schema that was ever published to the newest one, with everything in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import IntegrityError

from jupyter_gpushare.broker.ledger import LedgerError, UsageHours
from jupyter_gpushare.broker.ledger_records import Ask, Idle, Membership, Moment
from jupyter_gpushare.broker.sql.opening import WRITING, open_engine
from jupyter_gpushare.broker.sql.schema import HEAD, METADATA
from jupyter_gpushare.broker.sql.upgrade import migrating, migrations, upgrade
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.pace import Pace
from jupyter_gpushare.rules.snapshot import EMPTY
from tests.broker.ledger.books import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

    from jupyter_gpushare.broker.sql.ledger import SqlLedger
    from jupyter_gpushare.rules.change import Change

#: For each published revision its tables with `EVERYTHING` in them, as INSERT statements of that time.
PUBLISHED = Path(__file__).parent / "published"
PACES = {"gpu-1": Pace(1.5e9, 2.5e9, 0.5, 0.25)}
MEMBERSHIPS = {"ana": Membership(frozenset({"leads", "team"}), 99.5)}
ASK = Ask("team-a", "ana", "limit", Fraction(1_500_000), 98.0, "a paper", 1, "denied", "cy", 99.0, "later")
MOMENT = Moment(300, 60.0, 30.0, 10.0, 5.0, 5.0, 2.0, 8.0)
IDLE = Idle(3600, "team-a", "class", 0.5, 2)
USAGE = UsageHours(3600, "team-a", "ana", 1.5, 2.5, 3.5, 4.5)
#: What a revision of tomorrow may do to a table with data in it.
TOMORROW = """
import sqlalchemy as sa
from alembic import op

revision = "tomorrow"
down_revision = "{head}"


def upgrade():
    with op.batch_alter_table("leases") as table:
        table.add_column(sa.Column("mood", sa.Text(), nullable=False, server_default="fine"))
        table.alter_column("spread_group", new_column_name="apart_from")
"""


def statements(revision: str) -> list[str]:
    """What was in a ledger of that revision."""
    return [line for line in (PUBLISHED / f"{revision}.sql").read_text().splitlines() if line]


def revisions() -> list[str]:
    """All that were ever published, the oldest first."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        script = ScriptDirectory.from_config(migrations(connection))
        return [each.revision for each in script.walk_revisions()][::-1]


def at_revision(address: str, revision: str) -> Engine:
    """A database of that revision."""
    engine, _ = open_engine(address, 5)
    with migrating(engine) as connection:
        command.upgrade(migrations(connection), revision)
    return engine


def test_the_newest_revision_is_the_one_that_we_look_for() -> None:
    """A new revision that nobody runs would leave every ledger behind."""
    assert revisions()[-1] == HEAD


@pytest.mark.parametrize("revision", revisions())
def test_every_published_schema_keeps_its_data(
    address: str, revision: str, open_database: Callable[[], SqlLedger]
) -> None:
    """Whatever version wrote the books, this one reads all of them."""
    engine = at_revision(address, revision)
    with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        for statement in statements(revision):
            connection.exec_driver_sql(statement)
    engine.dispose()
    ledger = open_database()
    assert ledger.load() == EMPTY.with_change(EVERYTHING if revision >= "0003" else before_hubs(EVERYTHING))
    assert [each.entry for each in ledger.audit()] == list(EVERYTHING.audit)
    assert list(ledger.usage(since=0, until=7200)) == [USAGE]
    assert ledger.paces() == (PACES if revision >= "0002" else {})
    assert ledger.memberships() == (MEMBERSHIPS if revision >= "0003" else {})
    assert list(ledger.asks()) == ([ASK] if revision >= "0003" else [])
    assert list(ledger.moments(since=0)) == ([MOMENT] if revision >= "0003" else [])
    assert list(ledger.idles(since=0)) == ([IDLE] if revision >= "0003" else [])


def test_the_way_back_keeps_what_the_version_before_knows(address: str, open_database: Callable[[], SqlLedger]) -> None:
    """After an upgrade that is regretted the books are those of before, the audit is protected, and the way on is open."""
    ledger = open_database()
    ledger.take_over("first")
    ledger.commit(EVERYTHING)
    ledger.add_usage([USAGE])
    ledger.keep_memberships(MEMBERSHIPS)
    lines = ledger.audit()
    with migrating(ledger.engine) as connection:
        command.downgrade(migrations(connection), "0002")
    engine = at_revision(address, "0002")
    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
        assert tables.isdisjoint({"people", "memberships", "asks", "moments", "idles"})
        columns = {each["name"] for each in inspect(connection).get_columns("leases")}
        assert columns.isdisjoint({"held_until", "is_starting"})
    with (
        pytest.raises(IntegrityError, match="append-only"),
        engine.connect().execution_options(**{WRITING: True}) as connection,
        connection.begin(),
    ):
        connection.execute(text("DELETE FROM audit"))
    engine.dispose()
    again = open_database()
    assert again.load() == EMPTY.with_change(before_hubs(EVERYTHING))
    assert again.audit() == lines
    assert list(again.usage(since=0, until=7200)) == [USAGE]


def before_hubs(change: Change) -> Change:
    """*change*, without what revision 0003 brought."""
    plain: dict[str, Any] = {
        "owners": frozenset(),
        "joined": frozenset(),
        "added": frozenset(),
        "limits": {},
        "set_quota": None,
    }
    projects = {name: replace(each, **plain) for name, each in change.projects.items() if each is not None}
    leases = {key: lease.evolve(hold=None) for key, lease in change.leases.items()}
    return replace(change, projects=projects, leases=leases)


def test_the_migrations_make_what_the_code_expects(open_database: Callable[[], SqlLedger]) -> None:
    """Tables, columns, keys and indexes of an upgraded ledger are those of the schema in the code."""
    with open_database().engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_the_migrations_make_the_same_guards(address: str, open_database: Callable[[], SqlLedger]) -> None:
    """Checks and conditions of indexes, which Alembic does not compare, are the same word for word."""
    engine, _ = open_engine(f"{address}", 5)
    if engine.dialect.name == "sqlite":
        engine, _ = open_engine(f"{address}-expected", 5)
        with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
            METADATA.create_all(connection)
        expected = guards(engine)
    else:
        with engine.connect() as connection, connection.begin() as transaction:
            METADATA.create_all(connection)
            expected = guards_of(connection)
            transaction.rollback()
    engine.dispose()
    assert guards(open_database().engine) == expected


def guards(engine: Engine) -> dict[str, object]:
    """What each table is guarded by."""
    with engine.connect() as connection:
        return guards_of(connection)


def guards_of(connection: object) -> dict[str, object]:
    """What each table is guarded by, for a connection."""
    looker = inspect(connection)
    return {
        table: (
            sorted((each["name"], each["sqltext"]) for each in looker.get_check_constraints(table)),
            sorted(
                (each["name"], *map(str, each.get("dialect_options", {}).values()))
                for each in looker.get_indexes(table)
            ),
            sorted((each["name"], str(each["options"])) for each in looker.get_foreign_keys(table)),
            looker.get_table_options(table),
        )
        for table in METADATA.tables
    }


def test_a_ledger_of_a_newer_version_is_left_alone(open_database: Callable[[], SqlLedger]) -> None:
    """An older version never writes into books that it does not understand; it says what to install or put back."""
    engine = open_database().engine
    with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LedgerError, match=r"newer version .*revision 9999.*Install that version"):
        open_database()


def test_tables_with_data_can_be_altered(address: str, open_database: Callable[[], SqlLedger], tmp_path: Path) -> None:
    """The road is open: a revision that adds and renames columns keeps every lease and its parts."""
    ledger = open_database()
    ledger.take_over("first")
    ledger.commit(EVERYTHING)
    (tmp_path / "tomorrow.py").write_text(TOMORROW.format(head=HEAD))
    with migrating(ledger.engine) as connection:
        config = migrations(connection)
        ours = Path(config.get_main_option("script_location") or "") / "versions"
        config.set_main_option("version_locations", f"{ours}:{tmp_path}")
        command.upgrade(config, "head")
        rows = connection.execute(text("SELECT apart_from, mood FROM leases ORDER BY id")).all()
        parts = connection.execute(text("SELECT count(*) FROM grants")).scalar()
    assert [tuple(row) for row in rows] == [("sweep", "fine"), ("", "fine")]
    assert parts == 3


def test_brokers_that_start_at_once_upgrade_once(open_database: Callable[[], SqlLedger]) -> None:
    """Two first starts at the same moment make one ledger, and both can use it."""
    opened: list[SqlLedger] = []
    threads = [Thread(target=lambda: opened.append(open_database())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(opened) == 4
    assert all(ledger.load() == EMPTY for ledger in opened)


@pytest.mark.parametrize("statement", ["UPDATE audit SET verb = 'granted'", "DELETE FROM audit", "TRUNCATE audit"])
def test_the_audit_cannot_be_altered(open_database: Callable[[], SqlLedger], statement: str) -> None:
    """Not even by somebody with the right to write: its lines only ever get more."""
    ledger = open_database()
    if ledger.engine.dialect.name == "sqlite" and statement.startswith("TRUNCATE"):
        statement = "DELETE FROM audit WHERE number = 1"  # SQLite has no other way
    ledger.take_over("first")
    ledger.commit(EVERYTHING)
    with (
        pytest.raises(IntegrityError, match="append-only"),
        ledger.engine.connect().execution_options(**{WRITING: True}) as connection,
        connection.begin(),
    ):
        connection.execute(text(statement))
    assert [each.entry for each in ledger.audit()] == list(EVERYTHING.audit)


def test_a_part_without_its_lease_cannot_be(open_database: Callable[[], SqlLedger]) -> None:
    """Whatever writes to the tables, a grant belongs to a lease and goes with it."""
    ledger = open_database()
    ledger.take_over("first")
    ledger.commit(EVERYTHING)
    with ledger.engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        connection.execute(text("DELETE FROM leases WHERE id = 'job'"))
        assert connection.execute(text("SELECT count(*) FROM grants")).scalar() == 0
    ledger.commit(EVERYTHING)
    with (
        pytest.raises(IntegrityError),
        ledger.engine.connect().execution_options(**{WRITING: True}) as connection,
        connection.begin(),
    ):
        connection.execute(
            text("INSERT INTO loans SELECT 'nobody', is_burst, position, lender, device, amount FROM loans")
        )


def test_a_current_ledger_is_opened_without_writing(open_database: Callable[[], SqlLedger]) -> None:
    """Reading the audit of a running broker disturbs it in nothing: no lock is asked for."""
    ledger = open_database()
    ledger.take_over("first")
    with ledger.engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        upgrade(ledger.engine)
        assert open_database().load() == EMPTY
