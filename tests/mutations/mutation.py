"""What a mutation is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
        path = package / self.file
        text = path.read_text()
        found = text.count(self.original)
        assert found == 1, f"{self.name} is out of date: its text is found {found} times in {self.file}"
        path.write_text(text.replace(self.original, self.mutated))
        # A change within the same second that keeps the length would go unseen.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
