"""Rules of this repository that no other linter knows. Prints each offence and exits 1 if there is any."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
EMPTY_NAMES = re.compile(r"(^|/)(utils?|helpers?|common|misc|managers?)(\.(py|tsx?)|/)")
# Brackets keep these patterns from matching themselves.
HOSTS = re.compile(
    r"regis[t]ry\.(npmjs|yarnpkg)|[p]ypi\.org|[p]ythonhosted|[p]roxy\.golang|deb\.[d]ebian\.org"
    r"|https?://[^/\s]*(?:artifactory|nexus)[^/\s]*"
)
MACHINE_PATHS = re.compile(r"(?<![\w.$}~-])/(?:wor[k]|far[m]|roo[t])/[\w.]")
LONGEST_FILE = 400
BINARY = {".png", ".ico", ".woff2", ".gz", ".zip"}
PROSE_OF_OTHERS = ("tests/hub/data/",)


def stored_files() -> list[str]:
    """Every file that is, or would be, committed."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted(name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file())


def silent_handlers(text: str) -> Iterator[int]:
    """Lines of handlers that swallow an exception without a word."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler) and all(
            isinstance(statement, ast.Pass)
            or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
            for statement in node.body
        ):
            yield node.lineno


def offences(name: str, text: str) -> Iterator[str]:
    """What is wrong with one file: its name, what it mentions, what it swallows, its length."""
    if EMPTY_NAMES.search(name):
        yield f"{name}: the name says nothing; name the idea instead"
    for number, line in enumerate(text.splitlines(), start=1):
        if match := HOSTS.search(line):
            yield f"{name}:{number}: {match[0]}: no package registry's host belongs into the tree"
        if match := MACHINE_PATHS.search(line):
            yield f"{name}:{number}: {match[0]}…: a path of one machine"
    if name.endswith(".py"):
        try:
            lines = list(silent_handlers(text))
        except SyntaxError as error:
            yield f"{name}:{error.lineno}: not Python {sys.version_info.major}.{sys.version_info.minor}: {error.msg}"
            lines = []
        for number in lines:
            yield f"{name}:{number}: an exception is swallowed; handle it, or contextlib.suppress it with a reason"
    if name.endswith((".py", ".ts", ".tsx")) and (length := text.count("\n")) > LONGEST_FILE:
        yield f"{name}: {length} lines are probably two ideas (at most {LONGEST_FILE})"


def main() -> int:
    """Check every stored file; returns the exit code."""
    found = [
        offence
        for name in stored_files()
        if Path(name).suffix not in BINARY and not name.startswith(PROSE_OF_OTHERS)
        for offence in offences(name, (ROOT / name).read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or "domain rules: nothing to say")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
