"""The tables. Amounts of GPU are millionths, memory is bytes, times are seconds since the epoch, parts stand in order.

Whatever changes here needs a new revision in ``migrations/versions``; a test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)

if TYPE_CHECKING:
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

__all__ = ["HEAD", "METADATA", "audit", "devices", "grants", "hosts", "leases", "loans", "members", "pools", "projects"]
__all__ += ["asks", "idles", "memberships", "moments", "paces", "people", "usage", "writer"]

#: The newest revision of ``migrations/versions``.
HEAD: Final = "0003"

METADATA: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

# SQLite's STRICT tables, which refuse a text where a number belongs, know only these names of types.
_Whole: Final = BigInteger().with_variant(Integer(), "sqlite")
_Real: Final[TypeEngine[float]] = Double().with_variant(REAL(), "sqlite")
_Flag: Final = Boolean().with_variant(Integer(), "sqlite")


def _name(name: str, *extra: ForeignKey, is_key: bool = False) -> Column[str]:
    return Column(name, Text, *extra, primary_key=is_key, nullable=False)


def _whole(name: str, *, is_key: bool = False, is_optional: bool = False) -> Column[int]:
    return Column(name, _Whole, primary_key=is_key, nullable=is_optional, autoincrement=False)


def _real(name: str, *, is_optional: bool = False) -> Column[float]:
    return Column(name, _Real, nullable=is_optional)


def _flag(name: str) -> Column[bool]:
    return Column(name, _Flag, nullable=False)


def _not_below_zero(*names: str) -> CheckConstraint:
    return CheckConstraint(" AND ".join(f"{name} >= 0" for name in names), name="not_below_zero")


def _table(name: str, *parts: SchemaItem) -> Table:
    return Table(name, METADATA, *parts, sqlite_strict=True)


#: One row: who may write, what was written last, the one switch, and from when on lines of the audit are protected.
writer: Final = _table(
    "writer",
    _whole("only_one", is_key=True),
    _name("incarnation"),
    _name("last_commit"),
    _flag("is_parking_stopped"),
    _real("audit_from"),
    CheckConstraint("only_one = 1", name="only_one"),
)

projects: Final = _table(
    "projects",
    _name("name", is_key=True),
    _whole("quota"),
    _whole("weight", is_optional=True),
    _whole("upper_limit"),
    _whole("person_limit"),
    _whole("set_quota", is_optional=True),
    _not_below_zero("quota", "weight", "upper_limit", "person_limit"),
)

members: Final = _table(
    "members",
    _name("project", ForeignKey("projects.name", ondelete="CASCADE"), is_key=True),
    _name("person", is_key=True),
)

#: What the books know of one person in one project, beside the admin's file; as owners also groups.
people: Final = _table(
    "people",
    _name("project", ForeignKey("projects.name", ondelete="CASCADE"), is_key=True),
    _name("person", is_key=True),
    _flag("is_owner"),
    _flag("is_joined"),
    _flag("is_added"),
    _whole("own_limit", is_optional=True),
    _not_below_zero("own_limit"),
)

pools: Final = _table(
    "pools",
    _name("name", is_key=True),
    _name("parking"),
    _name("isolation"),
    _name("resume"),
    _whole("oversubscribe"),
    _name("placement"),
    _flag("consolidation"),
    _real("minimum_turn_s"),
    _real("backoff_s"),
    _real("grace_s"),
    _real("lend_at_least_s"),
    _real("idle_timeout_s"),
    _not_below_zero("oversubscribe"),
)

hosts: Final = _table(
    "hosts",
    _name("name", is_key=True),
    _whole("parking_budget"),
    _whole("copies"),
    _whole("saves"),
    _name("condition"),
    _not_below_zero("parking_budget", "copies", "saves"),
)

devices: Final = _table(
    "devices",
    _name("uuid", is_key=True),
    _name("host"),
    _name("kind"),
    _name("pool"),
    _whole("usable"),
    _whole("foreign_part"),
    _flag("trespassed"),
    _name("condition"),
    _not_below_zero("usable", "foreign_part"),
)

#: Live leases only: of one that is over the audit tells.
leases: Final = _table(
    "leases",
    _name("id", is_key=True),
    _name("kind"),
    _name("project"),
    _name("person"),
    _name("name"),
    _name("holder_key"),
    _name("share"),
    _name("pool"),
    _name("status"),
    _name("target"),
    _real("submitted"),
    _real("since"),
    _whole("epoch"),
    _flag("is_parkable"),
    _whole("host_memory"),
    _name("spread_group"),
    _real("grace_s", is_optional=True),
    _real("start_cost_s"),
    _real("turn_began"),
    _whole("turns_lost"),
    _whole("most_turns_lost", is_optional=True),
    _real("not_before"),
    Column("reason", Text),
    _name("because_of"),
    _real("deadline", is_optional=True),
    Column("was", Text),
    _real("wanted_since", is_optional=True),
    _real("idle_since", is_optional=True),
    _real("held_until", is_optional=True),
    _flag("is_starting"),
    _not_below_zero("epoch", "host_memory", "turns_lost", "most_turns_lost"),
)
# Two hellos of one holder at once make one lease: the second one is told.
Index(
    "ux_leases_holder",
    leases.c.person,
    leases.c.holder_key,
    unique=True,
    sqlite_where=text("holder_key <> ''"),
    postgresql_where=text("holder_key <> ''"),
)

#: What a lease has on its devices, and with *is_burst* the memory above its request.
grants: Final = _table(
    "grants",
    _name("lease", ForeignKey("leases.id", ondelete="CASCADE"), is_key=True),
    Column("is_burst", _Flag, primary_key=True, nullable=False),
    _whole("position", is_key=True),
    _name("device"),
    _whole("amount"),
    _flag("is_restoring"),
    _not_below_zero("amount"),
)
Index("ux_grants_device", grants.c.lease, grants.c.is_burst, grants.c.device, unique=True)
# The device token's twin in the books: one restore on a device at a time.
Index(
    "ux_grants_restoring",
    grants.c.device,
    unique=True,
    sqlite_where=text("is_restoring"),
    postgresql_where=text("is_restoring"),
)

#: Which part of a lease's grants, or with *is_burst* of its bursts, is promised to which parked session.
loans: Final = _table(
    "loans",
    _name("lease", ForeignKey("leases.id", ondelete="CASCADE"), is_key=True),
    Column("is_burst", _Flag, primary_key=True, nullable=False),
    _whole("position", is_key=True),
    _name("lender"),
    _name("device"),
    _whole("amount"),
    _not_below_zero("amount"),
)

#: Append-only: triggers refuse to alter a line, and to delete one that is not older than the writer's ``audit_from``.
audit: Final = Table(
    "audit",
    METADATA,
    Column("number", _Whole, primary_key=True, autoincrement=True),
    _real("at"),
    _name("verb"),
    _name("lease"),
    _name("project"),
    _name("person"),
    _name("devices"),
    _whole("amount", is_optional=True),
    _whole("lent", is_optional=True),
    _name("reason"),
    _name("because_of"),
    _name("by"),
    _name("details"),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
Index("ix_audit_lease", audit.c.lease, audit.c.number)
Index("ix_audit_project", audit.c.project, audit.c.number)
Index("ix_audit_person", audit.c.person, audit.c.number)

#: GPU-hours of one person in one project in the hour that begins at *hour*.
usage: Final = _table(
    "usage",
    _whole("hour", is_key=True),
    _name("project", is_key=True),
    _name("person", is_key=True),
    _real("held"),
    _real("handed_back"),
    _real("lent"),
    _real("computed"),
)

#: How fast a host moves memory to and from its devices: learned, and for estimates only.
paces: Final = _table(
    "paces",
    _name("host", is_key=True),
    _real("out_bytes_per_s"),
    _real("in_bytes_per_s"),
    _real("out_fixed_s"),
    _real("in_fixed_s"),
)

#: The groups of each person, as was told last: a JSON list.
memberships: Final = _table("memberships", _name("person", is_key=True), _name("groups"), _real("seen"))

#: What members ask for. One that is open, for each project, person and thing.
asks: Final = Table(
    "asks",
    METADATA,
    Column("number", _Whole, primary_key=True, autoincrement=True),
    _name("project"),
    _name("person"),
    _name("what"),
    _whole("amount"),
    _real("at"),
    _name("why"),
    _name("state"),
    _name("decided_by"),
    _real("decided_at", is_optional=True),
    _name("answer"),
    _not_below_zero("amount"),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
Index(
    "ux_asks_open",
    asks.c.project,
    asks.c.person,
    asks.c.what,
    unique=True,
    sqlite_where=text("state = 'open'"),
    postgresql_where=text("state = 'open'"),
)

#: What the GPUs did in the five minutes that begin at *at*, in GPU-seconds of the seconds that were looked at.
moments: Final = _table(
    "moments",
    _whole("at", is_key=True),
    *(_real(name) for name in ("seconds", "running", "parked", "lent", "training", "foreign_part", "free")),
)

#: GPU-hours of sessions that ran idle for longer than their pool allows, in the hour that begins at *hour*.
idles: Final = _table(
    "idles",
    _whole("hour", is_key=True),
    _name("project", is_key=True),
    _name("pool", is_key=True),
    _real("idle"),
    _whole("parks"),
)
