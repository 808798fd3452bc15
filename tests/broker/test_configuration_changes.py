"""Before a file is put in force it is told what it changes, and whom it leaves with more than they may have."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.broker.configuration_changes import Plan, diff
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.lease import Grant, Kind, Lease, Status
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.snapshot import Snapshot
from tests.broker.ledger.books import HALF, a_lease

BEFORE = """
[projects.team-a]
quota = 2
[pools.default]
"""


def session(lease_id: str, device: str = "GPU-1", **changes: Any) -> Lease:
    """A notebook of ana's with half of a GPU."""
    return a_lease(lease_id, **{"status": Status.RUNNING, "grants": (Grant(device, HALF),), **changes})


def books(*leases: Lease) -> Snapshot:
    """What BEFORE stands for, on one host with two devices."""
    return Snapshot.of(
        projects=[Project("team-a", Fraction(2_000_000))],
        pools=[Pool("default")],
        hosts=[Host("gpu-1", Memory.parse("64GiB"))],
        devices=[GpuDevice(f"GPU-{n}", "gpu-1", "a100", "default", Memory(1 << 34)) for n in (1, 2)],
        leases=leases,
    )


def plan(text: str, *leases: Lease) -> Plan:
    """What *text* would change."""
    return diff(books(*leases), Configuration.parse(text))


def test_the_same_again_changes_nothing() -> None:
    """Applying a file twice is no change, and nobody is warned of anything."""
    assert plan(BEFORE, session("one")) == Plan((), ())


def test_changes_are_told_line_by_line() -> None:
    """Each line names what is new, removed or other, with before and after as the file writes it."""
    after = """
        [projects.team-b]
        quota = 0.5
        members = ["bo"]
        [pools.default]
        idle_timeout = "5m"
        [pools.fast]
        devices = [{ uuid = "GPU-2" }]
        [hosts.gpu-1]
        parking_budget = "32GiB"
        copies = 4
    """
    found = plan(after).changes
    assert found[0] == "project team-a is removed"
    assert found[1] == "project team-b is new: quota 0.5, limit unlimited, person_limit unlimited, members bo"
    assert found[2] == "pool default: idle_timeout 600 s → 300 s"
    assert found[3].startswith("pool fast is new: parking park, isolation caps")
    assert found[4] == "host gpu-1: parking_budget 68.7 GB → 34.4 GB, copies 2 → 4"
    assert found[5:] == ("device GPU-2 on gpu-1: pool default → fast",)


@pytest.mark.parametrize(
    ("text", "leases", "warning"),
    [
        (
            BEFORE.replace("2", "0.5"),
            [session("a"), session("b")],
            "its notebooks have 1 GPU and its quota becomes 0.5",
        ),
        (BEFORE.replace("2", "0\nlimit = 0"), [session("a", kind=Kind.TRAINING)], "0.5 GPU and its limit becomes 0"),
        (BEFORE.replace("2", "2\nperson_limit = 0.2"), [session("a")], "notebooks of ana have 0.5 GPU"),
        (BEFORE.replace("2", '2\nmembers = ["bo"]'), [session("a")], "ana have leases and are no members"),
        (
            BEFORE.replace("team-a", "other"),
            [session("a")],
            "Project team-a is removed with 1 lease: what runs goes on",
        ),
        (BEFORE.replace("2", "3"), [], "The quotas are 3 GPU together, and there are 2"),
        (BEFORE + 'devices = [{ uuid = "GPU-2" }]', [session("a")], "GPU-1 leaves all pools with 1 lease on it"),
        (
            BEFORE,
            [session(str(n)) for n in range(3)],
            "1.5 GPU of it is promised to notebooks, and pool default allows 1",
        ),
        (
            BEFORE + '[hosts.gpu-1]\nparking_budget = "1GiB"',
            [session("a", status=Status.PARKED, host_memory=Memory(2 << 30))],
            "parked state takes 2.1 GB and its budget becomes 1.1 GB. Nothing of it is lost",
        ),
    ],
)
def test_what_it_would_over_commit_is_told(text: str, leases: list[Lease], warning: str) -> None:
    """Nothing is taken from what runs; the admin hears who then has more than the file allows."""
    (line,) = plan(text, *leases).warnings
    assert warning in line


def test_a_loss_that_is_turned_on_is_said() -> None:
    """Nobody turns on by a copied line that jobs are ended by force, and hears nothing of it."""
    found = plan(BEFORE + '[broker]\nlosses = ["job_stopped_after_grace"]\n')
    assert found.warnings == ("broker losses: job_stopped_after_grace is on: what it ends is lost",)
