"""CONTRIBUTING.md names every page that is made from code, and how."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import Final

import pytest

from .guide import DOCS

ROOT: Final = DOCS.parent
PACKAGE: Final = ROOT / "jupyter_gpushare"
#: What a module that prints a page ends with.
_PRINTS: Final = re.compile(r'^if __name__ == "__main__":\n    (?:sys\.stdout\.write|print)\(page\(\)', re.MULTILINE)
_ROW: Final = re.compile(r"^\| (the table in )?`(docs/[\w-]+\.md)` \| `(.+)` \|$", re.MULTILINE)
_TEXT: Final = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS: Final = _ROW.findall(_TEXT)


def test_no_page_is_forgotten() -> None:
    """Whoever changes such a page by hand would lose it, and whoever changes the code must know what to run."""
    programs = [path for path in PACKAGE.rglob("*.py") if _PRINTS.search(path.read_text(encoding="utf-8"))]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in programs}
    named = {command.removeprefix("python -m ") for _, _, command in ROWS if command.startswith("python -m ")}
    assert len(modules) > 3
    assert named == modules
    made = {page.name for page in DOCS.glob("*.md") if re.search(r"is generated|made by jupyter_gp", page.read_text())}
    assert {page for _, page, _ in ROWS} == {f"docs/{name}" for name in made}


@pytest.mark.parametrize(("part", "page", "command"), ROWS, ids=[page for _, page, _ in ROWS])
def test_a_page_is_what_its_command_prints(part: str, page: str, command: str) -> None:
    """The command, as it is written there."""
    program, *words = shlex.split(command)
    assert program == "python"
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    text = (ROOT / page).read_text(encoding="utf-8")
    assert done.stdout.strip() in text if part else done.stdout == text
