"""Which drivers passed: kept by host and version, and a trial that hung the host counts as failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.parking.qualification import Qualifications, host_id, is_qualified
from jupyter_gpushare.parking.self_test import Outcome, TrialCode

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "580.95.05"
ALL: tuple[TrialCode, ...] = ("SELF_TEST", "KILL_AFTER_RESUME", "FREEZE", "BACKGROUND_SYNCHRONISE")


def passed(code: TrialCode, *, well: bool = True) -> Outcome:
    """How a trial went."""
    return Outcome(code, passed=well, found="seen")


def qualify(data: Path) -> Qualifications:
    """Every trial passed, on this host."""
    found = Qualifications.of_user(data)
    for code in ALL:
        found.record(VERSION, passed(code))
    return found


def test_a_driver_that_passed_everything_is_qualified(tmp_path: Path) -> None:
    """After every trial passed the server may park by itself with this driver, and with no other."""
    assert not is_qualified(VERSION, tmp_path)
    found = qualify(tmp_path)
    assert is_qualified(VERSION, tmp_path)
    assert not is_qualified("580.95.06", tmp_path)
    assert not is_qualified("", tmp_path)
    assert found.outcomes(VERSION)["FREEZE"] == passed("FREEZE")


@pytest.mark.parametrize("code", ["SELF_TEST", "KILL_AFTER_RESUME", "BACKGROUND_SYNCHRONISE"])
def test_one_failure_ends_the_qualification(tmp_path: Path, code: TrialCode) -> None:
    """A trial that fails later takes the qualification away, until it passes again."""
    found = qualify(tmp_path)
    found.record(VERSION, passed(code, well=False))
    assert not is_qualified(VERSION, tmp_path)
    found.record(VERSION, passed(code))
    assert is_qualified(VERSION, tmp_path)


def test_freezing_is_allowed_by_its_own_trial_alone(tmp_path: Path) -> None:
    """Freezing is an extra: where it fails parking stays qualified, and nothing is frozen."""
    found = qualify(tmp_path)
    assert found.may_freeze(VERSION)
    found.record(VERSION, passed("FREEZE", well=False))
    assert is_qualified(VERSION, tmp_path)
    assert not found.may_freeze(VERSION)


def test_a_trial_that_never_ended_counts_as_failed(tmp_path: Path) -> None:
    """If the host hung in the middle, what was begun stands as failed when somebody looks again."""
    qualify(tmp_path).begin(VERSION, "KILL_AFTER_RESUME")
    assert not is_qualified(VERSION, tmp_path)
    assert "hang" in Qualifications.of_user(tmp_path).outcomes(VERSION)["KILL_AFTER_RESUME"].found


def test_another_host_is_another_matter(tmp_path: Path) -> None:
    """A home directory is shared by hosts: what passed on one says nothing about another."""
    path = tmp_path / "results.json"
    for code in ALL:
        Qualifications(path, "one").record(VERSION, passed(code))
        Qualifications(path, "two").record(VERSION, passed(code, well=False))
    assert Qualifications(path, "one").is_qualified(VERSION)
    assert not Qualifications(path, "two").is_qualified(VERSION)
    assert not Qualifications(path).is_qualified(VERSION)


def test_a_host_has_one_identity() -> None:
    """The same host is recognised again, and its id shows nothing of its name."""
    assert host_id() == host_id()
    assert len(host_id()) == 16
    assert int(host_id(), 16) >= 0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"format": 2}',
        '{"format": 1, "hosts": 3}',
        '{"format": 1, "hosts": {"h": {"580": {"SELF_TEST": {"passed": "yes"}}}}}',
        "[" * 50_000,
    ],
)
def test_a_broken_file_qualifies_nothing(tmp_path: Path, content: str) -> None:
    """Only a plain yes counts: a file that is not understood leaves parking as careful as before."""
    path = tmp_path / "results.json"
    path.write_text(content)
    assert not Qualifications(path, "h").is_qualified("580")
    Qualifications(path, "h").record("580", passed("SELF_TEST"))
    assert Qualifications(path, "h").outcomes("580")["SELF_TEST"].passed
