"""How fast hosts copy outlives the broker: its estimates are as good after a restart as before."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_REAL: Final[sa.types.TypeEngine[float]] = sa.Double().with_variant(sa.REAL(), "sqlite")


def upgrade() -> None:
    """A table more."""
    op.create_table(
        "paces",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("out_bytes_per_s", _REAL, nullable=False),
        sa.Column("in_bytes_per_s", _REAL, nullable=False),
        sa.Column("out_fixed_s", _REAL, nullable=False),
        sa.Column("in_fixed_s", _REAL, nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_paces")),
        sqlite_strict=True,
    )
