"""docs/reasons.md says what people are told, and what helps them."""

from __future__ import annotations

from pathlib import Path

from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.reason_page import GROUPS, page


def test_the_documentation_shows_every_reason_as_it_is_in_the_code() -> None:
    """docs/reasons.md is made from the code: python -m jupyter_gpushare.rules.reason_page."""
    documented = Path(__file__).parents[2] / "docs" / "reasons.md"
    assert documented.read_text(encoding="utf-8") == page()


def test_no_reason_is_left_out_or_told_twice() -> None:
    """A reason without a line would be a "no" that nobody can look up."""
    told = [reason for group in GROUPS for reason in group.helps]
    assert sorted(told) == sorted(Reason)


def test_every_reason_comes_with_what_helps() -> None:
    """People who are told "no" want to know what to do."""
    assert all(
        text.endswith((".", "[all of them](preflight.md).")) for group in GROUPS for text in group.helps.values()
    )
