"""docs/README.md leads to every document, and headings that are linked to are there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from .guide import DOCS

if TYPE_CHECKING:
    from pathlib import Path


def test_every_document_is_in_the_index() -> None:
    """What is not listed is not found."""
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} == set(re.findall(r"\]\(([\w-]+\.md)\)", index))


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_linked_headings_are_there(page: Path) -> None:
    """A link to a part of a page leads to that part."""
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        linked = page if not target else page.parent / target
        assert anchor in _anchors(linked), f"{target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them: small letters and digits, with hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
