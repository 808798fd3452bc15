"""Which kernel a person means by a notebook's path or the beginning of an id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jupyter_gpushare.app.servers import Answered, RunningServer
    from jupyter_gpushare.session.wire import KernelModel

__all__ = ["Found", "chosen", "kernels_of"]


@dataclass(frozen=True, slots=True)
class Found:
    """One kernel of one server."""

    server: RunningServer
    kernel: KernelModel

    @property
    def label(self) -> str:
        """What people call it."""
        return self.kernel.path or f"{self.kernel.name} ({self.kernel.id[:8]})"

    @property
    def file(self) -> Path | None:
        """The notebook's file, None where there is no notebook."""
        return Path(self.server.directory) / self.kernel.path if self.kernel.path else None


def kernels_of(answers: Sequence[Answered]) -> list[Found]:
    """All kernels of all servers that answered."""
    return [Found(one.server, kernel) for one in answers if one.session for kernel in one.session.kernels]


def chosen(target: str, kernels: Sequence[Found], directory: Path) -> list[Found]:
    """Those that *target* may mean: the closest way in which any matches. More than one is for the person to tell.

    Args:
        target: a kernel's id, a notebook's file, its path in the server, its name, or the beginning of id or path.
        kernels: those there are.
        directory: where a relative file begins.
    """
    for matches in _ways(target, directory):
        found = [kernel for kernel in kernels if matches(kernel)]
        if found:
            return found
    return []


def _ways(target: str, directory: Path) -> Iterator[Callable[[Found], bool]]:
    file = (directory / target).resolve()
    yield lambda found: found.kernel.id == target
    yield lambda found: found.file is not None and found.file.resolve() == file
    yield lambda found: found.kernel.path == target
    yield lambda found: found.kernel.path is not None and PurePosixPath(found.kernel.path).name == target
    yield lambda found: found.kernel.id.startswith(target) or (found.kernel.path or "").startswith(target)
