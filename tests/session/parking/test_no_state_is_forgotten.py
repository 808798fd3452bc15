"""Every code that people may read of parking is named by a test that has a real server say it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_gpushare
from jupyter_gpushare.parking import trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(jupyter_gpushare.__file__).parent
TESTS = Path(__file__).parents[1]
#: Where the sentences are made that stand in the sidebar, in a cell's answer and in notices.
MAKERS = (
    "parking/trouble.py",
    "session/idle/observer_sentences.py",
    "session/parking/release.py",
    "session/parking/sentences.py",
    "session/release_sentences.py",
    "session/snapshot.py",
    "session/state.py",
)
#: A test that asks for one of these has a real Jupyter Server behind it.
REAL = {"api", "jp_serverapp", "park", "session", "start_kernel", "holding", "state_is"}


@pytest.fixture(autouse=True)
def _begun() -> None:
    """No server is wanted here."""


def made_in(source: str) -> Iterator[str]:
    """The codes that stand there, but for the module's list of names and the parts of those that are put together."""
    waiting: list[ast.AST] = [node for node in ast.parse(source).body if not _is_list_of_names(node)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and is_code(node.value):
            yield str(node.value)
        elif not isinstance(node, ast.JoinedStr):
            waiting.extend(ast.iter_child_nodes(node))


def _is_list_of_names(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]


def named_in(source: str) -> Iterator[str]:
    """The codes that tests with a real server name, as text or by the constant of that name."""
    for test in ast.parse(source).body:
        if isinstance(test, ast.AsyncFunctionDef) and REAL & {each.arg for each in test.args.args}:
            for node in ast.walk(test):
                if isinstance(node, ast.Constant) and is_code(node.value):
                    yield str(node.value)
                elif isinstance(node, ast.Name) and is_code(node.id):
                    yield node.id


def is_code(value: Any) -> bool:
    """Whether it is written as codes are."""
    return isinstance(value, str) and value.isidentifier() and value.isupper()


def test_every_code_is_said_by_a_real_server() -> None:
    """A state, a reason or an outcome that is new fails here until a real server has been brought to say it."""
    made = {code for file in MAKERS for code in made_in((PACKAGE / file).read_text())}
    made |= {f"RECOVERED_{outcome.upper()}" for outcome in trouble._RECOVERED}
    named = {code for file in TESTS.rglob("test_*.py") for code in named_in(file.read_text())}
    assert {"PARKED", "INTERNAL_ERROR", "HOLDING", "GPU_BUSY"} <= made
    assert made - named == set()


def test_a_new_code_is_found() -> None:
    """The search itself: it finds a code wherever one is made, and takes no test for real that has no server."""
    module = (
        "__all__ = ['NAME']\nX = _refusal('NEW', 'its text', f'{X}_REMEDY')\ndef f(): return Message('NEWER', '', {})"
    )
    assert set(made_in(module)) == {"NEW", "NEWER"}
    tests = "async def test_real(api): assert api('x') == ('NEW', OLD)\nasync def test_fake(bench): assert 'NEWER'"
    assert set(named_in(tests)) == {"NEW", "OLD"}
