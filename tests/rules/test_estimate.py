"""Estimates against what then happens, played with the rules themselves."""

from __future__ import annotations

import heapq
import random
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.estimate import estimates
from jupyter_gpushare.rules.event import Attested, Running, TimePassed, Wanted
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.pace import Leaving, Pace, Paces
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.step import step
from tests.rules.builders import NOW, books, device, gpus, job, on_loan, parked, running, session

if TYPE_CHECKING:
    from jupyter_gpushare.rules.snapshot import Snapshot

OUT, BACK, FIXED_S, SAVE_S, SAFE_POINT_S = 4e9, 6e9, 0.1, 4.1, 1.0
PACES = Paces(usual=Pace(OUT, BACK, FIXED_S, FIXED_S), projects={"team-a": Leaving(SAVE_S, SAFE_POINT_S)})


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
        return SAVE_S
    if lease.status is Status.RESUMING:
        return FIXED_S + lease.host_memory.bytes / BACK
    return FIXED_S + lease.host_memory.bytes / OUT + (0.0 if lease.is_session else SAFE_POINT_S)


def play(snapshot: Snapshot, keys: list[str]) -> tuple[dict[str, float], dict[str, float], int, int]:
    """All of *keys* are wanted at once: what was estimated, what it took, and the most copies and saves on a host."""
    now, asked = NOW, [Wanted(key, Target.RUNNING) for key in keys]
    done = step(snapshot, asked, now)
    said = dict(estimates(done.snapshot, now, PACES))
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
    """Sixty sessions on twelve devices, everything lent: with durations as foretold each waits as long as it was told."""
    snapshot = monday(hosts=3, per_host=4, sessions=60, seed=9)
    keys = [f"s{number}" for number in range(60)]
    said, took, copies, saves = play(snapshot, keys)
    assert set(took) == set(keys) == set(said)
    assert said == pytest.approx(took)
    assert (copies, saves) == (2, 4)


def back_at(snapshot: Snapshot, *keys: str, paces: Paces = PACES) -> dict[str, float]:
    """What is estimated as soon as *keys* are wanted."""
    done = step(snapshot, [Wanted(key, Target.RUNNING) for key in keys], NOW)
    return dict(estimates(done.snapshot, NOW, paces))


def test_one_alone_waits_for_its_own_copy() -> None:
    """Its size over the pace of its host; what has passed of it is off."""
    snapshot = books(parked(session("s"), "h1-0", host_memory=Memory(10**10)))
    done = step(snapshot, [Wanted("s", Target.RUNNING)], NOW)
    paces = Paces({"h1": Pace(1e9, 2e9, 0.0, 0.0)})
    assert estimates(done.snapshot, NOW, paces) == {"s": 5.0}
    assert estimates(done.snapshot, NOW + 2, paces) == {"s": 3.0}


def test_what_nobody_can_know_is_left_out() -> None:
    """A claim that waits until some job ends has no estimate."""
    snapshot = books(on_loan(job("j", "1")), job("waits", "1"), parked(session("s"), "h1-0"))
    assert estimates(snapshot, NOW) == {}


def test_a_job_that_nobody_saw_saving_is_given_its_grace() -> None:
    """Less would be a guess; once seen, its own time comes before that of its project, and the grace is its end."""
    snapshot = books(
        parked(session("s", "1"), "h1-0", host_memory=Memory(6 * 10**9)),
        on_loan(job("j", "1", grace_s=20.0), ("s", "h1-0", "1")),
    )
    usual = PACES.usual
    copy_s = FIXED_S + 1.0
    assert back_at(snapshot, "s", paces=Paces(usual=usual)) == {"s": pytest.approx(20.0 + copy_s)}
    assert back_at(snapshot, "s") == {"s": pytest.approx(SAVE_S + copy_s)}
    own = Paces(usual=usual, jobs={"j": Leaving(9.0)}, projects={"team-a": Leaving(4.0)})
    assert back_at(snapshot, "s", paces=own) == {"s": pytest.approx(9.0 + copy_s)}
    slow = Paces(usual=usual, jobs={"j": Leaving(90.0)})
    assert back_at(snapshot, "s", paces=slow) == {"s": pytest.approx(20.0 + copy_s)}


def test_what_is_really_there_is_copied_and_not_the_whole_share() -> None:
    """What the devices showed of a job is what its copy will take, once that of who came before it is done."""
    snapshot = books(
        parked(session("a", "1"), "h1-0", host_memory=Memory(6 * 10**9)),
        parked(session("b", "1"), "h1-1", host_memory=Memory(6 * 10**9)),
        on_loan(job("j", "1", is_parkable=True), ("b", "h1-1", "1"), uses=Memory(8 * 10**9)),
        per_host=2,
        host_changes={"copies": 1},
    )
    back_s, out_s = FIXED_S + 1.0, SAFE_POINT_S + FIXED_S + 2.0
    assert back_at(snapshot, "a", "b")["b"] == pytest.approx(back_s + out_s + back_s)


def test_a_holder_that_ignores_what_it_is_asked_has_no_end_that_anybody_knows() -> None:
    """Who waits for its device has no estimate; who waits for nothing but its copy has it still."""
    snapshot = books(
        parked(session("s0", "1"), "h1-0", host_memory=Memory(6 * 10**9)),
        parked(session("s1", "1"), "h1-1", host_memory=Memory(6 * 10**9)),
        on_loan(job("deaf", "1"), ("s0", "h1-0", "1")),
        per_host=2,
        host_changes={"copies": 1, "saves": 1},
    )
    done = step(snapshot, [Wanted("s0", Target.RUNNING)], NOW)
    later = NOW + 1000
    done = step(done.snapshot, [Wanted("s1", Target.RUNNING)], later)
    assert done.snapshot.leases["deaf"].status is Status.YIELDING
    assert estimates(done.snapshot, later, PACES) == {"s1": pytest.approx(FIXED_S + 1.0)}


def test_who_is_parking_while_it_is_wanted_back_takes_its_place_in_line() -> None:
    """It parks, and then comes back before who asked later."""
    leaving = running(session("leaving", "1"), "h1-0", host_memory=Memory(4 * 10**9)).enter(
        Status.PARKING, NOW, target=Target.PARKED, deadline=NOW + 60
    )
    snapshot = books(
        leaving,
        parked(session("later", "1"), "h1-1", host_memory=Memory(6 * 10**9)),
        per_host=2,
        host_changes={"copies": 1},
    )
    done = step(snapshot, [Wanted("leaving", Target.RUNNING)], NOW)
    done = step(done.snapshot, [Wanted("later", Target.RUNNING)], NOW + 1)
    assert done.snapshot.leases["leaving"].status is Status.PARKING
    out_s, back_s = FIXED_S + 1.0, FIXED_S + 4 / 6
    assert estimates(done.snapshot, NOW + 1, PACES) == {
        "leaving": pytest.approx(out_s + back_s - 1),
        "later": pytest.approx(out_s + back_s + FIXED_S + 1.0 - 1),
    }


def test_a_borrower_that_is_resuming_leaves_once_it_runs() -> None:
    """A restore is not disturbed: whoever lent the device waits for it, for the way out, and for its own copy."""
    borrower = on_loan(
        job("j", "1", is_parkable=True), ("s", "h1-0", "1"), host_memory=Memory(6 * 10**9), uses=Memory(6 * 10**9)
    )
    snapshot = books(
        parked(session("s", "1"), "h1-0", host_memory=Memory(6 * 10**9)),
        borrower.enter(Status.RESUMING, NOW, deadline=NOW + 60),
    )
    back_s, out_s = FIXED_S + 1.0, SAFE_POINT_S + FIXED_S + 1.5
    assert back_at(snapshot, "s")["s"] == pytest.approx(back_s + out_s + back_s)


def test_a_turn_under_best_effort_is_waited_for() -> None:
    """Its borrower is called at the end of its minimum turn, and not before."""
    snapshot = books(
        parked(session("s", "1"), "h1-0", host_memory=Memory(6 * 10**9)),
        on_loan(job("j", "1"), ("s", "h1-0", "1"), turn_began=NOW - 50),
        resume="best-effort",
        minimum_turn_s=120.0,
    )
    assert back_at(snapshot, "s") == {"s": pytest.approx(70.0 + SAVE_S + FIXED_S + 1.0)}


def test_who_backs_off_after_a_restore_that_failed_comes_later() -> None:
    """Until then it is not tried, whatever is free."""
    snapshot = books(parked(session("s"), "h1-0", host_memory=Memory(6 * 10**9), not_before=NOW + 10))
    done = step(snapshot, [Wanted("s", Target.RUNNING)], NOW)
    assert done.snapshot.leases["s"].reason is Reason.WAITING_FOR_BACK_OFF
    assert estimates(done.snapshot, NOW, PACES) == {"s": pytest.approx(10.0 + FIXED_S + 1.0)}


def test_where_a_stranger_took_the_room_nobody_knows() -> None:
    """Foreign memory ends when it ends."""
    snapshot = books(parked(session("s", "0.8"), "h1-0"), devices=[device("h1-0", foreign=gpus("0.5"))])
    assert back_at(snapshot, "s") == {}


def test_a_claim_is_told_when_those_that_leave_for_it_have_left() -> None:
    """A session inside its quota reclaims an over-quota job, and waits for its save."""
    snapshot = books(running(job("over", "1", "team-b"), "h1-0"), quotas={"team-a": "1", "team-b": "0"})
    done = step(snapshot.with_change(Change(leases={"new": session("new", "1")})), [TimePassed()], NOW)
    paces = Paces(projects={"team-b": Leaving(SAVE_S)})
    assert estimates(done.snapshot, NOW, paces) == {"new": pytest.approx(SAVE_S)}
