"""What is remembered from one decision to the next makes them faster, and never other."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.rules.claims import serve_claims
from jupyter_gpushare.rules.waiting_line import line
from tests.rules.builders import NOW, books, job, parked, running, session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot


def decide(snapshot: Snapshot) -> tuple[list[str], Change]:
    """Everything that asks what was remembered: the queue, the rooms, and who can be displaced."""
    return line(snapshot), serve_claims(snapshot, NOW)


def decide_afresh(snapshot: Snapshot) -> tuple[list[str], Change]:
    """As somebody decides who remembers nothing: a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(decide, snapshot).result()


def some_books(seed: int) -> Snapshot:
    """Books that have nothing to do with those of another *seed*, but that the same names stand for other things."""
    dice = random.Random(seed)  # noqa: S311  # a seed repeats it
    there: list[Lease] = []
    for n in range(4):
        kind = dice.choice([session, job])
        put = dice.choice([running, parked]) if kind is session else running
        there.append(put(kind(f"on-{n}", "0.5", dice.choice("abc")), f"h1-{n // 2}"))
    names = [f"claim-{n}" for n in range(6)]
    dice.shuffle(names)
    claims = [
        dice.choice([session, job])(name, dice.choice(["0.5", "1"]), dice.choice("abc"), submitted=float(n))
        for n, name in enumerate(names)
    ]
    return books(*there, *claims, per_host=dice.choice([2, 3]), quotas={"a": "1", "b": dice.choice("01"), "c": "2"})


def test_one_after_the_other_decide_as_if_each_were_the_first() -> None:
    """Unrelated books in turn, in which the same ids are other leases: a replay beside a broker, or two replays."""
    worlds = [some_books(seed) for seed in range(30)]
    alone = [decide_afresh(each) for each in worlds]
    order = [n for n in range(30) for _ in range(3)]
    random.Random(1).shuffle(order)  # noqa: S311  # a seed repeats it
    for n in order:
        assert decide(worlds[n]) == alone[n]


def test_an_id_that_was_submitted_at_another_time() -> None:
    """A ledger of yesterday may know a claim under the same id, and its place in line is that of these books."""
    early, late = job("twin", "1", submitted=1.0), job("twin", "1", submitted=9.0)
    other = job("other", "1", submitted=5.0)
    for _ in range(3):
        assert line(books(early, other)) == ["twin", "other"]
        assert line(books(late, other)) == ["other", "twin"]


def broken(snapshot: Snapshot, part: str) -> Snapshot:
    """Books that contradict themselves, as only a mistake could make them."""
    if part == "waiting":
        leases = {key: each for key, each in snapshot.leases.items() if key != "claim-3"}
        return replace(snapshot, leases=leases)
    if part == "jobs":
        leases = {key: each for key, each in snapshot.leases.items() if not key.startswith("on-")}
        return replace(snapshot, leases=leases)
    return replace(snapshot, pools=dict.fromkeys(snapshot.pools, ""))  # type: ignore[arg-type]


@pytest.fixture(name="_fresh", autouse=True)
def _fresh_thread_switches() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("part", ["waiting", "jobs", "pools"])
@pytest.mark.parametrize("seed", range(8))
def test_a_failure_is_forgotten(part: str, seed: int) -> None:
    """A decision that fails half-way leaves nothing behind that the next one would take for its own."""
    before, wrong, after = some_books(seed), broken(some_books(seed + 100), part), some_books(seed + 200)
    expected = decide_afresh(after)
    decide(before)
    with pytest.raises((KeyError, AttributeError)):
        decide(wrong)
    assert decide(after) == expected


def test_two_threads_do_not_disturb_each_other() -> None:
    """A broker and a replay, or two brokers of a test, in one process."""
    worlds = [some_books(seed) for seed in range(12)]
    alone = [decide_afresh(each) for each in worlds]

    def work(start: int) -> bool:
        return all(decide(worlds[n % 12]) == alone[n % 12] for n in range(start, start + 120))

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(work, (0, 5, 9)))
