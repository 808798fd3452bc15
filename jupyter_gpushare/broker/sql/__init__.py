"""The ledger in a database: SQLite for one machine, PostgreSQL for a hub, the same tables in both."""

from __future__ import annotations
