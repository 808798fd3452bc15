"""Text on its way into HTML."""

from __future__ import annotations

from html import escape

__all__ = ["attribute", "safe"]


def safe(text: str) -> str:
    """*text* for HTML. Braces go too: some hubs run their forms through a template engine once more."""
    return escape(text).replace("{", "&#123;").replace("}", "&#125;")


def attribute(name: str, *, is_set: bool) -> str:
    """The attribute *name*, which says something by being there."""
    return f" {name}" if is_set else ""
