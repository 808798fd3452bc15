"""Books to keep: a little of everything, and changes drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.lease import Grant, Hold, Kind, Lease, Loan, Status, Target
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from random import Random

    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["EVERYTHING", "a_lease", "keep", "random_change"]

HALF = Fraction.parse("0.5")
_SHARES = ("0.5", "0.25..0.8", "2x0.5", "16GiB", "8GiB..24GiB", "1", "4", "0.5@a100")


def a_lease(lease_id: str = "lease-1", **changes: Any) -> Lease:
    """A waiting session."""
    plain = Lease(
        id=lease_id,
        kind=Kind.INTERACTIVE,
        project="team-a",
        person="ana",
        name="notebook",
        share=Share.parse("0.5"),
        submitted=100.0,
        since=100.5,
    )
    return plain.evolve(**changes)


def keep(*leases: Lease, audit: tuple[Entry, ...] = ()) -> Change:
    """A change of these."""
    return Change(leases={lease.id: lease for lease in leases}, audit=audit)


# Nothing in it has its default, so that whatever is forgotten shows.
EVERYTHING = Change(
    projects={
        "team-a": Project(
            "team-a",
            Fraction.parse("2.5"),
            Fraction.ONE,
            Fraction(8_000_000),
            HALF,
            frozenset({"ana"}),
            owners=frozenset({"cy", "@leads"}),
            joined=frozenset({"ana", "dee"}),
            added=frozenset({"eve"}),
            limits={"eve": Fraction(1_500_000), "cy": Fraction.UNLIMITED},
            set_quota=Fraction.parse("2.5"),
        ),
        "team-b": Project("team-b", Fraction.UNLIMITED, members=frozenset({"bo", "çelik", "李"})),
    },
    pools={
        "class": Pool(
            "class",
            "observe",
            "mps",
            "best-effort",
            Fraction(5_000_000),
            "spread",
            consolidation=True,
            minimum_turn_s=1.5,
            backoff_s=2.5,
            grace_s=3.5,
            lend_at_least_s=4.5,
            idle_timeout_s=5.5,
        )
    },
    hosts={"gpu-1": Host("gpu-1", Memory(1 << 40), 3, 5, "draining"), "gpu-2": Host("gpu-2")},
    devices={
        "GPU-1": GpuDevice(
            "GPU-1", "gpu-1", "a100", "class", Memory(1 << 36), Fraction(1), trespassed=True, condition="gone"
        ),
        "GPU-2": GpuDevice("GPU-2", "gpu-1", "a100", "class", Memory(1 << 36)),
    },
    leases={
        "job": a_lease(
            "job",
            kind=Kind.TRAINING,
            key="holder-1",
            share=Share.parse("2x0.25..0.8@a100"),
            pool="class",
            status=Status.MISSING,
            target=Target.ENDED,
            epoch=7,
            grants=(Grant("GPU-2", HALF), Grant("GPU-1", HALF)),
            loans=(Loan("other", "GPU-2", HALF), Loan("third", "GPU-1", Fraction(1))),
            bursts=(Grant("GPU-1", Fraction(3)),),
            burst_loans=(Loan("other", "GPU-1", Fraction(2)),),
            is_parkable=True,
            host_memory=Memory(12345),
            spread_group="sweep",
            grace_s=12.5,
            start_cost_s=3.25,
            turn_began=101.0,
            turns_lost=2,
            most_turns_lost=9,
            not_before=150.0,
            reason=Reason.CALLED_BACK,
            because_of="other",
            deadline=160.0,
            was=Status.YIELDING,
            wanted_since=102.0,
            idle_since=103.0,
            hold=Hold(170.0, is_starting=True),
        ),
        "plain": a_lease("plain"),
    },
    is_parking_stopped=True,
    audit=(
        Entry(
            100.0,
            Verb.CALLED_BACK,
            "job",
            "team-a",
            "ana",
            ("GPU-2", "GPU-1"),
            Fraction.ONE,
            HALF,
            Reason.CALLED_BACK,
            "other",
            "admin",
            {"note": "über “quoted”"},
        ),
        Entry(101.0, Verb.POLICY_SET),
    ),
)


def random_change(random: Random, now: Snapshot, at: float) -> Change:
    """Some change that rules could have made: leases come, go on and end; devices and projects come and go."""
    leases = dict(_random_lease(random, now, at) for _ in range(random.randint(1, 4)))
    used = {device for lease in now.leases.values() if lease.id not in leases for device in lease.devices}
    leases = _without_conflicts(leases, used)
    entries = tuple(Entry(at, random.choice(list(Verb)), lease.id, lease.project) for lease in leases.values())
    name = f"team-{random.randint(0, 3)}"
    device = f"GPU-{random.randint(0, 5)}"
    project = Project(name, Fraction(random.randint(0, 8) * 500_000), members=frozenset(random.sample("abcd", 2)))
    return Change(
        leases=leases,
        projects={name: random.choice((None, project))} if random.random() < 0.2 else {},
        devices={device: random.choice((None, GpuDevice(device, "host", "a100", "p", Memory(1 << 34))))}
        if random.random() < 0.2
        else {},
        is_parking_stopped=random.choice((None, None, True, False)),
        audit=entries,
    )


def _random_lease(random: Random, now: Snapshot, at: float) -> tuple[str, Lease]:
    name = f"lease-{random.randint(0, 30)}"
    old = now.leases.get(name) or a_lease(
        name, key=random.choice(("", name)), share=Share.parse(random.choice(_SHARES))
    )
    devices = random.sample(range(6), random.randint(0, 2))
    grants = tuple(Grant(f"GPU-{n}", Fraction(random.randint(1, 1_000_000))) for n in devices)
    status = random.choice(list(Status))
    return name, old.evolve(
        status=status,
        target=random.choice(list(Target)),
        since=at,
        epoch=old.epoch + random.randint(0, 1),
        grants=grants,
        loans=tuple(Loan("other", grant.device, grant.amount) for grant in grants[: random.randint(0, 2)]),
        bursts=grants[:1] if random.random() < 0.2 else (),
        reason=random.choice((None, *Reason)),
        was=Status.RUNNING if status is Status.MISSING else None,
    )


def _without_conflicts(leases: dict[str, Lease], used: set[str]) -> dict[str, Lease]:
    """Two are never restored on one device: the rules see to it, and the ledger would refuse it."""
    taken = set(used)
    kept = {}
    for name, lease in leases.items():
        is_taken = lease.status is Status.RESUMING and taken & set(lease.devices)
        kept[name] = lease.evolve(status=Status.PARKED) if is_taken else lease
        taken |= set(lease.devices)
    return kept
