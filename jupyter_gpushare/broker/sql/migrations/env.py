"""What Alembic runs for each command. It works on the connection that it is given, in a transaction of its caller's."""

from __future__ import annotations

from alembic import context

from jupyter_gpushare.broker.sql.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
