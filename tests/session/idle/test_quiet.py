"""From single readings to *quiet since*."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.device import DeviceUse, Reading
from jupyter_gpushare.session.idle.evidence import IN_USE, UNREADABLE, Signal
from jupyter_gpushare.session.idle.quiet import CounterRun, UtilisationRun
from jupyter_gpushare.session.idle.sight import held_outside_kernels, sights
from tests.session.idle.conftest import GIB, UNKNOWN, sample_of, use_of

if TYPE_CHECKING:
    from jupyter_gpushare.devices.attribution import OwnerUse


def test_utilisation_is_quiet_since_the_first_zero() -> None:
    """One sample above zero begins the time anew."""
    run = UtilisationRun(60)
    assert run.signal(0) == UNREADABLE
    for at, percent in [(0, 0), (10, 0), (20, 3)]:
        run.note(at, percent)
    assert run.signal(21) == IN_USE
    run.note(30, 0)
    run.note(40, 0)
    assert run.signal(41) == Signal(30)


def test_what_was_not_read_is_not_quiet() -> None:
    """A missing number, a gap between samples, and a last sample that is old each end the run."""
    run = UtilisationRun(60)
    run.note(0, 0)
    assert run.signal(61) == UNREADABLE
    run.note(100, 0)
    assert run.signal(100) == Signal(100)
    run.note(110, None)
    assert run.signal(110) == UNREADABLE


def test_a_counter_is_quiet_since_it_changed() -> None:
    """The same number again is no use; a change is; no number says nothing."""
    run = CounterRun()
    assert run.signal == UNREADABLE
    for at, value in [(0, GIB), (10, GIB), (20, 2 * GIB), (30, 2 * GIB)]:
        run.note(at, value)
    assert run.signal == Signal(20)
    run.note(40, None)
    assert run.signal == UNREADABLE


def test_only_kernels_that_hold_memory_are_sighted() -> None:
    """No memory, an ended kernel and a terminal are not; unknown memory is, as it may be some."""
    uses: list[OwnerUse] = [
        use_of("a", GIB),
        use_of("b", 0),
        use_of("c", None),
        use_of("gone"),
        use_of("1", kind="terminal"),
    ]
    seen = sights(sample_of(0, *uses), ["a", "b", "c", "d"], {"d": GIB})
    assert {kernel_id: sight.memory for kernel_id, sight in seen.items()} == {"a": GIB, "c": None}


def test_where_lists_cannot_be_trusted_a_kernels_word_is_taken() -> None:
    """In a pod without host pids a kernel that counts bytes itself is sighted by them."""
    seen = sights(sample_of(0, use_of("b", None, None), device=7, trusted=False), ["a", "b", "c"], {"a": GIB, "c": 0})
    assert {each: (sight.memory, sight.allocated, sight.device) for each, sight in seen.items()} == {
        "a": (GIB, GIB, 7),
        "b": (None, None, 7),
    }


def test_use_outside_kernels_is_noticed() -> None:
    """A terminal that holds a GPU keeps the session's share from being handed back."""
    assert held_outside_kernels(sample_of(0, use_of("a"), use_of("1", kind="terminal")))
    assert not held_outside_kernels(sample_of(0, use_of("a"), use_of("1", 0, kind="terminal")))


@pytest.mark.parametrize(("percents", "busiest"), [((0, 0), 0), ((0, 30), 30), ((0, None), None), ((), None)])
def test_the_busiest_device_speaks_for_all(percents: tuple[int | None, ...], busiest: int | None) -> None:
    """One device that cannot be read, or none at all, proves nothing, however quiet the others are."""
    readings = [UNKNOWN if percent is None else Reading.exact(percent) for percent in percents]
    uses = tuple(DeviceUse(f"GPU-{number}", UNKNOWN, reading, ()) for number, reading in enumerate(readings))
    sample = replace(sample_of(0, replace(use_of("a", None, None), by_device={})), uses=uses)
    assert sights(sample, ["a"], {})["a"].device == busiest
