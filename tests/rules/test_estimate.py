"""Estimates against what then happens, played with the rules themselves."""

from __future__ import annotations

import heapq
import random
from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.estimate import Pace, estimates
from jupyter_gpushare.rules.event import Attested, Running, TimePassed, Wanted
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.step import step
from tests.rules.builders import NOW, books, job, on_loan, parked, session

if TYPE_CHECKING:
    from jupyter_gpushare.rules.snapshot import Snapshot

SPEED, SAVE_S = 5e9, 4.0
PACE = Pace(copy=SPEED, save_s=SAVE_S, answer_s=0.1)


def monday(*, hosts: int, per_host: int, sessions: int, seed: int) -> Snapshot:
    """Sessions parked on every device, everything lent to jobs, every other of which can park."""
    choose = random.Random(seed)  # noqa: S311  # a seed repeats it
    leases: list[Lease] = []
    for number in range(sessions):
        uuid = f"h{number % hosts + 1}-{number // hosts % per_host}"
        size = Memory(choose.randint(1, 12) * 10**9)
        leases.append(parked(session(f"s{number}", "0.2"), uuid, host_memory=size, since=float(number)))
        borrower = job(f"j{number}", "0.2", is_parkable=bool(number % 2), grace_s=30.0)
        leases.append(on_loan(borrower, (f"s{number}", uuid, "0.2")))
    changes = {"copies": 2, "saves": 4}
    return books(*leases, hosts=hosts, per_host=per_host, host_changes=changes)


def takes_s(lease: Lease) -> float:
    """How long the holders of this world take for what they are asked."""
    if lease.status is Status.YIELDING:
        return SAVE_S + 0.1
    return lease.host_memory.bytes / SPEED + 0.1


def play(snapshot: Snapshot, keys: list[str]) -> tuple[dict[str, float], dict[str, float], int, int]:
    """All of *keys* are wanted at once: what was estimated, what it took, and the most copies and saves on a host."""
    now, asked = NOW, [Wanted(key, Target.RUNNING) for key in keys]
    done = step(snapshot, asked, now)
    said = dict(estimates(done.snapshot, now, dict.fromkeys(snapshot.hosts, PACE)))
    took: dict[str, float] = {}
    ends: list[tuple[float, str, Running | Attested]] = []
    running: set[tuple[str, int, Status]] = set()
    most = [0, 0]
    while len(took) < len(keys):
        for lease in done.snapshot.leases.values():
            what = (lease.id, lease.epoch, lease.status)
            if lease.deadline is not None and what not in running:
                running.add(what)
                says = Running if lease.status is Status.RESUMING else Attested
                heapq.heappush(ends, (now + takes_s(lease), lease.id, says(lease.id, lease.epoch)))
        most = [max(each) for each in zip(most, _most_at_once(done.snapshot), strict=True)]
        now, key, event = heapq.heappop(ends)
        done = step(done.snapshot, [event, TimePassed()], now)
        if isinstance(event, Running):
            took[key] = now - NOW
    return said, took, most[0], most[1]


def _most_at_once(snapshot: Snapshot) -> tuple[int, int]:
    copies: dict[str, int] = dict.fromkeys(snapshot.hosts, 0)
    saves: dict[str, int] = dict.fromkeys(snapshot.hosts, 0)
    for key in snapshot.unsettled:
        lease = snapshot.leases[key]
        host = snapshot.devices[lease.devices[0]].host
        copies[host] += lease.status in (Status.PARKING, Status.RESUMING)
        saves[host] += lease.status is Status.YIELDING
    return max(copies.values()), max(saves.values())


def test_everybody_comes_back_at_nine_and_is_told_how_long_it_takes() -> None:
    """Sixty sessions on twelve devices, everything lent: nine in ten estimates are within 30 %, and limits hold."""
    snapshot = monday(hosts=3, per_host=4, sessions=60, seed=9)
    keys = [f"s{number}" for number in range(60)]
    said, took, copies, saves = play(snapshot, keys)
    assert set(took) == set(keys) == set(said)
    good = [key for key in keys if abs(said[key] - took[key]) <= 0.3 * took[key]]
    assert len(good) >= 0.9 * len(keys)
    assert (copies, saves) == (2, 4)


def test_one_alone_waits_for_its_own_copy() -> None:
    """Its size over the pace of its host."""
    snapshot = books(parked(session("s"), "h1-0", host_memory=Memory(10**10)))
    done = step(snapshot, [Wanted("s", Target.RUNNING)], NOW)
    assert estimates(done.snapshot, NOW, {"h1": Pace(copy=2e9)}) == {"s": 5.0}
    assert estimates(done.snapshot, NOW + 2, {"h1": Pace(copy=2e9)}) == {"s": 3.0}


def test_what_nobody_can_know_is_left_out() -> None:
    """A claim that waits until some job ends has no estimate."""
    snapshot = books(on_loan(job("j", "1")), job("waits", "1"), parked(session("s"), "h1-0"))
    assert estimates(snapshot, NOW) == {}
