"""What people read when their session holds more GPU memory than its share allows."""

from __future__ import annotations

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.message import Message

__all__ = ["cannot_end", "ended", "warning"]


def warning(memory: int, limit: int, grace_s: float, who: str) -> Message:
    """It is above its limit, and nothing has happened yet."""
    template = (
        "Nothing is lost yet, but your notebooks hold {memory} of GPU memory, and your share allows {limit}. Free some "
        "now: in {seconds} s the program of {who} that grew most is ended."
    )
    return Message("OVERRUN_WARNING", template, _values(memory, limit, who) | {"seconds": f"{grace_s:.0f}"})


def ended(memory: int, limit: int, who: str, *, of_kernel: str | None, is_kernel: bool) -> Message:
    """The offender was ended: its kernel, a program that the kernel had started, or one outside kernels."""
    what = "A program of {who} was ended"
    if is_kernel:
        what = "The kernel of {who} was ended and starts anew without its variables"
    elif of_kernel is not None:
        what = "A program that {who} had started was ended; its kernel and its variables are still there"
    template = (
        f"Your files and your other notebooks are as they were. {what}: your notebooks held {{memory}} of GPU memory, "
        "and your share allows {limit}. Load less at once, or ask for a larger share."
    )
    return Message("OVERRUN_ENDED", template, _values(memory, limit, who))


def cannot_end(memory: int, limit: int, who: str) -> Message:
    """The system refuses."""
    template = (
        "Nothing is lost, but your notebooks hold {memory} of GPU memory, and your share allows {limit}. The program "
        "of {who} that grew most could not be ended: end it yourself, others wait for that memory."
    )
    return Message("OVERRUN_UNSTOPPABLE", template, _values(memory, limit, who))


def _values(memory: int, limit: int, who: str) -> dict[str, str]:
    return {"memory": Memory(memory).human, "limit": Memory(limit).human, "who": who}
