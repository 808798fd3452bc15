"""The suite must notice when the product lies, does nothing, or lets everybody in.

Each mutation replaces text in a *copy* of the package and runs the tests that should notice. If they pass, this
fails. A mutation whose text is not found exactly once is out of date, and fails as well: mend the table below.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "labextension", "mutations", "golden")

ATTRIBUTION = "devices/attribution.py"
RELEASE = "session/release.py"
AUTHORIZATION = "session/principal.py"
HANDLERS = "session/handlers.py"
NOTICES_ATTRIBUTION = ("tests/devices/test_attribution.py",)
NOTICES_RELEASE = ("tests/session/test_release.py::test_an_ended_kernel_is_attested_by_the_device",)
NOTICES_FREEING = ("tests/session/test_free_cache.py::test_what_is_cached_falls_and_what_is_used_stays",)
NOTICES_AUTHORIZATION = ("tests/session/test_authorization.py",)


@dataclass(frozen=True)
class Mutation:
    """A lie told in one place: in *file* of the package, *original* becomes *mutated*, and *tests* must fail."""

    name: str
    file: str
    original: str
    mutated: str
    tests: tuple[str, ...]

    def apply(self, package: Path) -> None:
        """Change the copy in *package*."""
        text = (package / self.file).read_text()
        found = text.count(self.original)
        assert found == 1, f"{self.name} is out of date: its text is found {found} times in {self.file}"
        (package / self.file).write_text(text.replace(self.original, self.mutated))


MUTATIONS = [
    Mutation(
        name="a session is given the whole device's memory",
        file=ATTRIBUTION,
        original="    memory = _sum(process.memory for process in mine)\n",
        mutated="    memory = use.memory\n",
        tests=NOTICES_ATTRIBUTION,
    ),
    Mutation(
        name="a notebook is given the whole device's memory",
        file=ATTRIBUTION,
        original="holder.by_device[use.uuid].append(process)\n",
        mutated="holder.by_device[use.uuid].append(type(process)(process.pid, use.memory, process.utilisation))\n",
        tests=NOTICES_ATTRIBUTION,
    ),
    Mutation(
        name="a release frees nothing",
        file=RELEASE,
        original="troubles += await self._free_cache(kernel)\n",
        mutated="troubles += []\n",
        tests=NOTICES_FREEING,
    ),
    Mutation(
        name="a release ends nothing",
        file=RELEASE,
        original="            await self._kernels.end(kernel.id)\n",
        mutated="            pass\n",
        tests=NOTICES_RELEASE,
    ),
    Mutation(
        name="the owner's word for one thing is taken for any other",
        file=RELEASE,
        original="        if not hmac.compare_digest(request.confirm.encode(), confirm.encode()):\n",
        mutated="        if not request.confirm:\n",
        tests=("tests/session/test_release.py::test_the_owners_word_is_for_what_was_announced",),
    ),
    Mutation(
        name="the authorizer says yes to every user",
        file=AUTHORIZATION,
        original="    if not await ensure_async(handler.authorizer.is_authorized(handler, user, action, RESOURCE)):\n",
        mutated="    if user is handler:\n",
        tests=NOTICES_AUTHORIZATION,
    ),
    Mutation(
        name="a kernel's token opens what is the user's alone",
        file=AUTHORIZATION,
        original='        if kernel_id is None or kernels == "no":\n',
        mutated="        if kernel_id is None:\n",
        tests=NOTICES_AUTHORIZATION,
    ),
    Mutation(
        name="a kernel's token releases every kernel",
        file=HANDLERS,
        original="        if self.speaking_kernel is not None and request.kernel_id != self.speaking_kernel:\n",
        mutated="        if request is None:\n",
        tests=NOTICES_AUTHORIZATION,
    ),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and its tests, which may be damaged."""
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


def test_without_a_mutation_everything_passes(copy: Path) -> None:
    """The copy itself makes no test fail, and it is the copy that is tested."""
    where = run_python(copy, "-c", "import jupyter_gpushare; print(jupyter_gpushare.__file__)")
    assert where.stdout.startswith(str(copy))
    everything = sorted({test for mutation in MUTATIONS for test in mutation.tests})
    outcome = run_tests(copy, *everything)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_noticed(mutation: Mutation, copy: Path) -> None:
    """Tests fail when the product is broken in this way: not by an import error, but by what they assert."""
    mutation.apply(copy / "jupyter_gpushare")
    outcome = run_tests(copy, *mutation.tests)
    noticed = outcome.returncode == 1 and re.search(r"^FAILED tests/", outcome.stdout, re.MULTILINE)
    assert noticed, f"{mutation.name}: nobody noticed (exit {outcome.returncode})\n{outcome.stdout}{outcome.stderr}"
