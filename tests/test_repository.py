"""The repository keeps its promises: versions are pinned, commands exist, rules are enforced."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "hub_config").rglob("*.md")])


def script(name: str) -> Any:
    """One of the Python files in scripts/, imported."""
    specification = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def run_script(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the repository that is expected to stop early."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_every_dependency_is_pinned_to_one_version() -> None:
    """A fresh clone installs what was tested: each requirement of each extra has its line in constraints.txt."""
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[a-z0-9-]+==[^ ]+( ; .+)?", pin) for pin in pins)
    pinned = {pin.partition("==")[0] for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "amd"}
    requirements = [*project["dependencies"], *(each for wanted in extras.values() for each in wanted)]
    names = {re.split(r"[\[<>=!~; ]", each)[0].lower().replace("_", "-") for each in requirements}
    assert names - pinned == {"jupyter-gpushare"}


@pytest.mark.parametrize("lock", ["constraints.txt", "labextension/yarn.lock", "tests/hub/package-lock.json"])
def test_locks_work_with_any_registry(lock: str) -> None:
    """No lock file ties the project to the package registry of the machine that wrote it."""
    text = (ROOT / lock).read_text()
    assert "resolved" not in text or lock.endswith("yarn.lock")
    assert not re.search(r"https?://(?!json\.schemastore)[^\s\"]*\.(tgz|whl)", text)


def test_make_targets_name_what_exists() -> None:
    """No command of the Makefile points at a script that is not there, and every script can be run."""
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"scripts/[\w.-]+", makefile))
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
    programs = [ROOT / "benchmarks" / name for name in sorted(set(re.findall(r"-m benchmarks\.(\w+)", makefile)))]
    assert programs
    assert [
        each for each in programs if not (each.with_suffix(".py").exists() or (each / "__main__.py").exists())
    ] == []
    for name in [".ci/run", "scripts/prepare", "scripts/find-chromium", "scripts/lock", "scripts/check-wheel"]:
        assert os.access(ROOT / name, os.X_OK), name


def test_documents_name_commands_that_exist() -> None:
    """Each `make` command in the documents is a target, so nobody is sent to a command that is not there."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for file in DOCUMENTS for word in re.findall(r"`make ([a-z-]+)", file.read_text())}
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    """Pictures and pages that a document links to are in the tree."""
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize(
    ("name", "text", "offence"),
    [
        ("jupyter_gpushare/utils.py", "", "says nothing"),
        ("labextension/src/helpers.ts", "", "says nothing"),
        ("a.lock", "from https://registry" + ".npmjs.org/x", "registry"),
        ("a.txt", "--index-url https://py" + "pi.org/simple", "registry"),
        ("a.md", "see /ro" + "ot/notes", "one machine"),
        ("a.py", "try:\n    f()\nexcept ValueError:\n    pass\n", "swallowed"),
        ("a.py", "try:\n    f()\nexcept ValueError:\n    ...\n", "swallowed"),
        ("a.py", "x = 1\n" * 401, "two ideas"),
        ("a.py", "def f[T](x: T: T:\n", "not Python"),
    ],
)
def test_the_domain_rules_notice_an_offence(name: str, text: str, offence: str) -> None:
    """Each rule of the domain lint finds what it forbids."""
    assert any(offence in found for found in script("domain_lint").offences(name, text))


@pytest.mark.parametrize("text", ["registry.get(name)\n", "/gpushare/api/v1\n", "~/homework/data\n", "$HOME/root/x\n"])
def test_the_domain_rules_leave_the_rest_alone(text: str) -> None:
    """What only looks like an offence is none, so that nobody learns to ignore the lint."""
    assert list(script("domain_lint").offences("jupyter_gpushare/share.md", text)) == []


def test_a_part_without_tests_has_failed(tmp_path: Path) -> None:
    """Counting is honest: errors are failures, skipped tests did not pass, and jest's broken suites count."""
    junit = tmp_path / "report.xml"
    junit.write_text('<testsuites><testsuite tests="7" failures="1" errors="2" skipped="1"/></testsuites>')
    assert script("run_tests").count_junit(junit) == (3, 3, 1)
    jest = tmp_path / "report.json"
    counted = {"numPassedTests": 5, "numFailedTests": 1, "numRuntimeErrorTestSuites": 1, "numPendingTests": 2}
    jest.write_text(json.dumps(counted))
    assert script("run_tests").count_jest(jest) == (5, 2, 2)


def test_an_unknown_part_is_named() -> None:
    """`make test PARTS=unt` does not run nothing and call it passed."""
    assert script("run_tests").main(["unt"]) == 2


def test_set_up_without_python_says_what_to_run(tmp_path: Path) -> None:
    """A machine without a usable Python learns the exact line to run, and nothing is left behind."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    outcome = run_script(tmp_path, "scripts/prepare", "demo", PYTHON="/bin/false")
    assert outcome.returncode == 1
    assert "Python 3.11 or newer is needed" in outcome.stderr
    assert re.search(r"^\[setup\] run:  (sudo )?apt-get install -y python3 python3-venv$", outcome.stderr, re.MULTILINE)
    assert not (tmp_path / ".venv").exists()


def test_a_wrong_chromium_is_named_and_not_replaced() -> None:
    """Somebody who chose a browser that does not start is told so."""
    outcome = run_script(ROOT, "scripts/find-chromium", CHROMIUM="/bin/false")
    assert outcome.returncode == 1
    assert "CHROMIUM=/bin/false does not start" in outcome.stderr
