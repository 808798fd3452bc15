"""The layer rule: the ground stands on the standard library, and the contracts notice who reaches up."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jupyter_gpushare"
GROUND = {"quantity.py", "share.py", *(f"rules/{path.name}" for path in (PACKAGE / "rules").glob("*.py"))}


def imported(file: Path) -> set[str]:
    """The modules that *file* imports anywhere, for type checkers too."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("file", sorted(GROUND))
def test_the_ground_stands_on_the_standard_library(file: str) -> None:
    """Quantities, shares and rules stay usable and testable without any framework."""
    ours = ("jupyter_gpushare.quantity", "jupyter_gpushare.share", "jupyter_gpushare.rules")
    strangers = {
        name
        for name in imported(PACKAGE / file)
        if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith(ours)
    }
    assert not strangers


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which imports may be planted."""
    folder = tmp_path_factory.mktemp("layers")
    left_out = shutil.ignore_patterns("__pycache__", "labextension")
    shutil.copytree(PACKAGE, folder / "jupyter_gpushare", ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.parametrize(
    ("file", "planted", "contract"),
    [
        ("rules/loss.py", "import jupyter_gpushare.session.wire", "Layers"),
        ("schedulers/planted.py", "import jupyter_gpushare.hub", "Layers"),
        ("planted.py", "", "planted"),
        ("notebook/planted.py", "import jupyter_gpushare.devices.device", "The notebook side"),
        ("share.py", "import msgspec", "Frameworks never enter"),
        ("hub/planted.py", "import jupyter_gpushare.session.wire", "Layers"),
        ("session/planted.py", "import pynvml", "GPU drivers"),
        ("schedulers/planted.py", "import kubernetes_asyncio", "JupyterHub and Kubernetes"),
        ("devices/planted.py", "import jupyter_server", "Devices, parking, schedulers"),
    ],
)
def test_a_planted_import_breaks_its_contract(copy: Path, file: str, planted: str, contract: str) -> None:
    """Each contract really fails for what it forbids; a new package must find its place among the layers."""
    target = copy / "jupyter_gpushare" / file
    before = target.read_text() if target.exists() else None
    target.write_text(f"{before or ''}\n{planted}\n")
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    outcome = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=100)
    if before is None:
        target.unlink()
    else:
        target.write_text(before)
    assert outcome.returncode == 1
    assert contract in outcome.stdout.partition("Broken contracts")[2]
