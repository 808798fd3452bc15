"""Preflight: every row of the table by itself, their order, and that nothing wrong is ever parkable."""

from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.parking.checkpoint import CheckpointDriver
from jupyter_gpushare.parking.conditions import CONDITIONS
from jupyter_gpushare.parking.facts import Facts, Outside, Settings, Work
from jupyter_gpushare.parking.preflight import first_look, preflight
from jupyter_gpushare.parking.preflight_page import page
from jupyter_gpushare.parking.verdict import NotParkable, Parkable
from tests.parking.healthy import HEALTHY, MEMORY, WRONG, both, driver, part, process, whole

CODES = list(dict.fromkeys(condition.code for condition in CONDITIONS))


def refusal(facts: Facts) -> NotParkable:
    """The refusal that *facts* must get."""
    verdict = preflight(facts)
    assert isinstance(verdict, NotParkable)
    return verdict


def test_a_healthy_kernel_is_parkable() -> None:
    """Where nothing is wrong a kernel is parkable, with its size and the seconds expected."""
    assert preflight(HEALTHY) == Parkable(MEMORY, 0.25 + MEMORY / 4e9, 0.25 + MEMORY / 7e9)


@pytest.mark.parametrize(("code", "change"), WRONG.values(), ids=WRONG)
def test_one_wrong_fact_gives_exactly_its_code(code: str, change: object) -> None:
    """Each condition by itself refuses with its own constant code, in whole sentences, with a remedy."""
    assert callable(change)
    verdict = refusal(change(HEALTHY))
    assert verdict.reason.code == code
    assert verdict.remedy.code == f"{code}_REMEDY"
    assert verdict.reason.text.endswith(".")
    assert verdict.remedy.text.endswith(".")
    assert "{" not in verdict.reason.text + verdict.remedy.text


def test_every_row_has_a_case() -> None:
    """No condition is in the table without a test of it."""
    assert {code for code, _ in WRONG.values()} == set(CODES)


@given(st.sets(st.sampled_from(sorted(WRONG)), min_size=1))
def test_nothing_wrong_is_ever_parkable(names: set[str]) -> None:
    """Whatever is wrong together, the kernel is refused."""
    facts = HEALTHY
    for name in sorted(names):
        facts = WRONG[name][1](facts)
    assert isinstance(preflight(facts), NotParkable)


@pytest.mark.parametrize("index", range(len(CODES) - 1))
def test_the_most_fundamental_condition_is_the_answer(index: int) -> None:
    """Of two conditions that hold at once the one that stands first in the table is given."""
    first, second = CODES[index : index + 2]
    changes = dict(reversed(WRONG.values()))
    facts = both(changes[second], changes[first])(HEALTHY)
    assert refusal(facts).reason.code == first


def test_the_same_facts_give_the_same_verdict() -> None:
    """The verdict depends on nothing but the facts."""
    facts = both(WRONG["a cell"][1], WRONG["MPS"][1], WRONG["foreign processes"][1])(HEALTHY)
    assert len({preflight(facts).reason.text for _ in range(20)}) == 1  # type: ignore[union-attr]


def test_the_second_process_counts_too() -> None:
    """All processes of a kernel go together, so one of them that cannot be parked refuses all."""
    facts = both(lambda facts: replace(facts, processes=facts.processes * 2), process(state="T"))(HEALTHY)
    assert refusal(facts).reason.code == "STOPPED"


@pytest.mark.parametrize(
    ("change", "allowed", "caution"),
    [
        ("foreign processes", {"allow_foreign": True}, "FOREIGN_PROCESSES_ALLOWED"),
        ("a thread", {"allow_background_work": True}, "BACKGROUND_WORK_ALLOWED"),
        ("another provisioner", {"allow_other_provisioners": True}, "FOREIGN_PROVISIONER_ALLOWED"),
        ("another kernel", {"allow_other_kernels": True}, "NOT_IPYKERNEL_ALLOWED"),
    ],
)
def test_what_was_allowed_is_parkable_with_a_caution(change: str, allowed: dict[str, bool], caution: str) -> None:
    """A permission makes its own condition parkable, says what is not guaranteed, and permits nothing else."""
    facts = both(WRONG[change][1], part("settings", **allowed))(HEALTHY)
    verdict = preflight(facts)
    assert isinstance(verdict, Parkable)
    assert verdict.caution is not None
    assert verdict.caution.code == caution
    assert "{" not in verdict.caution.text
    others = [name for name, (code, _) in WRONG.items() if code not in {WRONG[change][0], "BACKGROUND_UNKNOWN"}]
    for name in others:
        if WRONG[name][0] == "NO_KERNEL_PART" and caution == "NOT_IPYKERNEL_ALLOWED":
            continue  # there is no part of ours for other kernels
        assert isinstance(preflight(WRONG[name][1](facts)), NotParkable), name


def test_another_kernel_that_is_allowed_needs_no_part_and_no_answer() -> None:
    """Our part exists for ipykernel only: an admin who allows other kernels takes that risk knowingly."""
    facts = both(
        part("kernel", is_ipykernel=False, has_part=False),
        part("settings", allow_other_kernels=True),
        part("background", probe="no_answer"),
    )(HEALTHY)
    assert isinstance(preflight(facts), Parkable)


def test_a_first_look_needs_no_answer_of_the_kernel() -> None:
    """What is shown before anything is pressed comes without a question to the kernel, and is no yes to parking."""
    facts = part("background", probe="not_asked")(HEALTHY)
    assert isinstance(first_look(facts), Parkable)
    assert isinstance(preflight(facts), NotParkable)


@pytest.mark.parametrize("state", ["S", "R", "D", "I"])
def test_a_process_that_merely_waits_is_parkable(state: str) -> None:
    """Sleeping, running and waiting for a disk are the healthy states of a process."""
    assert isinstance(preflight(process(state=state)(HEALTHY)), Parkable)


@pytest.mark.parametrize(
    "change",
    [
        both(driver(version="580.178"), process(threads=("pt_nccl_watchdg",))),
        both(driver(version="611.10"), process(features=frozenset({"ipc"}))),
        both(driver(version="580.95"), part("background", frameworks=frozenset({"torch"}))),
        driver(vendor="simulated", version="simulated"),
        process(uvm_mappings=1),
        process(features=frozenset({"torch_shared"})),
        process(cgroup_headroom=None),
        part("host", available=None, budget_left=None),
        part("settings", mode="observe"),
        part("background", cpu_s=None),
        part("background", cpu_s=4.9, window_s=600),
        both(driver(vendor="simulated", version="simulated"), part("host", architecture="aarch64")),
    ],
)
def test_what_is_no_obstacle_is_not_refused(change: object) -> None:
    """NCCL and IPC on drivers that can, one mapping of the driver's file, and the like do not stand in the way."""
    assert callable(change)
    assert isinstance(preflight(change(HEALTHY)), Parkable)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (process(cgroup_headroom=(4 << 30) + (256 << 20)), "the kernel's memory limit leaves 4.3 GB: 4.3 GB"),
        (part("host", budget_left=6 << 30), "this host's parking budget leaves 6.4 GB: 2.1 GB"),
        (part("host", available=5 << 30), "this host has 4.3 GB left: 4.3 GB"),
    ],
)
def test_missing_host_memory_says_where_and_how_much(change: object, sentence: str) -> None:
    """The refusal names which bound is short, what it leaves and what is missing."""
    assert callable(change)
    assert sentence in refusal(change(HEALTHY)).reason.text


def test_background_work_is_named() -> None:
    """The owner learns which thread stands in the way, and a flood of them stays one sentence."""
    work = tuple(Work("thread", f"worker-{number}", "__main__") for number in range(30))
    text = refusal(part("background", work=work)(HEALTHY)).reason.text
    assert "thread worker-0 of __main__" in text
    assert "27 more" in text
    assert len(text) < 250


def test_gpu_outside_kernels_is_named() -> None:
    """The terminal that holds the GPU is named, so that it can be found."""
    text = refusal(whole(outside=(Outside("terminal", "3", 77), Outside("process", "x", 78)))(HEALTHY)).reason.text
    assert "terminal 3 (process 77) and 1 more" in text


@given(st.text(max_size=300))
def test_names_of_programs_never_reach_people_raw(name: str) -> None:
    """A program's name may hold anything: the sentence stays one line, bounded and without control characters."""
    verdict = refusal(both(process(name=name, state="T"))(HEALTHY))
    assert verdict.reason.text.isprintable()
    assert len(verdict.reason.text) < 300


@given(version=st.text(alphabet=string.digits + ".", max_size=12))
def test_any_version_of_a_driver_is_judged(version: str) -> None:
    """No version text makes preflight fail; one that cannot be read is never trusted."""
    verdict = preflight(replace(HEALTHY, driver=CheckpointDriver("nvidia", version)))
    if isinstance(verdict, Parkable):
        assert int(version.partition(".")[0]) >= 570


def test_the_documentation_shows_this_table() -> None:
    """docs/preflight.md is the table as it is in the code: python -m jupyter_gpushare.parking.preflight_page."""
    documented = Path(__file__).parents[2] / "docs" / "preflight.md"
    assert documented.read_text() == page()


def test_the_permissions_are_settings() -> None:
    """A permission that no setting gives would never be given."""
    names = {condition.permission.setting for condition in CONDITIONS if condition.permission}
    assert names == {name for name in Settings.__slots__ if name.startswith("allow_")}
