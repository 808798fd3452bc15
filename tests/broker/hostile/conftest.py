"""The broker of the service's tests, with books in a real database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.sql.ledger import SqlLedger
from tests.broker.service.conftest import _bench, _play  # noqa: F401  # fixtures

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.service.bench import Bench


@pytest.fixture(name="books")
def _books(bench: Bench) -> Path:
    """The database of the broker that starts next."""
    path = bench.directory / "books.sqlite"
    bench.options["ledger"] = SqlLedger.open(f"sqlite:///{path}", patience_s=0.2)
    return path
