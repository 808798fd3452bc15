"""The page docs/reasons.md, made from the reasons: ``python -m jupyter_gpushare.rules.reason_page``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.reason import Reason, explain

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GROUPS", "Group", "page"]

_INTRODUCTION: Final = """\
# Why a share is refused, waits or yields

Every "no", every "wait" and every "yield" of the broker has one constant and one sentence. The same sentence is in the
sidebar, in `%gpushare`, in `jupyter gpushare leases` and on the live line of `run`, which may shorten it; the constant
is in the API and in the audit, for scripts. Names in braces are filled in.

This page is generated from `jupyter_gpushare/rules/reason.py` by `python -m jupyter_gpushare.rules.reason_page`; a test
compares the two.
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Reasons of one sort, each with what helps."""

    title: str
    meaning: str
    helps: Mapping[Reason, str]


GROUPS: Final = (
    Group(
        "Refused",
        "Asking again changes nothing until something else does.",
        {
            Reason.EXCEEDS_PROJECT_QUOTA: "A smaller share, a larger quota, or time: jobs wait instead.",
            Reason.EXCEEDS_PROJECT_LIMIT: "A smaller share, or a higher `limit` of the project.",
            Reason.EXCEEDS_PERSON_LIMIT: "End a notebook server of yours, or ask for a smaller share.",
            Reason.NO_SUCH_PROJECT: "For a job `--project`, for a notebook server `GPUSHARE_PROJECT`.",
            Reason.NOT_A_MEMBER: "An admin adds you to `members`.",
            Reason.NO_SUCH_POOL: "Leave `--pool` out, or name one of the pools in `gpushare.toml`.",
            Reason.NO_SUCH_DEVICE: "Fewer GPUs (all of a share are on one host), a smaller part, or another kind.",
            Reason.PARKED_MEMORY_IS_LARGER: "Run a cell, free memory there, and ask again; or ask for a larger share.",
        },
    ),
    Group(
        "Waits",
        "It goes on by itself. Nothing has to be done, and nothing is lost.",
        {
            Reason.WAITING_FOR_QUOTA: "Time, or an admin who gives the project a larger quota or weight.",
            Reason.WAITING_FOR_DEVICE: "Time. A smaller share may fit sooner.",
            Reason.WAITING_FOR_SAME_DEVICE: "Time: what is parked comes back to the GPU that it left, and to no other.",
            Reason.WAITING_FOR_CALL_BACK: "Time: at most the job's grace and its copy.",
            Reason.WAITING_FOR_MINIMUM_TURN: "Time: at most the pool's `minimum_turn`.",
            Reason.WAITING_FOR_COPIES: "Time; or an admin who raises `copies` or `saves` of the host.",
            Reason.WAITING_FOR_BACK_OFF: "Time: `backoff` since its last turn began, doubled with each turn lost.",
            Reason.BLOCKED_BY_FRAGMENTATION: "Time; `consolidation = true` lets training be moved for it. A notebook "
            "waits so only where reclaiming all training above its project's quota does not help.",
            Reason.BLOCKED_BY_FOREIGN_MEMORY: "End those programs; `nvidia-smi` names them.",
            Reason.BLOCKED_BY_DRAIN: "Time, until other GPUs have room; an admin says `admin drain --undo`.",
            Reason.LOAN_TOO_SHORT: "A smaller `--start-cost` or `--grace`; an admin may raise `lend_at_least`.",
        },
    ),
    Group(
        "Not parked",
        "The notebook goes on running with its share.",
        {
            Reason.PARKING_STOPPED: "An admin says `jupyter gpushare admin stop-parking --undo`.",
            Reason.NO_HOST_MEMORY: "Resume or end something that is parked; an admin may raise `parking_budget`.",
            Reason.NOT_PARKABLE: "The sidebar says which condition stands against it; [all of them](preflight.md).",
            Reason.PARKING_IS_OFF: 'An admin sets `parking = "park"` in the pool.',
        },
    ),
    Group(
        "Yields",
        "It gives its share up for now: a notebook is parked, a job is parked or saves, stops and waits.",
        {
            Reason.CALLED_BACK: "Nothing: the job goes on by itself when there is room again.",
            Reason.RECLAIMED: "Nothing: as above. Training inside its project's quota is not reclaimed; inside its "
            "fair share it is only for a notebook for which nothing else makes room.",
            Reason.MOVED: "Nothing: it has a place already. An admin may turn `consolidation` off.",
            Reason.DRAINED: "Nothing: it goes on elsewhere, or here after `admin drain --undo`.",
            Reason.TURN_IS_OVER: "Nothing: the next cell brings the notebook back in its turn.",
        },
    ),
    Group(
        "Over, or in trouble",
        "",
        {
            Reason.TOO_MANY_RECLAIMS: "Start it again, with a higher `--max-reclaims`.",
            Reason.HOLDER_GONE: "Start it again.",
            Reason.NOT_TAKEN_UP: "Ask again, and leave the page open; an admin may raise the spawner's start_timeout.",
            Reason.DEVICE_GONE: "A job starts again elsewhere by itself; a parked notebook waits for its GPU.",
            Reason.OVER_COMMITTED: "Time, until enough has ended, or a larger quota or budget; nothing is taken away.",
        },
    ),
)
#: A value for every name that a sentence may hold: itself, in braces.
_NAMES: Final = {name: f"{{{name}}}" for name in ("project", "projects", "quota", "used", "limit", "pool", "share")}


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([_INTRODUCTION, *(_section(group) for group in GROUPS)])


def _section(group: Group) -> str:
    rows = [f"| `{reason}` | {explain(reason, **_NAMES).text} | {helps} |\n" for reason, helps in group.helps.items()]
    meaning = f"{group.meaning}\n\n" if group.meaning else ""
    return (
        f"## {group.title}\n\n{meaning}| code | what people read | what helps |\n| --- | --- | --- |\n{''.join(rows)}"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
