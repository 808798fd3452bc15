"""From evidence to judgement: the whole table, and what must never happen whatever the evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.session.idle.evidence import IN_USE, UNREADABLE, Activity, Evidence, Signal
from jupyter_gpushare.session.idle.policy import Active, BusyButQuiet, FixedTimeout, Idle, Judgement, Kept
from jupyter_gpushare.session.idle.table import ROWS, markdown
from jupyter_gpushare.session.wire import PolicyModel

NOW = 10_000.0
POLICY = PolicyModel(600.0, "configuration")
BACKGROUND = PolicyModel(600.0, "owner", allow_background_work=True)
NEVER = PolicyModel(None, "notebook")
QUIET = Evidence(cell_ended=9_000.0, cpu=Signal(9_001.0), utilisation=Signal(9_002.0), memory=1 << 30)
JUDGE = FixedTimeout(warning_s=300, busy_quiet_s=900).judge

MATRIX: list[tuple[str, dict[str, Any], PolicyModel, Judgement]] = [
    ("all is quiet", {}, POLICY, Idle(9_002.0, 9_602.0, 9_302.0)),
    ("the cell ended last", {"cell_ended": 9_500.0}, POLICY, Idle(9_500.0, 10_100.0, 9_800.0)),
    ("the CPU rested last", {"cpu": Signal(9_700.0)}, POLICY, Idle(9_700.0, 10_300.0, 10_000.0)),
    ("the GPU rested last", {"utilisation": Signal(9_800.0)}, POLICY, Idle(9_800.0, 10_400.0, 10_100.0)),
    ("it is never parked by itself", {}, NEVER, Idle(9_002.0)),
    ("a timeout shorter than the warning", {}, PolicyModel(60.0, "owner"), Idle(9_002.0, 9_062.0, 9_002.0)),
    ("a cell runs", {"cell_began": 9_990.0, "utilisation": IN_USE}, POLICY, Active(Activity.CELL_RUNNING)),
    ("its GPU just fell quiet", {"cell_began": 5_000.0}, POLICY, BusyButQuiet(9_002.0)),
    ("a cell waits for input", {"cell_began": 9_100.0}, POLICY, BusyButQuiet(9_100.0)),
    ("not for long enough", {"cell_began": 9_100.1}, POLICY, Active(Activity.CELL_RUNNING)),
    ("a cell runs and computes", {"cell_began": 1.0, "utilisation": IN_USE}, POLICY, Active(Activity.CELL_RUNNING)),
    ("a cell runs, unread", {"cell_began": 1.0, "utilisation": UNREADABLE}, POLICY, Active(Activity.CELL_RUNNING)),
    ("a comm is handled", {"execution_state": "busy"}, POLICY, Active(Activity.KERNEL_BUSY)),
    ("it starts anew", {"execution_state": "restarting"}, POLICY, Active(Activity.KERNEL_BUSY)),
    ("a message waits", {"held": 1}, POLICY, Active(Activity.MESSAGES_HELD)),
    ("a thread computes", {"cpu": IN_USE}, POLICY, Active(Activity.CPU_IN_USE)),
    ("a thread computes, as allowed", {"cpu": IN_USE}, BACKGROUND, Idle(9_002.0, 9_602.0, 9_302.0)),
    ("no /proc", {"cpu": UNREADABLE}, POLICY, Active(Activity.CPU_UNREADABLE)),
    ("no /proc, but allowed", {"cpu": UNREADABLE}, BACKGROUND, Idle(9_002.0, 9_602.0, 9_302.0)),
    ("the GPU computes", {"utilisation": IN_USE}, POLICY, Active(Activity.GPU_IN_USE)),
    ("it computes, background allowed", {"utilisation": IN_USE}, BACKGROUND, Active(Activity.GPU_IN_USE)),
    ("nothing of the GPU can be read", {"utilisation": UNREADABLE}, POLICY, Active(Activity.GPU_UNREADABLE)),
    (
        "a silent device speaks for all on it",
        {"utilisation": UNREADABLE, "device": Signal(9_400.0), "allocations": Signal(9_900.0)},
        POLICY,
        Idle(9_400.0, 10_000.0, 9_700.0),
    ),
    (
        "counters take the place of utilisation",
        {"utilisation": UNREADABLE, "allocations": Signal(9_450.0)},
        POLICY,
        Idle(9_450.0, 10_050.0, 9_750.0),
    ),
    ("counters do not outweigh it", {"utilisation": IN_USE, "allocations": Signal(1.0)}, POLICY, Active(Activity.GPU_IN_USE)),
    ("kept", {"kept_until": NOW + 1}, POLICY, Kept(NOW + 1)),
    ("kept no longer", {"kept_until": NOW}, POLICY, Idle(9_002.0, 9_602.0, 9_302.0)),
    ("kept and used", {"kept_until": NOW + 1, "cpu": IN_USE}, POLICY, Active(Activity.CPU_IN_USE)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "policy", "judgement"), MATRIX, ids=[row[0] for row in MATRIX])
def test_evidence_is_judged_as_the_table_says(
    name: str, change: dict[str, Any], policy: PolicyModel, judgement: Judgement
) -> None:
    """Each row of the table vetoes for its own evidence, in its order, and nothing else does."""
    assert JUDGE(replace(QUIET, **change), policy, NOW) == judgement


def test_the_matrix_knows_every_row_of_the_table() -> None:
    """A new veto without a case here fails."""
    seen = {judged.why for *_, judged in MATRIX if isinstance(judged, Active)} | {Activity.KEPT}
    assert seen == set(Activity) == {row.activity for row in ROWS}


times = st.floats(0, NOW)
signals = st.one_of(st.just(IN_USE), st.just(UNREADABLE), st.builds(Signal, times))
evidences = st.builds(
    Evidence,
    cell_ended=times,
    cell_began=st.none() | times,
    execution_state=st.sampled_from(["idle", "idle", "busy", "starting", "unknown"]),
    held=st.sampled_from([0, 0, 1, 7]),
    cpu=signals,
    utilisation=signals,
    device=st.just(UNREADABLE) | st.builds(Signal, times),
    allocations=st.just(UNREADABLE) | st.builds(Signal, times),
    kept_until=st.none() | st.floats(0, 2 * NOW),
)
policies = st.builds(
    PolicyModel, st.none() | st.floats(1, 7 * 86400), st.just("owner"), st.booleans(), st.booleans()
)  # fmt: skip


@given(evidences, policies, st.floats(0, 600), st.floats(0, 900))
def test_nothing_is_parked_against_the_evidence(
    evidence: Evidence, policy: PolicyModel, warning_s: float, busy_quiet_s: float
) -> None:
    """Whatever the evidence: never with a cell, a held message, a lock, CPU or GPU in use or unreadable, or too early."""
    judged = FixedTimeout(warning_s, busy_quiet_s).judge(evidence, policy, NOW)
    if not isinstance(judged, Idle) or judged.parks_at is None:
        return
    assert evidence.cell_began is None
    assert evidence.held == 0
    assert evidence.kept_until is None or evidence.kept_until <= NOW
    assert policy.allow_background_work or evidence.cpu.quiet_since is not None
    assert evidence.gpu.quiet_since is not None
    assert policy.idle_timeout_s is not None
    assert judged.parks_at >= max(evidence.cell_ended, evidence.gpu.quiet_since) + policy.idle_timeout_s
    assert judged.warns_at is not None
    assert judged.since <= judged.warns_at <= judged.parks_at


@given(evidences, policies)
def test_a_running_cell_is_never_idle(evidence: Evidence, policy: PolicyModel) -> None:
    """A busy kernel, its GPU as quiet as it may be, is told of and not parked."""
    judged = JUDGE(replace(evidence, cell_began=1.0), policy, NOW)
    assert isinstance(judged, Active | BusyButQuiet)


def test_the_documented_table_is_the_one_that_judges() -> None:
    """`docs/idle.md` holds the table as the code makes it."""
    document = Path(__file__).parents[3] / "docs" / "idle.md"
    assert markdown() in document.read_text()
