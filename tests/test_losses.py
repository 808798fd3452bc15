"""Every ending of user state goes through one place, as a Loss (DESIGN 2)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "jupyter_gpushare"
ENDINGS = {
    "delete_session", "kill", "killpg", "pidfd_send_signal", "restart_kernel", "send_signal", "shutdown_all",
    "shutdown_kernel", "terminate",
}  # fmt: skip
ALLOWED = {
    "session/kernels.py": "ends a kernel, for a release that announced its Loss",
    "broker/privileged/program.py": "ends one process as a declared Loss, off until gpushare.toml turns it on",
    "demo/processes.py": "ends only what the demo itself started",
    "session/isolation/mps_daemon.py": "ends an MPS daemon of ours that did not come up",
    "session/overrun.py": "ends the offender of its own session as Loss.OVERRUN_OF_ITS_OWN, announced right before",
    "session/provisioner.py": "Jupyter's own end of a kernel, after the isolation mode was asked",
    "parking/remote_checkpoint.py": "ends only its own checkpoint process",
    "parking/recovery.py": "ends an orphan of a dead server, announced as Loss.ORPHAN_OF_A_DEAD_SERVER",
    "parking/stopping.py": "the signal itself, by handle: stop, go on, and what recovery announced as a Loss",
    "training/child.py": "signals run's own job; its end after the grace is announced as Loss.JOB_STOPPED_AFTER_GRACE",
    "parking/trial.py": "ends only the programs that the doctor itself started",
}


def endings(text: str) -> list[int]:
    """The lines of *text* that call something which ends a process or a kernel."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = [(call.lineno, getattr(call.func, "attr", getattr(call.func, "id", ""))) for call in calls]
    return [line for line, name in names if name in ENDINGS]


@pytest.mark.parametrize("file", sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")))
def test_nothing_else_ends_user_state(file: str) -> None:
    """A kill outside the places that announce their Loss is noticed, wherever somebody adds it."""
    found = endings((PACKAGE / file).read_text())
    assert not found or file in ALLOWED, f"{file}, lines {found}: make it a Loss, or say in ALLOWED why it is none"


@pytest.mark.parametrize("code", ["os.kill(1, 9)", "process.terminate()", "await manager.shutdown_kernel('1')"])
def test_an_ending_is_recognised(code: str) -> None:
    """The check knows the calls by which processes and kernels end."""
    assert endings(f"async def f():\n    {code}\n") == [2]
