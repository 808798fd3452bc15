"""May this kernel be parked now? One ordered table of conditions, the most fundamental first; pure.

The first condition that holds is the answer, so the same facts always give the same one: what holds for the host
stands before what holds for the kernel, its processes, its devices, and last what holds for this moment only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.parking.conditions import CONDITIONS
from jupyter_gpushare.parking.verdict import NotParkable, Parkable
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.parking.conditions import Condition
    from jupyter_gpushare.parking.facts import Facts
    from jupyter_gpushare.parking.verdict import Verdict

__all__ = ["first_look", "preflight"]


def preflight(facts: Facts) -> Verdict:
    """Whether the kernel of *facts* may be parked now. It must have been probed: no answer is a refusal."""
    return _judge(CONDITIONS, facts)


def first_look(facts: Facts) -> Verdict:
    """The same without what only the kernel itself can tell: for showing, before anything is pressed."""
    return _judge((condition for condition in CONDITIONS if not condition.asks_kernel), facts)


def _judge(conditions: Iterable[Condition], facts: Facts) -> Verdict:
    caution = None
    for condition in conditions:
        found = condition.find(facts)
        if found is None:
            continue
        if condition.permission is None or not condition.permission.given(facts.settings):
            remedy = Message(f"{condition.code}_REMEDY", condition.remedy, found)
            return NotParkable(Message(condition.code, condition.sentence, found), remedy)
        caution = caution or Message(f"{condition.code}_ALLOWED", condition.permission.caution, found)
    size = facts.memory or 0
    return Parkable(size, facts.speed.park_s(size), facts.speed.resume_s(size), caution)
