"""Text from kernels and processes, made safe to send on."""

from __future__ import annotations

__all__ = ["sendable"]


def sendable(text: str, longest: int = 500) -> str:
    """*text* in valid Unicode, at most *longest* characters.

    A lone surrogate, which JSON and file names can carry into Python, would make every answer that holds it fail.
    """
    clipped = text if len(text) <= longest else text[: longest - 1] + "…"
    return clipped.encode("utf-8", "replace").decode()
