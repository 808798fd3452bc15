"""Ranges of memory and shares of time: the arithmetic below the machine."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.devices.simulated.extents import Extent, choose, gaps, locate, round_up
from jupyter_gpushare.devices.simulated.utilisation import Load, share_of_time

CAPACITY = 1000
sizes = st.integers(1, 300)


@st.composite
def taken_ranges(draw: st.DrawFn) -> list[Extent]:
    """Ranges in order that do not overlap."""
    marks = draw(st.lists(st.integers(0, CAPACITY), unique=True).map(sorted))
    return [Extent(left, right - left) for left, right in zip(marks[::2], marks[1::2], strict=False)]


@given(taken_ranges())
def test_taken_and_free_ranges_fill_the_device_exactly(taken: list[Extent]) -> None:
    """No byte of a device is lost or counted twice."""
    free = list(gaps(taken, CAPACITY))
    assert sum(extent.length for extent in [*taken, *free]) == CAPACITY
    joined = sorted([*taken, *free])
    assert all(left.end == right.start for left, right in pairwise(joined))


@given(taken_ranges(), sizes)
def test_a_choice_lies_in_free_ranges_and_has_the_size_asked(taken: list[Extent], size: int) -> None:
    """What fits in sum is given, in pieces if need be, and never reaches into a neighbour."""
    free = list(gaps(taken, CAPACITY))
    if sum(gap.length for gap in free) < size:
        with pytest.raises(ValueError, match="do not fit"):
            choose(free, size)
        return
    chosen = choose(free, size)
    assert sum(extent.length for extent in chosen) == size
    for extent in chosen:
        assert any(gap.start <= extent.start and extent.end <= gap.end for gap in free)


def test_one_range_is_preferred_to_pieces() -> None:
    """A hole too small is passed over while a later one holds all."""
    assert choose([Extent(0, 10), Extent(50, 100)], 40) == [Extent(50, 40)]


@given(st.lists(sizes, min_size=1), st.data())
def test_an_offset_is_found_whatever_pieces_an_allocation_has(lengths: list[int], data: st.DataObject) -> None:
    """Byte n of a scattered allocation is always the same byte of the device."""
    extents = [Extent(index * 1000, length) for index, length in enumerate(lengths)]
    flat = [extent.start + byte for extent in extents for byte in range(extent.length)]
    offset = data.draw(st.integers(0, len(flat)))
    size = data.draw(st.integers(0, len(flat) - offset))
    found = [part.start + byte for part in locate(extents, offset, size) for byte in range(part.length)]
    assert found == flat[offset : offset + size]


@given(st.integers(0, 1 << 50), st.sampled_from([512, 2 << 20]))
def test_rounding_up_is_the_least_multiple_that_holds(size: int, granularity: int) -> None:
    """Memory is handed out in whole pages, never in fewer than asked."""
    rounded = round_up(size, granularity)
    assert rounded % granularity == 0
    assert size <= rounded < size + granularity


@given(
    st.lists(
        st.builds(
            lambda context, per_cent, began, length: Load(
                context, per_cent, began, None if length is None else began + length
            ),
            st.integers(1, 4),
            st.floats(1, 100),
            st.floats(-5, 1),
            st.none() | st.floats(0, 5),
        )
    )
)
def test_a_device_never_gives_more_time_than_it_has(loads: list[Load]) -> None:
    """However many compute at once, their parts sum to at most 100 per cent, and none gets more than it wants."""
    got = share_of_time(loads, 0.0, 1.0)
    assert sum(got.values()) <= 100 + 1e-6
    for context, per_cent in got.items():
        assert 0 <= per_cent <= sum(load.per_cent for load in loads if load.context == context) + 1e-6


def test_a_load_counts_for_the_part_of_the_window_in_which_it_ran() -> None:
    """80 per cent for half of the window are 40 per cent."""
    assert share_of_time([Load(1, 80, 0.5, None)], 0.0, 1.0) == pytest.approx({1: 40})


def test_two_loads_that_want_more_than_all_get_equal_parts_of_it() -> None:
    """As time slices do, full loads of two processes give each half of the device."""
    assert share_of_time([Load(1, 100, -1, None), Load(2, 100, -1, None)], 0.0, 1.0) == pytest.approx({1: 50, 2: 50})
