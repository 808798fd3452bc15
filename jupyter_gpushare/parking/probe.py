"""The kernel's answer about what goes on inside it. The kernel runs the user's code, so its answer is untrusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from jupyter_gpushare.parking.facts import Background, Work

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["background_of", "printable"]

_MOST: Final = 50
_LONGEST: Final = 80


def background_of(reply: object, *, cpu_s: float | None, window_s: float) -> Background:
    """What *reply*, the content of a ``gpushare_probe_reply``, says; *cpu_s* in *window_s* was measured outside.

    A reply that is not understood counts as none: the kernel is then not parked.
    """
    try:
        return Background(
            probe="answered",
            work=(*_work(reply, "threads", "thread"), *_work(reply, "tasks", "task")),
            frameworks=_names(reply, "frameworks"),
            features=_names(reply, "features"),
            is_gated=isinstance(reply, dict) and reply.get("gated") is True,
            cpu_s=cpu_s,
            window_s=window_s,
        )
    except ValueError:
        return Background(probe="no_answer", cpu_s=cpu_s, window_s=window_s)


def printable(text: str) -> str:
    """*text* from a program, for people: one line, no control characters, not long."""
    shown = "".join(character if character.isprintable() else "?" for character in text[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _work(reply: object, field: str, kind: Literal["thread", "task"]) -> Iterator[Work]:
    for one in _list(reply, field)[:_MOST]:
        if not isinstance(one, dict):
            raise ValueError(f"{field}: an item is not an object")  # noqa: TRY004  # every wrong answer is one kind
        yield Work(kind, printable(str(one.get("name", ""))), printable(str(one.get("origin", ""))))


def _names(reply: object, field: str) -> frozenset[str]:
    return frozenset(printable(str(name)) for name in _list(reply, field)[:_MOST])


def _list(reply: object, field: str) -> list[Any]:
    if not isinstance(reply, dict) or reply.get("status") != "ok":
        raise ValueError("status: it is not ok")
    value = reply.get(field)
    if not isinstance(value, list):
        raise ValueError(f"{field}: it is not a list")  # noqa: TRY004  # as above
    return value
