"""Sentences for people, each with a constant code, made in one place.

A message is a template with named values, so that a front end can translate the template and fill in the
values, while a terminal shows `text` as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """One sentence or two: *code* is constant, *template* is English with ``{names}`` filled from *values*."""

    code: str
    template: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence in English."""
        return self.template.format_map(self.values)
