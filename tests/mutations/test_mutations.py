"""The suite must notice when the product lies, does nothing, or lets everybody in.

Each mutation replaces text in a *copy* of the package and runs the tests that should notice. If they pass, this
fails. A mutation whose text is not found exactly once is out of date, and fails as well: mend its table.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mutations import broker, claims, gate, hub, parking, rules, sharing

if TYPE_CHECKING:
    from types import ModuleType

    from tests.mutations.mutation import Mutation

ROOT = Path(__file__).parent.parent.parent
LEFT_OUT = shutil.ignore_patterns("*.pyc.*", "node_modules", "labextension", "mutations", "golden")

TABLES = (sharing, parking, gate, rules, broker, claims, hub)
MUTATIONS = [mutation for table in TABLES for mutation in table.MUTATIONS]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and its tests, which may be damaged. Byte code comes along: compiling takes longer."""
    for folder in ("jupyter_gpushare", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=LEFT_OUT)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run_python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where the copy hides the real package, in child processes too."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def run_tests(copy: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run *tests* against the copy, up to the first that fails."""
    return run_python(copy, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__.rpartition(".")[2])
def test_without_a_mutation_everything_passes(table: ModuleType, copy: Path) -> None:
    """The copy itself makes no test fail, and it is the copy that is tested."""
    where = run_python(copy, "-c", "import jupyter_gpushare; print(jupyter_gpushare.__file__)")
    assert where.stdout.startswith(str(copy))
    outcome = run_tests(copy, *sorted({test for mutation in table.MUTATIONS for test in mutation.tests}))
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_noticed(mutation: Mutation, copy: Path) -> None:
    """Tests fail when the product is broken in this way: not by an import error, but by what they assert."""
    mutation.apply(copy / "jupyter_gpushare")
    outcome = run_tests(copy, *mutation.tests)
    noticed = outcome.returncode == 1 and re.search(r"^FAILED tests/", outcome.stdout, re.MULTILINE)
    assert noticed, f"{mutation.name}: nobody noticed (exit {outcome.returncode})\n{outcome.stdout}{outcome.stderr}"
