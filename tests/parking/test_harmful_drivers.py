"""Which driver versions are known to do harm, and that versions compare as numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.parking.harmful_drivers import (
    DEFECTS,
    MINIMUM,
    Effect,
    checkpoint_before_kill,
    defect,
    version_of,
)


@pytest.mark.parametrize(
    ("version", "effect", "affected"),
    [
        ("610.57.04", Effect.DAMAGES_STATE, True),
        ("580.95.05", Effect.DAMAGES_STATE, False),
        ("595.84", Effect.BREAKS_NCCL, True),
        ("580.178", Effect.BREAKS_NCCL, False),
        ("570.86.10", Effect.REFUSES_PYTORCH, True),
        ("575.57", Effect.REFUSES_PYTORCH, True),
        ("575.57.07", Effect.REFUSES_PYTORCH, True),
        ("575.57.08", Effect.REFUSES_PYTORCH, False),
        ("609.99", Effect.LACKS_IPC, True),
        ("610.10", Effect.LACKS_IPC, False),
    ],
)
def test_versions_seen_to_fail_and_to_work(version: str, effect: Effect, *, affected: bool) -> None:
    """Each reported version is judged as it was reported."""
    assert (defect(effect, version) is not None) == affected


def test_a_resumed_process_is_checkpointed_before_a_kill_where_the_host_would_hang() -> None:
    """On the branch that hung the host, and on no other."""
    assert checkpoint_before_kill("595.71.05")
    assert not checkpoint_before_kill("580.95.05")
    assert not checkpoint_before_kill("simulated")


def test_versions_compare_as_numbers() -> None:
    """A longer text is no larger version, and two digits are one number."""
    assert version_of("580.95.05") == (580, 95, 5)
    small, large = version_of("580.9"), version_of("580.10")
    assert small is not None
    assert large is not None
    assert small < large


@given(st.text(max_size=20))
def test_any_text_is_a_version_or_none(text: str) -> None:
    """What is no version is known to be none: no error, and no defect."""
    if version_of(text) is None:
        assert not any(defect(effect, text) for effect in Effect)


def test_every_defect_is_of_a_driver_that_can_park_and_has_its_witness() -> None:
    """No row is about drivers that are refused anyway, and each says who saw it."""
    assert all(one.first >= MINIMUM and (one.fixed is None or one.first < one.fixed) for one in DEFECTS)
    assert all(any(character.isdigit() for character in one.report) for one in DEFECTS)
    assert {one.effect for one in DEFECTS} == set(Effect)
