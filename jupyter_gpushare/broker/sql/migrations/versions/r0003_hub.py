"""What a hub needs: claims held for servers to come, people and their groups, asks, the last day, an audit with an end.

The way back leaves out what the version before does not know: held claims become claims without a holder, which that
version ends after its grace.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_WHOLE: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REAL: Final[sa.types.TypeEngine[float]] = sa.Double().with_variant(sa.REAL(), "sqlite")
_FLAG: Final = sa.Boolean().with_variant(sa.Integer(), "sqlite")

_UNTIL: Final = "COALESCE((SELECT audit_from FROM writer), 0)"
_SQLITE_NEW: Final = f"""
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit WHEN OLD.at >= {_UNTIL}
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END
"""
_SQLITE_OLD: Final = """
CREATE TRIGGER audit_no_DELETE BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END
"""
_POSTGRESQL_FUNCTION: Final = f"""
CREATE FUNCTION audit_keeps_what_is_young() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.at >= {_UNTIL} THEN
        RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END
$$
"""
_POSTGRESQL_NEW: Final = """
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
FOR EACH ROW EXECUTE FUNCTION audit_keeps_what_is_young()
"""
_POSTGRESQL_OLD: Final = """
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
"""


def upgrade() -> None:
    """More columns, more tables, and an audit of which only what is young is protected."""
    op.add_column("leases", sa.Column("held_until", _REAL, nullable=True))
    op.add_column("leases", sa.Column("is_starting", _FLAG, nullable=False, server_default=sa.false()))
    op.add_column("projects", sa.Column("set_quota", _WHOLE, autoincrement=False, nullable=True))
    op.add_column("writer", sa.Column("audit_from", _REAL, nullable=False, server_default=sa.text("0")))
    _create_people()
    _create_memberships()
    _create_asks()
    _create_moments()
    _create_idles()
    _protect_audit(is_new=True)


def downgrade() -> None:
    """As it was."""
    _protect_audit(is_new=False)
    for table in ("idles", "moments", "asks", "memberships", "people"):
        op.drop_table(table)
    op.drop_column("writer", "audit_from")
    op.drop_column("projects", "set_quota")
    op.drop_column("leases", "is_starting")
    op.drop_column("leases", "held_until")


def _create_people() -> None:
    op.create_table(
        "people",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("is_owner", _FLAG, nullable=False),
        sa.Column("is_joined", _FLAG, nullable=False),
        sa.Column("is_added", _FLAG, nullable=False),
        sa.Column("own_limit", _WHOLE, autoincrement=False, nullable=True),
        sa.CheckConstraint("own_limit >= 0", name=op.f("ck_people_not_below_zero")),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_people_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project", "person", name=op.f("pk_people")),
        sqlite_strict=True,
    )


def _create_memberships() -> None:
    op.create_table(
        "memberships",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("groups", sa.Text(), nullable=False),
        sa.Column("seen", _REAL, nullable=False),
        sa.PrimaryKeyConstraint("person", name=op.f("pk_memberships")),
        sqlite_strict=True,
    )


def _create_asks() -> None:
    op.create_table(
        "asks",
        sa.Column("number", _WHOLE, autoincrement=True, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("amount", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("at", _REAL, nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("decided_at", _REAL, nullable=True),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_asks_not_below_zero")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_asks")),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_index(
        "ux_asks_open",
        "asks",
        ["project", "person", "what"],
        unique=True,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )


def _create_moments() -> None:
    parts = ("seconds", "running", "parked", "lent", "training", "foreign_part", "free")
    op.create_table(
        "moments",
        sa.Column("at", _WHOLE, autoincrement=False, nullable=False),
        *(sa.Column(name, _REAL, nullable=False) for name in parts),
        sa.PrimaryKeyConstraint("at", name=op.f("pk_moments")),
        sqlite_strict=True,
    )


def _create_idles() -> None:
    op.create_table(
        "idles",
        sa.Column("hour", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("idle", _REAL, nullable=False),
        sa.Column("parks", _WHOLE, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("hour", "project", "pool", name=op.f("pk_idles")),
        sqlite_strict=True,
    )


def _protect_audit(*, is_new: bool) -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER audit_no_delete")
        op.execute(_SQLITE_NEW if is_new else _SQLITE_OLD)
        return
    op.execute("DROP TRIGGER audit_no_delete ON audit")
    if is_new:
        op.execute(_POSTGRESQL_FUNCTION)
        op.execute(_POSTGRESQL_NEW)
    else:
        op.execute("DROP FUNCTION audit_keeps_what_is_young()")
        op.execute(_POSTGRESQL_OLD)
