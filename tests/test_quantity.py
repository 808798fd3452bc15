"""Amounts are exact, comparable and never mix."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.quantity import Fraction, Memory, QuantityError

CEILING = 1 << 62
MILLIONTHS = st.integers(min_value=0, max_value=9_999_999 * Fraction.PER_GPU)
BYTES = st.integers(min_value=0, max_value=CEILING - 1)
FRACTIONS = st.builds(Fraction, MILLIONTHS) | st.just(Fraction.UNLIMITED)
MEMORIES = st.builds(Memory, BYTES) | st.just(Memory.UNLIMITED)


@given(FRACTIONS)
def test_a_fraction_survives_being_written(amount: Fraction) -> None:
    """What is written for a fraction is read back as exactly that fraction."""
    assert Fraction.parse(str(amount)) == amount


@given(MEMORIES)
def test_memory_survives_being_written(amount: Memory) -> None:
    """What is written for an amount of memory, odd bytes included, is read back as exactly that amount."""
    assert Memory.parse(str(amount)) == amount


@pytest.mark.parametrize("parts", [("0.6", "0.4"), ("0.5", "0.3", "0.2"), ("0.1",) * 10, ("0.000001", "0.999999")])
def test_parts_fill_one_gpu_exactly(parts: tuple[str, ...]) -> None:
    """Decimals that add up to one on paper add up to exactly one GPU."""
    assert Fraction.total(Fraction.parse(part) for part in parts) == Fraction.ONE


def test_ten_thousand_parts_sum_exactly() -> None:
    """A long sum loses nothing: ten thousand ten-thousandths are one GPU."""
    assert Fraction.total([Fraction.parse("0.0001")] * 10_000) == Fraction.ONE


@given(st.lists(st.integers(min_value=0, max_value=Fraction.PER_GPU), max_size=20), MEMORIES)
def test_parts_of_a_device_never_overfill_it(parts: list[int], whole: Memory) -> None:
    """Fractions that fit one GPU also fit in its memory, whatever the rounding."""
    fractions = [Fraction(n) for n in parts]
    if Fraction.total(fractions) <= Fraction.ONE:
        assert Memory.total(fraction.of(whole) for fraction in fractions) <= whole


@given(st.integers(min_value=1, max_value=1 << 40), st.integers(min_value=1, max_value=1 << 40))
def test_memory_as_a_fraction_covers_what_was_asked(asked: int, whole: int) -> None:
    """A share in bytes costs a fraction that is at least as much memory."""
    assert Memory(asked).fraction_of(Memory(whole)).of(Memory(whole)) >= Memory(asked)


def test_half_of_a_v100_is_what_the_driver_left() -> None:
    """Half of a 32 GB V100 is 16,255 MiB: a fraction is of usable memory, to the byte."""
    assert Fraction.parse("0.5").of(Memory.parse("32510MiB")) == Memory.parse("16255MiB")


@given(FRACTIONS, FRACTIONS)
def test_order_is_total_and_agrees_with_the_numbers(one: Fraction, other: Fraction) -> None:
    """Amounts compare as their counts do, unlimited above all, and equal amounts share a hash."""
    assert (one < other, one == other, one > other).count(True) == 1
    assert one <= Fraction.UNLIMITED
    assert (one == other) <= (hash(one) == hash(other))


@given(st.lists(st.builds(Memory, st.integers(-CEILING, CEILING)), max_size=6))
def test_a_total_is_the_sum_of_its_parts(amounts: list[Memory]) -> None:
    """Adding one by one and adding at once agree, unlimited parts included, in any order."""
    for order in (amounts, amounts[::-1]):
        step = Memory.ZERO
        for amount in order:
            step += amount
        if any(amount.is_unlimited for amount in amounts):
            assert step == Memory.total(amounts) == Memory.UNLIMITED
        elif not step.is_unlimited:
            assert step == Memory.total(amounts)


@given(st.builds(Fraction, MILLIONTHS), st.builds(Fraction, MILLIONTHS))
def test_what_is_taken_away_can_be_put_back(one: Fraction, other: Fraction) -> None:
    """Subtraction is exact, below zero too: a project may hold more than it deserves."""
    assert (one - other) + other == one


def test_unlimited_saturates_and_is_never_taken_away() -> None:
    """Unlimited stays unlimited under sums, and nothing can be reduced by it."""
    half = Fraction.parse("0.5")
    assert half + Fraction.UNLIMITED == Fraction.UNLIMITED + half == Fraction.UNLIMITED - half == Fraction.UNLIMITED
    assert Fraction.parse("unlimited").is_unlimited
    assert half.of(Memory.UNLIMITED) == Memory.UNLIMITED
    assert Fraction.ZERO.of(Memory.UNLIMITED) == Memory.ZERO
    with pytest.raises(ValueError, match="without bound"):
        half - Fraction.UNLIMITED


def test_units_never_mix() -> None:
    """Memory is never added to, compared with or totalled as fractions, and floats never enter."""
    with pytest.raises(TypeError):
        Fraction.ONE + Memory(1)  # type: ignore[operator]
    with pytest.raises(TypeError):
        assert Memory(1) > Fraction.ONE  # type: ignore[operator]
    with pytest.raises(TypeError, match="Fraction cannot include Memory"):
        Fraction.total([Fraction.ONE, Memory(1)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="whole units"):
        Fraction(0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Fraction.ONE * 0.5  # type: ignore[operator]
    assert Fraction(1) != Memory(1)


@pytest.mark.parametrize("whole", [Memory.ZERO, Memory(-1), Memory.UNLIMITED])
def test_a_part_needs_a_whole(whole: Memory) -> None:
    """Memory as a fraction of nothing, or of anything without bound, is refused and not divided by zero."""
    with pytest.raises(ValueError, match="no part of"):
        Memory(1).fraction_of(whole)


def test_amounts_do_not_change_and_travel_between_processes() -> None:
    """An amount is immutable and survives pickling."""
    half = Fraction.parse("0.5")
    with pytest.raises(AttributeError, match="immutable"):
        half._n = 3
    assert pickle.loads(pickle.dumps(half)) == half  # noqa: S301  # our own bytes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not a number"),
        ("-0.5", "not a number"),
        ("1e3", "not a number"),
        (".5", "not a number"),
        ("0,5", "not a number"),
        ("inf", "not a number"),
        ("\N{FULLWIDTH DIGIT ONE}", "not a number"),
        ("\N{ARABIC-INDIC DIGIT FIVE}", "not a number"),
        ("0.5\n", "not a number"),
        ("0.1234567", "more than 6 decimal places"),
        ("9" * 19, "more than any machine has"),
        ("9" * 100_000, "not a number"),
    ],
)
def test_what_is_not_a_fraction_is_refused(text: str, problem: str) -> None:
    """Text that is no decimal is refused with the reason and an example, never guessed."""
    with pytest.raises(QuantityError, match=f"{problem}.*write for example 0.5"):
        Fraction.parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("16", "'nothing' is not a unit"),
        ("16GB", "'GB' is not a unit of memory; write for example 16GiB"),
        ("24GB", "'GB' is not a unit of memory; write for example 24GiB"),
        ("1,5GB", "'GB' is not a unit of memory; write for example 16GiB"),
        ("0GB", "'GB' is not a unit of memory; write for example 16GiB"),
        ("16gib", "'gib' is not a unit"),
        ("GiB", "'' is not a number"),
        ("0.3B", "not a whole number of bytes"),
        ("9999999TiB", "more than any machine has"),
    ],
)
def test_what_is_not_memory_is_refused(text: str, problem: str) -> None:
    """Text that is no amount of memory is refused, with the unit that was probably meant."""
    with pytest.raises(QuantityError, match=problem):
        Memory.parse(text)


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0B"), (1, "1B"), (1536, "1.5KiB"), (16 << 30, "16GiB"), (3 << 39, "1.5TiB"), (10**10 + 1, "10000000001B")],
)
def test_memory_is_written_in_the_largest_exact_unit(n: int, text: str) -> None:
    """People read short numbers where they are exact, and bytes where they would not be."""
    assert str(Memory(n)) == text


def test_amounts_convert_for_display_and_schedulers() -> None:
    """The numbers handed to metrics and pod manifests are the amount itself."""
    assert Fraction.parse("0.25").gpus == 0.25
    assert Fraction.parse("0.25").millionths == 250_000
    assert Memory.parse("1.5GiB").mib == 1536
    assert not Fraction.ZERO
    assert 2 * Fraction.parse("0.5") == Fraction.ONE
    assert repr(Fraction.ONE) == "Fraction(1)"
