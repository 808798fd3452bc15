"""A little of what `make soak` does with the ledgers, so that every change meets it."""

from __future__ import annotations

import asyncio

import pytest

from scripts.soak import ledgers
from scripts.soak.record import Block
from tests.broker.ledger.conftest import DATABASES


@pytest.mark.parametrize("database", DATABASES)
def test_histories_with_crashes_find_their_books_again(database: str) -> None:
    """After every crash the next broker has the books of the last commit, and the audit each of its lines once."""
    block = Block("ledgers", 1)
    asyncio.run(ledgers.run(block, histories=3, databases=[database]))
    assert block.violations == []
    assert block.counts[f"histories on {database}"] == 3
    assert block.counts["brokers that read their books"] > 3
