"""What is sufficient evidence for idle: the one table, from which the policy judges and `docs/idle.md` is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.session.idle.evidence import Activity

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.session.idle.evidence import Evidence, Signal
    from jupyter_gpushare.session.wire import PolicyModel

__all__ = ["ROWS", "Row", "first_veto", "idle_since", "markdown"]


@dataclass(frozen=True, slots=True)
class Row:
    """One veto: what is looked at, where it is read, when it lets the kernel count as idle, and the test for it."""

    activity: Activity
    looks_at: str
    read_from: str
    idle_when: str
    vetoes: Callable[[Evidence, PolicyModel, float], bool]


ROWS: Final = (
    Row(
        Activity.CELL_RUNNING,
        "cells",
        "the kernel's own messages: `execute_input` and the `idle` that answers an `execute_request`",
        "none runs; polls, live widgets, completion, history and usage requests are no cells",
        lambda evidence, _, __: evidence.cell_began is not None,
    ),
    Row(
        Activity.KERNEL_BUSY,
        "what Jupyter says the kernel does",
        "the server's `execution_state`",
        "it says `idle` at the moment of looking; this alone never begins the time anew",
        lambda evidence, _, __: evidence.execution_state != "idle",
    ),
    Row(
        Activity.MESSAGES_HELD,
        "messages that wait for it",
        "the gate",
        "none that would wake it",
        lambda evidence, _, __: evidence.held > 0,
    ),
    Row(
        Activity.CPU_IN_USE,
        "CPU time of the kernel and all its child processes",
        "`/proc`, ended children included",
        "at most 0.6 s within any 60 s; not asked where background work is allowed",
        lambda evidence, policy, _: not policy.allow_background_work and _is_in_use(evidence.cpu),
    ),
    Row(
        Activity.CPU_UNREADABLE,
        "the same",
        "the same",
        "it can be read; not asked where background work is allowed",
        lambda evidence, policy, _: not policy.allow_background_work and not evidence.cpu.readable,
    ),
    Row(
        Activity.GPU_IN_USE,
        "GPU use",
        "the first that can be read of: the driver's utilisation of its processes; the utilisation of its whole "
        "devices while that is zero; the byte counters of its GPU frameworks (MIG, pods without host pids)",
        "0 %, or the counters unchanged",
        lambda evidence, _, __: _is_in_use(evidence.gpu),
    ),
    Row(
        Activity.GPU_UNREADABLE,
        "the same",
        "the same",
        "at least one of them can be read",
        lambda evidence, _, __: not evidence.gpu.readable,
    ),
    Row(
        Activity.KEPT,
        "**Keep for…**",
        "its owner",
        "no lock, or the lock has ended",
        lambda evidence, _, now: evidence.kept_until is not None and evidence.kept_until > now,
    ),
)


def first_veto(evidence: Evidence, policy: PolicyModel, now: float) -> Activity | None:
    """What speaks against idle, None when nothing does."""
    return next((row.activity for row in ROWS if row.vetoes(evidence, policy, now)), None)


def idle_since(evidence: Evidence, policy: PolicyModel) -> float:
    """Since when everything that is asked for has been quiet; only meaningful without a veto."""
    signals = [evidence.gpu] if policy.allow_background_work else [evidence.gpu, evidence.cpu]
    quiet = [signal.quiet_since for signal in signals if signal.quiet_since is not None]
    return max(evidence.cell_ended, *quiet)


def markdown() -> str:
    """The table for the documentation."""
    head = ["| Looks at | Read from | Idle when | Otherwise |", "|---|---|---|---|"]
    rows = [f"| {row.looks_at} | {row.read_from} | {row.idle_when} | `{row.activity}` |" for row in ROWS]
    return "\n".join([*head, *rows])


def _is_in_use(signal: Signal) -> bool:
    return signal.readable and signal.quiet_since is None
