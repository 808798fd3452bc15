"""The grammar of shares: read, written, checked and resolved on a device."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.share import Resolved, Share, ShareError

MILLIONTHS = st.integers(min_value=1, max_value=Fraction.PER_GPU)
BYTES = st.integers(min_value=1, max_value=(1 << 62) - 1)
KINDS = st.just("") | st.from_regex(r"\A[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?\Z")


@st.composite
def shares(draw: st.DrawFn) -> Share:
    """Any share that can be: of fractions or of memory."""
    amounts: st.SearchStrategy[Any] = draw(st.sampled_from([st.builds(Fraction, MILLIONTHS), st.builds(Memory, BYTES)]))
    low, high = sorted((draw(amounts), draw(amounts)))
    return Share(low, draw(st.sampled_from([low, high])), draw(st.integers(1, 1024)), draw(KINDS))


def half(usable: str) -> Resolved:
    """Half of a device with *usable* memory."""
    return Share.parse("0.5").resolve(Memory.parse(usable))


def parsed(text: str) -> Share | ShareError:
    """What reading *text* gives."""
    try:
        return Share.parse(text)
    except ShareError as error:
        return error


@given(shares())
def test_a_share_survives_being_written(share: Share) -> None:
    """What is written for a share is read back as exactly that share."""
    assert Share.parse(str(share)) == share


@given(st.text() | st.from_regex(r"[0-9x.@GiBa\-]{0,12}") | st.text("0123456789.x@MGiB ", max_size=200))
def test_a_stranger_s_text_is_a_share_or_a_share_error(text: str) -> None:
    """Whatever arrives is read or refused with the wrong part and a right example; nothing else is raised."""
    result = parsed(text)
    if isinstance(result, Share):
        assert Share.parse(str(result)) == result
    else:
        assert result.part in {"share", "count", "request", "limit", "kind"}
        assert len(str(result)) < 300
        Share.parse(re.split(",? or ", result.example)[0])


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0.5", Share(Fraction(500_000), Fraction(500_000))),
        ("0.25..0.8", Share(Fraction(250_000), Fraction(800_000))),
        (" 0.25 .. 0.8 ", Share(Fraction(250_000), Fraction(800_000))),
        ("2x0.5", Share(Fraction(500_000), Fraction(500_000), 2)),
        ("16GiB", Share(Memory(16 << 30), Memory(16 << 30))),
        ("8GiB..24GiB", Share(Memory(8 << 30), Memory(24 << 30))),
        ("1", Share(Fraction.ONE, Fraction.ONE)),
        ("4", Share(Fraction.ONE, Fraction.ONE, 4)),
        ("0.5@a100", Share(Fraction(500_000), Fraction(500_000), 1, "a100")),
        ("2x8GiB..1TiB@gb200-nvl", Share(Memory(8 << 30), Memory(1 << 40), 2, "gb200-nvl")),
    ],
)
def test_shares_are_read_as_people_write_them(text: str, share: Share) -> None:
    """Each form of the grammar means what the documentation says."""
    assert Share.parse(text) == share


@pytest.mark.parametrize(
    ("text", "part", "problem", "example"),
    [
        ("", "share", "nothing is written", "0.5"),
        ("0", "request", "0 is not an amount above zero", "0.5"),
        ("half", "request", "'half' is not a unit of memory", "16GiB"),
        ("½", "request", "'½' is not a number", "0.5"),
        ("\N{FULLWIDTH DIGIT ONE}", "request", "is not a number", "0.5"),
        ("1.5", "request", "neither one GPU's part nor whole GPUs", "2 or 2x0.75"),
        ("unlimited", "request", "a share needs a bound", "0.25..1"),
        ("; write for example 0", "request", "is not a number", "0.5"),
        ("0.5..", "limit", "no amount is written", "0.25..0.8"),
        ("0.5..0.25", "limit", "0.25 is below the request 0.5", "0.25..0.5"),
        ("0.5..16GiB", "limit", "need the same unit", "8GiB..24GiB"),
        ("0.5..2", "limit", "2 is more than one GPU", "2x0.75"),
        ("0x0.5", "count", "0 is not between 1 and 1024", "2x0.5"),
        ("9999999999999x1", "count", "is not between 1 and 1024", "2x0.5"),
        ("1025", "count", "1025 is not between 1 and 1024", "2x0.5"),
        ("0.5@", "kind", "no name follows the @", "0.5@a100"),
        ("0.5@A100", "kind", "'A100' is not a name in lower case", "0.5@a100"),
        ("0.5@a@b", "kind", "is not a name in lower case", "0.5@a100"),
        ("0.5@" + "a" * 64, "kind", "is not a name in lower case", "0.5@a100"),
        ("1" * 10_000_000, "share", "10000000 characters are too many", "0.25..0.8@a100"),
        ("9999999TiB", "request", "more than any machine has", "16GiB"),
    ],
)
def test_an_error_names_the_part_and_shows_a_right_example(text: str, part: str, problem: str, example: str) -> None:
    """Somebody who wrote a wrong share learns which part is wrong and how a right one looks."""
    with pytest.raises(ShareError, match=re.escape(problem)) as caught:
        Share.parse(text)
    assert caught.value.part == part
    assert example in caught.value.example


def test_a_share_that_is_not_text_is_refused() -> None:
    """A number in a configuration file is refused with the reason, not read by chance."""
    with pytest.raises(ShareError, match=r"0\.5 is not text"):
        Share.parse(0.5)  # type: ignore[arg-type]


def test_half_of_a_v100_resolves_to_its_usable_half() -> None:
    """Half of a 32 GB V100 is 16,255 MiB, as its usable memory is 32,510 MiB."""
    assert half("32510MiB") == Resolved(Memory.parse("16255MiB"), Memory.parse("16255MiB"))


@given(st.integers(1, 1 << 44), st.lists(MILLIONTHS, min_size=1, max_size=5))
def test_shares_that_fill_a_gpu_fit_its_memory(usable: int, parts: list[int]) -> None:
    """Holders whose requests sum to at most one GPU never get more memory than it has."""
    requests = [Share(Fraction(n), Fraction(n)) for n in parts]
    if sum(parts) <= Fraction.PER_GPU:
        assert Memory.total(share.resolve(Memory(usable)).request for share in requests) <= Memory(usable)


def test_memory_above_the_device_is_refused_and_a_limit_is_clipped() -> None:
    """A request in GiB must fit the device; a burst limit ends where the device does."""
    device = Memory.parse("24GiB")
    assert Share.parse("8GiB..1TiB").resolve(device) == Resolved(Memory.parse("8GiB"), device)
    with pytest.raises(ShareError, match="32GiB do not fit a device with 24GiB") as caught:
        Share.parse("32GiB").resolve(device)
    assert Share.parse(caught.value.example).resolve(device).request == device


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.5", "½ GPU guaranteed"),
        ("0.5..1", "½ GPU guaranteed, up to 1"),
        ("0.3@l4", "0.3 GPU guaranteed on l4"),
        ("8GiB..24GiB", "8GiB guaranteed, up to 24GiB"),
        ("1", "1 GPU guaranteed"),
        ("4@h100", "4 GPUs on h100"),
        ("2x0.5", "2 times ½ GPU guaranteed"),
    ],
)
def test_a_share_is_described_in_people_s_words(text: str, words: str) -> None:
    """The sidebar and the spawn page say what a share is in the same words."""
    assert Share.parse(text).describe() == words


def test_whole_gpus_are_told_from_parts() -> None:
    """Whole GPUs get devices of their own, so a part must never pass for one."""
    assert Share.parse("4").is_whole
    assert not Share.parse("0.999999").is_whole
    assert not Share.parse("0.5..1").is_whole
    assert Share.parse("0.5..1").bursts
    assert not Share.parse("16GiB").bursts
