"""The first books: everything that a broker remembers, and an audit that nobody can alter."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_WHOLE: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REAL: Final[sa.types.TypeEngine[float]] = sa.Double().with_variant(sa.REAL(), "sqlite")
_FLAG: Final = sa.Boolean().with_variant(sa.Integer(), "sqlite")

_SQLITE_TRIGGERS: Final = """
CREATE TRIGGER audit_no_{verb} BEFORE {verb} ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END
"""
_POSTGRESQL_FUNCTION: Final = """
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""
_POSTGRESQL_TRIGGERS: Final = """
CREATE TRIGGER audit_no_{verb} BEFORE {verb} ON audit
FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
"""


def upgrade() -> None:
    """From nothing to the first books."""
    _create_writer()
    _create_projects()
    _create_members()
    _create_pools()
    _create_hosts()
    _create_devices()
    _create_leases()
    _create_grants()
    _create_loans()
    _create_audit()
    _create_usage()
    _protect_audit()


def _create_writer() -> None:
    op.create_table(
        "writer",
        sa.Column("only_one", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("last_commit", sa.Text(), nullable=False),
        sa.Column("is_parking_stopped", _FLAG, nullable=False),
        sa.CheckConstraint("only_one = 1", name=op.f("ck_writer_only_one")),
        sa.PrimaryKeyConstraint("only_one", name=op.f("pk_writer")),
        sqlite_strict=True,
    )


def _create_projects() -> None:
    op.create_table(
        "projects",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("quota", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("weight", _WHOLE, autoincrement=False, nullable=True),
        sa.Column("upper_limit", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("person_limit", _WHOLE, autoincrement=False, nullable=False),
        sa.CheckConstraint(
            "quota >= 0 AND weight >= 0 AND upper_limit >= 0 AND person_limit >= 0",
            name=op.f("ck_projects_not_below_zero"),
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
        sqlite_strict=True,
    )


def _create_members() -> None:
    op.create_table(
        "members",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_members_project"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project", "person", name=op.f("pk_members")),
        sqlite_strict=True,
    )


def _create_pools() -> None:
    op.create_table(
        "pools",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("parking", sa.Text(), nullable=False),
        sa.Column("isolation", sa.Text(), nullable=False),
        sa.Column("resume", sa.Text(), nullable=False),
        sa.Column("oversubscribe", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("placement", sa.Text(), nullable=False),
        sa.Column("consolidation", _FLAG, nullable=False),
        sa.Column("minimum_turn_s", _REAL, nullable=False),
        sa.Column("backoff_s", _REAL, nullable=False),
        sa.Column("grace_s", _REAL, nullable=False),
        sa.Column("lend_at_least_s", _REAL, nullable=False),
        sa.Column("idle_timeout_s", _REAL, nullable=False),
        sa.CheckConstraint("oversubscribe >= 0", name=op.f("ck_pools_not_below_zero")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_pools")),
        sqlite_strict=True,
    )


def _create_hosts() -> None:
    op.create_table(
        "hosts",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("parking_budget", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("copies", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("saves", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.CheckConstraint("parking_budget >= 0 AND copies >= 0 AND saves >= 0", name=op.f("ck_hosts_not_below_zero")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_hosts")),
        sqlite_strict=True,
    )


def _create_devices() -> None:
    op.create_table(
        "devices",
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("usable", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("foreign_part", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("trespassed", _FLAG, nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.CheckConstraint("usable >= 0 AND foreign_part >= 0", name=op.f("ck_devices_not_below_zero")),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_devices")),
        sqlite_strict=True,
    )


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder_key", sa.Text(), nullable=False),
        sa.Column("share", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("submitted", _REAL, nullable=False),
        sa.Column("since", _REAL, nullable=False),
        sa.Column("epoch", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("is_parkable", _FLAG, nullable=False),
        sa.Column("host_memory", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("spread_group", sa.Text(), nullable=False),
        sa.Column("grace_s", _REAL, nullable=True),
        sa.Column("start_cost_s", _REAL, nullable=False),
        sa.Column("turn_began", _REAL, nullable=False),
        sa.Column("turns_lost", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("most_turns_lost", _WHOLE, autoincrement=False, nullable=True),
        sa.Column("not_before", _REAL, nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("because_of", sa.Text(), nullable=False),
        sa.Column("deadline", _REAL, nullable=True),
        sa.Column("was", sa.Text(), nullable=True),
        sa.Column("wanted_since", _REAL, nullable=True),
        sa.Column("idle_since", _REAL, nullable=True),
        sa.CheckConstraint(
            "epoch >= 0 AND host_memory >= 0 AND turns_lost >= 0 AND most_turns_lost >= 0",
            name=op.f("ck_leases_not_below_zero"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
        sqlite_strict=True,
    )
    op.create_index(
        "ux_leases_holder",
        "leases",
        ["person", "holder_key"],
        unique=True,
        sqlite_where=sa.text("holder_key <> ''"),
        postgresql_where=sa.text("holder_key <> ''"),
    )


def _create_grants() -> None:
    op.create_table(
        "grants",
        sa.Column("lease", sa.Text(), nullable=False),
        sa.Column("is_burst", _FLAG, nullable=False),
        sa.Column("position", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("amount", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("is_restoring", _FLAG, nullable=False),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_grants_not_below_zero")),
        sa.ForeignKeyConstraint(["lease"], ["leases.id"], name=op.f("fk_grants_lease"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("lease", "is_burst", "position", name=op.f("pk_grants")),
        sqlite_strict=True,
    )
    op.create_index("ux_grants_device", "grants", ["lease", "is_burst", "device"], unique=True)
    op.create_index(
        "ux_grants_restoring",
        "grants",
        ["device"],
        unique=True,
        sqlite_where=sa.text("is_restoring"),
        postgresql_where=sa.text("is_restoring"),
    )


def _create_loans() -> None:
    op.create_table(
        "loans",
        sa.Column("lease", sa.Text(), nullable=False),
        sa.Column("is_burst", _FLAG, nullable=False),
        sa.Column("position", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("lender", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("amount", _WHOLE, autoincrement=False, nullable=False),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_loans_not_below_zero")),
        sa.ForeignKeyConstraint(["lease"], ["leases.id"], name=op.f("fk_loans_lease"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("lease", "is_burst", "position", name=op.f("pk_loans")),
        sqlite_strict=True,
    )


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("number", _WHOLE, autoincrement=True, nullable=False),
        sa.Column("at", _REAL, nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("lease", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("amount", _WHOLE, autoincrement=False, nullable=True),
        sa.Column("lent", _WHOLE, autoincrement=False, nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("because_of", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_index("ix_audit_lease", "audit", ["lease", "number"])
    op.create_index("ix_audit_person", "audit", ["person", "number"])
    op.create_index("ix_audit_project", "audit", ["project", "number"])


def _create_usage() -> None:
    op.create_table(
        "usage",
        sa.Column("hour", _WHOLE, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("held", _REAL, nullable=False),
        sa.Column("handed_back", _REAL, nullable=False),
        sa.Column("lent", _REAL, nullable=False),
        sa.Column("computed", _REAL, nullable=False),
        sa.PrimaryKeyConstraint("hour", "project", "person", name=op.f("pk_usage")),
        sqlite_strict=True,
    )


def _protect_audit() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(_SQLITE_TRIGGERS.format(verb=verb))
        return
    op.execute(_POSTGRESQL_FUNCTION)
    for verb in ("UPDATE", "DELETE", "TRUNCATE"):
        op.execute(_POSTGRESQL_TRIGGERS.format(verb=verb))
