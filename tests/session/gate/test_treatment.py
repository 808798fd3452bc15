"""The table of what a closed gate does, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.session.gate.answers import empty_answer, reply_type
from jupyter_gpushare.session.gate.treatment import Treatment, treatment_of

PASS, ANSWER, HOLD, WAKE = Treatment
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("channel", "kind", "treatment"),
    [
        ("shell", "kernel_info_request", PASS),
        ("shell", "comm_info_request", PASS),
        ("shell", "history_request", PASS),
        ("shell", "complete_request", ANSWER),
        ("shell", "inspect_request", ANSWER),
        ("shell", "is_complete_request", ANSWER),
        ("shell", "comm_close", HOLD),
        ("shell", "execute_request", WAKE),
        ("shell", "shutdown_request", WAKE),
        ("shell", "gpushare_free_request", WAKE),
        ("shell", "usage_request", WAKE),
        ("shell", "", WAKE),
        ("control", "kernel_info_request", PASS),
        ("control", "interrupt_request", PASS),
        ("control", "usage_request", PASS),
        ("control", "create_subshell_request", PASS),
        ("control", "delete_subshell_request", PASS),
        ("control", "list_subshell_request", PASS),
        ("control", "execute_request", WAKE),
        ("control", "complete_request", WAKE),
        # Its own way out would touch the GPU; a shutdown through the server is plain.
        ("control", "shutdown_request", WAKE),
        # Only the server itself asks these, in its own time.
        ("control", "gpushare_free_request", WAKE),
        ("control", "gpushare_probe_request", WAKE),
        ("stdin", "input_reply", PASS),
        ("stdin", "execute_request", WAKE),
        ("iopub", "execute_request", WAKE),
    ],
)
def test_each_row(channel: str, kind: str, treatment: Treatment) -> None:
    """What may run user code waits and wakes; what only asks passes or is answered."""
    assert treatment_of(channel, kind, {}) is treatment


@pytest.mark.parametrize(
    ("kind", "content", "treatment"),
    [
        ("comm_open", {"target_name": "jupyter.widget.control"}, HOLD),
        ("comm_open", {"target_name": "jupyter.widget"}, WAKE),
        ("comm_msg", {"comm_id": "quiet", "data": {"method": "custom"}}, HOLD),
        ("comm_msg", {"comm_id": "c", "data": {"method": "request_states"}}, HOLD),
        ("comm_msg", {"comm_id": "c", "data": {"method": "request_state"}}, HOLD),
        ("comm_msg", {"comm_id": "c", "data": {"method": "update", "state": {"_view_count": 2}}}, HOLD),
        ("comm_msg", {"comm_id": "c", "data": {"method": "update", "state": {"_view_count": 2, "value": 1}}}, WAKE),
        ("comm_msg", {"comm_id": "c", "data": {"method": "update", "state": {}}}, WAKE),
        ("comm_msg", {"comm_id": "c", "data": {"method": "custom"}}, WAKE),
        ("comm_msg", {"comm_id": ["quiet"], "data": 5}, WAKE),
        ("comm_msg", {}, WAKE),
    ],
)
def test_a_page_that_loads_is_told_from_a_click(kind: str, content: dict[str, Any], treatment: Treatment) -> None:
    """Widgets' own traffic while a page loads waits quietly; what a person does to a widget wakes."""
    assert treatment_of("shell", kind, content, {"quiet"}) is treatment


@pytest.mark.parametrize(
    ("command", "treatment"),
    [
        ("debugInfo", PASS),
        ("evaluate", ANSWER),
        ("inspectVariables", ANSWER),
        ("dumpCell", HOLD),
        ("setBreakpoints", HOLD),
        ("initialize", WAKE),
        (None, WAKE),
        (["evaluate"], WAKE),
    ],
)
def test_the_debugger_waits(command: Any, treatment: Treatment) -> None:
    """What Lab asks the debugger at each load and each Tab wakes nothing; switching it on does."""
    assert treatment_of("control", "debug_request", {"command": command}) is treatment
    assert treatment_of("shell", "debug_request", {"command": command}) is WAKE


@given(st.text(), st.text(), st.dictionaries(st.text(), JSON, max_size=4))
def test_whatever_is_unknown_waits(channel: str, kind: str, content: dict[str, Any]) -> None:
    """No content makes a message of an unknown type pass, or breaks the table."""
    assert treatment_of(channel, f"x{kind}", content) is WAKE
    assert treatment_of("shell", "execute_request", content) is WAKE
    assert treatment_of("shell", "comm_msg", content) in {HOLD, WAKE}


@given(st.sampled_from(["complete_request", "inspect_request", "is_complete_request", "debug_request"]), JSON)
def test_an_empty_answer_is_an_answer(kind: str, cursor: Any) -> None:
    """Whatever stands for the cursor, the reply is one that a page can read."""
    answer = empty_answer(kind, {"cursor_pos": cursor})
    assert reply_type(kind) == kind.replace("request", "reply")
    assert answer.get("status", "ok") in {"ok", "unknown"}
    assert answer.get("success", False) is False
    if kind == "complete_request":
        assert isinstance(answer["cursor_start"], int)
