"""What becomes of a message that arrives while its kernel's gate is closed: the one table.

A kernel in that state must run nothing that could touch the GPU, and only what somebody waits for is worth
bringing its GPU state back. What is not listed is held and wakes: a message of unknown effect is the user's wish.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["CONTROL_COMM", "Treatment", "treatment_of"]

#: The comm target by which a page asks for the state of all widgets, at each of its reloads.
CONTROL_COMM: Final = "jupyter.widget.control"


class Treatment(Enum):
    """What the closed gate does with a message."""

    PASS = "pass"  # noqa: S105  # not a password
    ANSWER = "answer"
    HOLD = "hold"
    WAKE = "wake"


_PASS, _ANSWER, _HOLD, _WAKE = Treatment
_SHELL: Final = {
    "kernel_info_request": _PASS,
    "comm_info_request": _PASS,
    "connect_request": _PASS,
    "history_request": _PASS,
    "complete_request": _ANSWER,
    "inspect_request": _ANSWER,
    "is_complete_request": _ANSWER,
    "comm_close": _HOLD,
}
_CONTROL: Final = {
    "kernel_info_request": _PASS,
    "connect_request": _PASS,
    "interrupt_request": _PASS,
    "usage_request": _PASS,
    "create_subshell_request": _PASS,
    "delete_subshell_request": _PASS,
    "list_subshell_request": _PASS,
}
#: By command. Lab 4.6 also asks the debugger for completions and for what the mouse is over, at every Tab and hover.
_DEBUGGER: Final = {
    "debugInfo": _PASS,
    **dict.fromkeys(("evaluate", "inspectVariables", "richInspectVariables", "variables"), _ANSWER),
    **dict.fromkeys(("modules", "scopes", "source", "stackTrace"), _ANSWER),
    **dict.fromkeys(("dumpCell", "setBreakpoints", "setExceptionBreakpoints"), _HOLD),
}
_TABLE: Final[Mapping[str, Mapping[str, Treatment]]] = {
    "shell": _SHELL,
    "control": _CONTROL,
    "stdin": {"input_reply": _PASS},
}
#: What a page asks of widgets while it loads, without anybody's doing.
_LOADING: Final = frozenset({"request_state", "request_states"})
#: State of a widget by which a page counts where it is displayed.
_DISPLAY_STATE: Final = frozenset({"_view_count"})


def treatment_of(
    channel: str, kind: str, content: Mapping[str, Any], quiet_comms: Collection[str] = frozenset()
) -> Treatment:
    """What the closed gate does with a message.

    Args:
        channel: ``shell``, ``control`` or ``stdin``.
        kind: the message's type.
        content: its content; untrusted.
        quiet_comms: the comms of which nothing wakes: those of our own widget, and the control comm.
    """
    if kind in {"comm_open", "comm_msg"} and channel == "shell":
        return _HOLD if _is_quiet(kind, content, quiet_comms) else _WAKE
    if kind == "debug_request" and channel == "control":
        return _DEBUGGER.get(str(content.get("command")), _WAKE)
    return _TABLE.get(channel, {}).get(kind, _WAKE)


def _is_quiet(kind: str, content: Mapping[str, Any], quiet_comms: Collection[str]) -> bool:
    if str(content.get("comm_id")) in quiet_comms:
        return True
    if kind == "comm_open":
        return content.get("target_name") == CONTROL_COMM
    data = content.get("data")
    if not isinstance(data, dict):
        return False
    if data.get("method") in _LOADING:
        return True
    state = data.get("state")
    return data.get("method") == "update" and isinstance(state, dict) and state.keys() == _DISPLAY_STATE
