"""A little of each part of the soak, so that what `make soak` looks for is looked for in every change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scripts.soak import (
    background,
    broker_hour,
    broker_kills,
    broker_moments,
    broker_starts,
    cycles,
    histories,
    kills,
    ledgers,
    race,
    server_kills,
)
from scripts.soak.record import Block

pytestmark = pytest.mark.timeout(300)


def ran(part: Any, **options: Any) -> Block:
    """One small block, which must have no violations."""
    block = Block(part.NAME, 1)
    asyncio.run(part.run(block, **options))
    assert block.violations == []
    return block


def test_cycles_lose_nothing() -> None:
    """Kernels that are parked and resumed in any order, by any client, keep every byte beside a busy neighbour."""
    assert ran(cycles, rounds=10, kernels=2).counts["cycles"] >= 10


def test_races_are_won_by_nobody() -> None:
    """No cell of five kinds of clients runs while its kernel is parked, none is lost, and their order is kept."""
    block = ran(race, rounds=30, kernels=2)
    assert (block.counts["rounds"], block.counts["ran while parked"]) == (30, 0)
    assert block.counts["parks"] > 0


def test_a_killed_checkpoint_process_is_recovered_at_every_step() -> None:
    """Wherever the checkpoint process dies, the kernel answers afterwards with every byte as it was."""
    block = ran(kills, each=1, around=0, at_random=2)
    assert block.counts["kills"] == 2 + len(kills.PARKING) + len(kills.RESUMING)


def test_a_killed_server_leaves_nothing() -> None:
    """The next start says what was lost, and leaves no process, token, booking, flag or row of the journal."""
    block = ran(server_kills, moments=("checkpoint", "restore"))
    told = block.counts["told RECOVERED_ENDED_ITSELF"] + block.counts["told RECOVERED_ENDED_BY_US"]
    assert told == block.counts["kills"] == 2


def test_background_work_is_never_parked() -> None:
    """A thread or a task that touches the GPU by itself keeps its kernel from being parked, by hand or by time."""
    block = ran(background, rounds=8, kinds=("thread", "task"))
    assert (block.counts["tries"], block.counts["touches of the GPU"] > 0) == (8, True)


def test_a_killed_broker_loses_no_lease() -> None:
    """Wherever in a commit or in its start the broker dies, the next one knows every lease, and each moves on."""
    steps = ("before granted", "inside parked", "after resuming", "published ended", "inside taking over")
    block = ran(broker_kills, steps=steps, few=True)
    assert block.counts["kills"] == len(steps)
    assert block.counts["resumes"] > 0


def test_a_broker_that_is_killed_at_any_moment_disturbs_nobody() -> None:
    """A notebook's cells and a job's steps go on through it, with nothing missing and nothing twice."""
    block = ran(broker_moments, kills=2, few=True)
    assert block.counts["kills"] == 2
    assert block.counts["cells"] > 0
    assert block.counts["steps"] > 0


def test_a_broker_that_dies_at_its_first_start_is_started_again() -> None:
    """Whether it dies in its migration or who starts it dies, the next holder has one broker and a share."""
    block = ran(broker_starts, steps=("inside migrating", "listening", "the starter dies"))
    assert block.counts["kills"] == 3


def test_an_hour_without_a_broker_brings_everybody_back() -> None:
    """Parked notebooks whose share trains wait out the hour, and then come back without anybody's word."""
    block = ran(broker_hour, sessions=2, jobs=1)
    assert block.counts["sessions that came back alone"] == 2


def test_random_histories_keep_what_is_true_of_the_books() -> None:
    """Whatever 200 events come in whatever order, with crashes between: what must hold is looked at after each."""
    counts = ran(histories, histories=4).counts
    assert counts["histories"] == 4
    assert counts["steps"] >= 4 * 100


def test_books_in_a_database_are_those_that_were_committed() -> None:
    """Every broker that takes over reads what the one before had committed, to the last field."""
    counts = ran(ledgers, histories=2, databases=("sqlite",)).counts
    assert counts["histories on sqlite"] == 2
    assert counts["brokers that read their books"] > 2
