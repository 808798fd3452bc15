"""The file by which the part of ours in a kernel knows that the gate is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Flag"]


class Flag:
    """Exists while the gate is closed. Its text is two counts: of closings, and of interrupts since the last one.

    The first lets the kernel notice that the gate was open for a moment between two looks. Each change is atomic.

    Raises:
        OSError: from every method that writes, when the directory cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._closings = self._interrupts = 0

    @property
    def closing(self) -> str:
        """The count of closings, as the kernel reads it."""
        return str(self._closings)

    def set(self) -> None:
        """The gate is about to close."""
        # Cleaners of temporary directories remove one that has long been empty.
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._closings += 1
        self._interrupts = 0
        self._write()

    def interrupt(self) -> None:
        """The part in the kernel is to abort what it holds."""
        self._interrupts += 1
        self._write()

    def clear(self) -> None:
        """The gate opens."""
        self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        unfinished = self.path.with_suffix(".new")
        unfinished.write_text(f"{self._closings} {self._interrupts}")
        unfinished.replace(self.path)
