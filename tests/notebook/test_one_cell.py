"""`%%gpushare`: the cell runs exactly as without it, and its GPU memory is handed back afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell

from jupyter_gpushare.notebook.magic import GpuShareMagics
from jupyter_gpushare.notebook.one_cell import note_wish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.notebook.fake_server import FakeServer


@pytest.fixture(name="shell")
def _shell(tmp_path: Any) -> Iterator[InteractiveShell]:
    """A real IPython shell with our magic."""
    shell = InteractiveShell(ipython_dir=str(tmp_path), colors="nocolor")  # type: ignore[no-untyped-call]
    magics = GpuShareMagics(shell)
    magics.install()
    shell.user_ns["take_away"] = magics.remove
    yield shell
    assert shell.history_manager is not None
    shell.history_manager.end_session()


def parks(server: FakeServer) -> list[Any]:
    """The wishes to park that the server heard."""
    return [seen.body for seen in server.seen if seen.method == "POST" and seen.body["level"] == "park"]


def run(shell: InteractiveShell, code: str) -> Any:
    """Run a cell as a notebook does, and return its result."""
    return shell.run_cell(code, store_history=True)  # type: ignore[no-untyped-call]


def test_the_cell_runs_first_and_then_is_handed_back(
    server: FakeServer, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wish is sent when the cell's own work is done, once, and the card stands below its output."""
    shell.user_ns["asked"] = lambda: len(parks(server))
    result = run(shell, "%%gpushare\nbefore = asked()\nprint('working')\nbefore + 40")
    assert result.result == 40
    assert len(parks(server)) == 1
    printed = capsys.readouterr().out
    assert printed.index("working") < printed.index("This cell has ended: 6.1 GB move to host memory.")
    run(shell, "1")
    assert len(parks(server)) == 1


def test_an_error_is_shown_once_at_its_line_and_the_gpu_is_handed_back(
    server: FakeServer, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failing cell fails as it always does, "run all" stops at it, and it does not hold the GPU."""
    result = run(shell, "%%gpushare\nx = 1\nraise ValueError('mine')")
    assert isinstance(result.error_in_exec, ValueError)
    printed = capsys.readouterr().out
    assert printed.count("ValueError: mine") == 1
    assert "----> 3 raise ValueError" in printed
    assert len(parks(server)) == 1


def test_a_syntax_error_runs_nothing_and_hands_nothing_back(
    server: FakeServer, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell that never began has taken nothing."""
    result = run(shell, "%%gpushare\nx = = 1")
    assert isinstance(result.error_before_exec, SyntaxError)
    assert ":2\n    x = = 1" in capsys.readouterr().out
    assert parks(server) == []


def test_top_level_await_works(server: FakeServer, shell: InteractiveShell) -> None:
    """A cell may await, as in any notebook."""
    assert run(shell, "%%gpushare\nimport asyncio\nawait asyncio.sleep(0, 7)").result == 7
    assert len(parks(server)) == 1


def test_magics_within_keep_their_meaning(
    server: FakeServer, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another cell magic may follow, and a cell run within the cell does not end it."""
    run(shell, "%%gpushare\n\n%%capture kept\nprint('inside')")
    assert shell.user_ns["kept"].stdout == "inside\n"
    assert "This cell has ended" in capsys.readouterr().out
    run(shell, "%%capture kept\n%%gpushare\nprint('inside')")
    assert shell.user_ns["kept"].stdout.startswith("inside\n")
    assert len(parks(server)) == 2


def test_a_program_may_call_the_magic(server: FakeServer, shell: InteractiveShell) -> None:
    """Called as a function it runs the code given to it, in the user's namespace, and its errors go to the caller."""
    run(shell, "get_ipython().run_cell_magic('gpushare', '', 'y = 5\\n')")
    assert shell.user_ns["y"] == 5
    result = run(shell, "get_ipython().run_cell_magic('gpushare', '', '1/0')")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert len(parks(server)) == 2


def test_words_after_it_are_refused_before_anything_runs(
    server: FakeServer, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misunderstanding is cleared up before the cell does its work."""
    result = run(shell, "%%gpushare 2h\nran = True")
    assert not result.success
    assert "takes no words, but '2h' stands after it" in capsys.readouterr().err
    assert "ran" not in shell.user_ns
    assert parks(server) == []


def test_a_refusal_stands_below_the_cell(
    server: FakeServer, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cell's result counts; that it could not be parked is told, not raised."""
    server.refusal = ("NOT_X86", "This machine is no x86-64.", "There is no remedy.")
    assert run(shell, "%%gpushare\n5").success
    assert "Cannot park: This machine is no x86-64." in capsys.readouterr().out


def test_unloaded_it_leaves_the_shell_as_it_was(shell: InteractiveShell) -> None:
    """No transformer, magic or event of ours stays behind."""
    before = {event: list(callbacks) for event, callbacks in shell.events.callbacks.items()}
    shell.user_ns["take_away"]()
    assert shell.events.callbacks == before
    assert note_wish not in shell.input_transformers_cleanup
    assert "gpushare" not in shell.magics_manager.magics["cell"]
    assert "gpushare" not in shell.magics_manager.magics["line"]


@pytest.mark.parametrize("code", ["%gpushare\n", "x = '''\n%%gpushare\n'''\n", "%%gpushare?\n", "%%gpushares\nx\n", ""])
def test_other_cells_are_left_alone(code: str) -> None:
    """Only a first line that is the magic is touched."""
    lines = code.splitlines(keepends=True)
    assert note_wish(lines) == lines


def test_a_console_knows_when_the_cell_is_complete() -> None:
    """In a terminal the cell ends where Python says so, as without the magic."""
    manager = TransformerManager()  # type: ignore[no-untyped-call]
    manager.cleanup_transforms.append(note_wish)
    assert manager.check_complete("%%gpushare\nfor i in x:")[0] == "incomplete"
    assert manager.check_complete("%%gpushare\nx = 1\n")[0] == "complete"
