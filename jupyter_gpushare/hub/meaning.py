"""What a share means for the person who chooses it, in a sentence or two, and no more than is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.schedulers.scheduler import Compute, MemoryIsolation

if TYPE_CHECKING:
    from jupyter_gpushare.schedulers import Scheduler
    from jupyter_gpushare.share import Share

__all__ = ["explain", "headline"]


def headline(share: Share) -> str:
    """The share in a few words: "½ GPU"; with a limit above it, what is guaranteed too."""
    text = share.describe()
    return text if share.bursts else text.replace(" guaranteed", "")


def explain(share: Share, scheduler: Scheduler | None) -> str:
    """What comes with *share* where *scheduler* books it; without one, no more than what it is meant to be."""
    if scheduler is None:
        return _explain_intent(share)
    if share.is_whole:
        return "A GPU of your own." if share.count == 1 else f"{share.count} GPUs of your own, on one machine."
    isolation = scheduler.isolation(share)
    return " ".join([_memory(share), _compute(isolation.compute), _bounds(isolation.memory)]).rstrip()


def _explain_intent(share: Share) -> str:
    if share.is_whole:
        return "The whole GPU is meant for you." if share.count == 1 else f"{share.count} whole GPUs are meant for you."
    whose = "each GPU's memory" if share.count > 1 else "the GPU's memory"
    more = ", and more of it while nobody else needs it" if share.bursts else ""
    return f"This part of {whose} is meant for you{more}."


def _memory(share: Share) -> str:
    each = " on each GPU" if share.count > 1 else ""
    if share.bursts:
        return f"The guaranteed memory{each} is yours; what lies above it is lent while nobody else needs it."
    return f"This part of the memory{each} is yours."


def _compute(compute: Compute) -> str:
    if compute is Compute.ENFORCED:
        return "So is the same part of the computing power."
    return "Computing takes turns with the others on the GPU."


def _bounds(memory: MemoryIsolation) -> str:
    return "The memory is not enforced: please stay within it." if memory is MemoryIsolation.NONE else ""
