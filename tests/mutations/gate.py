"""Lies about what reaches a parked kernel, and about when a kernel may be parked by itself."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

TREATMENT = "session/gate/treatment.py"
CLOSED_GATE = "tests/session/gate/test_gate.py::test_the_gate_needs_no_part_inside_the_kernel"
EACH_ROW = "tests/session/gate/test_treatment.py::test_each_row"

MOVES = "session/parking/moves.py"
NOTICES_MOVES = "tests/session/parking/test_moves.py"

MUTATIONS = [
    Mutation(
        name="the barrier is skipped: a park asks for none",
        file=MOVES,
        original="            await gate.barrier(deadlines.barrier_s)\n",
        mutated="            await asyncio.sleep(0)\n",
        tests=(f"{NOTICES_MOVES}::test_a_kernel_that_does_not_become_quiet_is_not_touched",),
    ),
    Mutation(
        name="preflight's no is not heard",
        file=MOVES,
        original="        if isinstance(examined.verdict, NotParkable):\n",
        mutated="        if examined is None:\n",
        tests=(f"{NOTICES_MOVES}::test_what_preflight_refuses_is_not_moved",),
    ),
    Mutation(
        name="the gate opens before there was room",
        file=MOVES,
        original="            parking.why = error.message.text\n",
        mutated="            self.open_gate(parking)\n",
        tests=(f"{NOTICES_MOVES}::test_the_gate_opens_last",),
    ),
    Mutation(
        name="the barrier is skipped: the gate says that all is quiet",
        file="session/gate/gate.py",
        original="            self.kernel_info = await await_quiet(self._manager, self._disturbed, deadline_s)\n",
        mutated="            self.kernel_info = {}\n",
        tests=("tests/session/gate/test_barrier.py::test_the_barrier_waits_for_a_cell_that_is_running",),
    ),
    Mutation(
        name="the barrier does not wait for the main shell",
        file="session/gate/barrier.py",
        original="    await main\n",
        mutated="",
        tests=("tests/session/gate/test_barrier.py::test_the_barrier_waits_for_a_cell_that_is_running",),
    ),
    Mutation(
        name="the closed gate lets every message of a page through",
        file="session/gate/connection.py",
        original="        if gate is None or gate.is_open or not self._take(gate, incoming_msg):\n",
        mutated="        if gate is None or incoming_msg is not None:\n",
        tests=(CLOSED_GATE,),
    ),
    Mutation(
        name="the part inside the kernel lets every message through",
        file="notebook/gate.py",
        original='        if not self.is_closed or message["header"]["msg_type"] in _PASS:\n',
        mutated="        if message:\n",
        tests=("tests/notebook/test_gate.py::test_what_knows_nothing_is_answered",),
    ),
    Mutation(
        name="a cell passes the closed gate",
        file=TREATMENT,
        original='    "comm_close": _HOLD,\n',
        mutated='    "comm_close": _HOLD,\n    "execute_request": _PASS,\n',
        tests=(EACH_ROW,),
    ),
    Mutation(
        name="completion wakes a parked kernel",
        file=TREATMENT,
        original='    "complete_request": _ANSWER,\n',
        mutated='    "complete_request": _WAKE,\n',
        tests=(EACH_ROW,),
    ),
    Mutation(
        name="what is held is forgotten when the gate opens",
        file="session/gate/gate.py",
        original="        self._deliver(queue)\n",
        mutated="        queue.clear()\n",
        tests=("tests/session/gate/test_gate.py::test_fifty_cells_wait_and_run_in_order",),
    ),
    Mutation(
        name="Keep for… keeps nothing",
        file="session/idle/table.py",
        original="evidence.kept_until is not None and evidence.kept_until > now,\n",
        mutated="now < 0,\n",
        tests=("tests/session/idle/test_policy.py::test_evidence_is_judged_as_the_table_says",),
    ),
    Mutation(
        name="a kernel that computes behind its cells counts as idle",
        file="session/idle/table.py",
        original="not policy.allow_background_work and _is_in_use(evidence.cpu),\n",
        mutated="now < 0,\n",
        tests=("tests/session/idle/test_watch.py::test_work_behind_the_cells_keeps_a_kernel",),
    ),
]
