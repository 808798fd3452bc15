"""Which share a user's options ask for. They come from a form or straight from the REST interface: from strangers."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.hub.offers import NotOfferedError, Offers
from jupyter_gpushare.schedulers import HamiScheduler, NvidiaScheduler
from jupyter_gpushare.share import Share

OFFERS = Offers.parse(["0.25", "0.5", "0.25..0.8", "1"], "0.5", None)
PROFILES = Offers.parse(["0.25", "0.5"], None, HamiScheduler(), profiles_are_shares=True)


@pytest.mark.parametrize(
    ("options", "share"),
    [
        (None, "0.5"),
        ({}, "0.5"),
        ({"share": None}, "0.5"),
        ({"profile": "anything"}, "0.5"),
        ({"share": "0.25"}, "0.25"),
        ({"share": " 0.250 "}, "0.25"),
        ({"share": "1x1"}, "1"),
        ({"share": "0.25..0.8", "image": "x"}, "0.25..0.8"),
    ],
)
def test_chosen_share(options: Any, share: str) -> None:
    """What is offered is given, however it is written; who says nothing gets the default."""
    assert str(OFFERS.choose(options)) == share


@pytest.mark.parametrize("asked", ["0.75", "0.5@a100", "2", "", "½", "0.5\n0.5", "x" * 10_000, 0.5, True, ["0.5"], {}])
def test_other_shares_are_refused(asked: Any) -> None:
    """What is not offered is refused in a short sentence that says what is."""
    with pytest.raises(NotOfferedError) as caught:
        OFFERS.choose({"share": asked})
    assert str(caught.value).endswith("Choose one of these: 0.25, 0.5, 0.25..0.8, 1.")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("options", "share"), [({"profile": "0.5"}, "0.5"), ({"share": "0.5"}, "0.5"), ({}, "0.25"), (None, "0.25")]
)
def test_profiles_that_are_shares(options: Any, share: str) -> None:
    """On KubeSpawner the profile is the share; its first is the default."""
    assert str(PROFILES.choose(options)) == share


@pytest.mark.parametrize("options", [{"profile": "0.75"}, {"profile": "0.25", "share": "0.5"}, {"profile": ["0.5"]}])
def test_profiles_that_are_no_shares(options: dict[str, Any]) -> None:
    """A profile that is not ours is refused, and so are two that contradict each other."""
    with pytest.raises(NotOfferedError):
        PROFILES.choose(options)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(options=st.dictionaries(st.sampled_from(["share", "profile", "x"]), json_values))
def test_anything_a_stranger_sends(options: dict[str, Any]) -> None:
    """No JSON gets anybody a share that is not offered, or makes the hub fail."""
    for offers in (OFFERS, PROFILES):
        with contextlib.suppress(NotOfferedError):
            assert offers.choose(options) in offers.shares


@pytest.mark.parametrize(
    ("shares", "default", "wrong"),
    [
        ([], None, "shares: nothing is offered"),
        (["0.5", "half"], None, "shares: "),
        ([f"0.{each}" for each in range(11, 76)], None, "shares: 65 are more than anybody reads; offer at most 64"),
        (["0.5", "0.50"], None, "shares: one is there twice"),
        (["0.5"], "1", "default: 1 is not among the shares; choose one of 0.5"),
        (["0.5"], "", "default: "),
    ],
)
def test_admins_mistakes(shares: list[str], default: str | None, wrong: str) -> None:
    """A wrong configuration stops the hub's start with the name of the argument."""
    with pytest.raises(ValueError, match=f"^{wrong}"):
        Offers.parse(shares, default, None)


def test_share_that_the_scheduler_cannot_book() -> None:
    """An admin learns at once that a share cannot be had on the cluster, and which can."""
    with pytest.raises(ValueError, match=r"^shares: 0\.5 cannot be offered\. .* Offer 1 instead\.$"):
        Offers.parse(["1", Share.parse("0.5")], None, NvidiaScheduler())
