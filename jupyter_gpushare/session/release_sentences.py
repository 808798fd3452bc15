"""The sentences of a release: what is about to happen, what will be lost, and what the device showed afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.state import clock_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.requests import ReleaseRequest

__all__ = [
    "CHANGED_MEANWHILE",
    "FAILED",
    "NOTHING_TO_END",
    "NOTHING_TO_PARK",
    "NO_CACHE_ANYWHERE",
    "NO_CACHE_HERE",
    "STOPPED",
    "Verdict",
    "announcement",
    "judge_end",
    "judge_free",
    "judge_gone",
    "starting",
]

FAILED = Message("RELEASE_FAILED", "The release failed for a reason of ours, which the server's log has.")
NOTHING_TO_END = Message("NOTHING_TO_END", "No kernel of this server holds GPU memory, so there is nothing to end.")
NOTHING_TO_PARK = Message("NOTHING_TO_PARK", "No kernel of this server holds GPU memory: it is released already.")
NO_CACHE_ANYWHERE = Message(
    "NO_CACHE_ANYWHERE", "No kernel here can free cached memory by itself; end a kernel instead."
)
FREED = "{freed} given back. {left} are still held by variables and the GPU context."
FREED_UNKNOWN = "The kernel freed its caches; how much cannot be told, because the device's list cannot be read."
NOTHING_FELL = "Nothing fell: {left} are held by variables and the GPU context. Delete some, or end the kernel."
STILL_HELD = "{notebooks} ended, but {left} are still held by process {pids}. To end it, in a terminal: kill {pids}"
ENDED_UNKNOWN = "{notebooks} ended. How much was given back cannot be told: the device's list cannot be read."
STOPPED = Message("RELEASE_STOPPED", "The server ended before the release did.")
CHANGED_MEANWHILE = Message("CHANGED_MEANWHILE", "Nothing was ended: a cell has started meanwhile. Please ask again.")
NO_CACHE_HERE = "{notebook} cannot free its cached memory by itself: our part is not loaded in it. Ending it works."


def _names(kernels: Sequence[Kernel]) -> str:
    return ", ".join(kernel.label for kernel in kernels)


def starting(request: ReleaseRequest, kernels: Sequence[Kernel]) -> Message:
    """What is being done."""
    doing = {"free_cache": "Freeing cached memory of {notebooks}…", "park": "Parking {notebooks}. Nothing is lost."}
    return Message("RELEASING", doing.get(request.level, "Ending {notebooks}…"), {"notebooks": _names(kernels)})


def announcement(request: ReleaseRequest, kernels: Sequence[Kernel]) -> Message:
    """What will be lost or disturbed, in full, for the owner to confirm: every running cell among it."""
    values = {"notebooks": _names(kernels)}
    template = ""
    busy = [(kernel, cell) for kernel in kernels for cell in kernel.cells.values()]
    for number, (kernel, cell) in enumerate(busy, 1):
        template += f"{{notebook{number}}} has been running a cell since {{since{number}}}: “{{code{number}}}”. "
        values[f"notebook{number}"], values[f"code{number}"] = kernel.label, cell.line or "…"
        # Front ends show the second form in the reader's own time zone.
        values[f"since{number}"], values[f"since{number}_epoch"] = clock_time(cell.since), f"{cell.since:.0f}"
    if request.level == "free_cache":
        template += "Cached GPU memory can be freed meanwhile; variables stay."
    else:
        template += "Every variable of {notebooks} will be lost; saved files stay."
    return Message("KERNEL_BUSY" if busy else "CONFIRM_LOSS", template, values)


class Verdict(NamedTuple):
    """How a release went: its status, the true sentence about it, and the bytes that the device attests as freed."""

    status: Literal["released", "failed"]
    message: Message
    freed: int | None


def judge_free(before: int | None, after: int | None, troubles: Sequence[str]) -> Verdict:
    """What to say of a freed cache, from what the kernels held before and after; None where that cannot be told."""
    values = {"troubles": "; ".join(troubles)}
    trouble = " ({troubles}.)" if troubles else ""
    if before is None or after is None:
        unknown = Message("FREED_UNKNOWN", FREED_UNKNOWN + trouble, values)
        return Verdict("failed" if troubles else "released", unknown, None)
    freed = max(before - after, 0)
    values |= {"freed": Memory(freed).human, "left": Memory(after).human}
    if freed:
        return Verdict("released", Message("FREED", FREED + trouble, values), freed)
    if after == 0:
        return Verdict("failed", Message("NOTHING_HELD", "Nothing was held, so nothing fell." + trouble, values), 0)
    return Verdict("failed", Message("NOTHING_FELL", NOTHING_FELL + trouble, values), 0)


def judge_gone(kernels: Sequence[Kernel]) -> Verdict:
    """What to say where the kernels ended by themselves, or by another hand, before or while we did something."""
    values = {"notebooks": _names(kernels)}
    return Verdict(
        "failed", Message("ALREADY_ENDED", "{notebooks} ended meanwhile; nothing was left to do.", values), None
    )


def judge_end(before: int | None, left: Mapping[int, int | None] | None, kernels: Sequence[Kernel]) -> Verdict:
    """What to say of ended kernels: what they held, and what processes of theirs still hold, by pid; None: unknown."""
    values = {"notebooks": _names(kernels)}
    if left:
        parts = [memory for memory in left.values() if memory is not None]
        known = len(parts) == len(left)
        values |= {
            "pids": " ".join(map(str, sorted(left))),
            "left": Memory(sum(parts)).human if known else "an unknown amount",
        }
        freed = max(before - sum(parts), 0) if known and before is not None else None
        return Verdict("failed", Message("STILL_HELD", STILL_HELD, values), freed)
    if before is None or left is None:
        return Verdict("released", Message("ENDED_UNKNOWN", ENDED_UNKNOWN, values), None)
    values["freed"] = Memory(before).human
    return Verdict("released", Message("ENDED", "{notebooks} ended; {freed} given back.", values), before)
