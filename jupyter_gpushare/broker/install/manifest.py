"""What was written to this machine, so that exactly that can be taken back."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PLACE", "Manifest", "ManifestError", "below", "write"]

#: In a directory that only root can change: whoever writes it says what root deletes.
PLACE: Final = Path("/etc/gpushare/installed.json")
_READABLE: Final = 0o644
_ENTERABLE: Final = 0o755


class ManifestError(ValueError):
    """What was written here cannot be known. Says what to do."""


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """What one installation wrote. All paths are those of the machine that it is for.

    Attributes:
        account: the broker's account.
        made_account: whether that was made for it.
        units: the units that were turned on.
        files: the SHA-256 of what was written to each file; empty for one that was still to be written.
        directories: those that were made.
    """

    account: str
    made_account: bool = False
    units: list[str] = []
    files: dict[str, str] = {}
    directories: list[str] = []

    @classmethod
    def read(cls, root: Path) -> Manifest | None:
        """The manifest under *root*; None where nothing is installed.

        Raises:
            ManifestError: it is damaged.
            OSError: it cannot be read.
        """
        try:
            return msgspec.json.decode(below(root, PLACE).read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ManifestError(f"{below(root, PLACE)} is damaged ({error}): restore it, or remove it") from None

    def keep(self, root: Path) -> None:
        """Write it, as a whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        write(below(root, PLACE), msgspec.json.format(msgspec.json.encode(self)))

    def note(self, root: Path, files: Mapping[Path, bytes]) -> None:
        """These *files* are about to be written, and the directories that they need."""
        for path, content in files.items():
            self.files[str(path)] = _hash(content)
            missing = [str(each) for each in path.parents[:-1] if not below(root, each).exists()]
            self.directories += [each for each in missing if each not in self.directories]

    def is_untouched(self, root: Path, path: str) -> bool:
        """Whether the file still is what was written."""
        with suppress(OSError):
            return _hash(below(root, Path(path)).read_bytes()) == self.files[path]
        return False

    def take_back(self, root: Path) -> list[str]:
        """Remove what was written; gives the files that somebody has changed since, which stay.

        Raises:
            OSError: one cannot be removed.
        """
        there = [path for path in self.files if below(root, Path(path)).exists()]
        changed = [path for path in there if not self.is_untouched(root, path)]
        for path in there:
            if path not in changed:
                below(root, Path(path)).unlink()
        below(root, PLACE).unlink(missing_ok=True)
        # The longest first: a directory goes before the one that it is in.
        for directory in sorted(self.directories, key=len, reverse=True):
            with suppress(OSError):  # somebody keeps something in it
                below(root, Path(directory)).rmdir()
        return changed


def below(root: Path, path: Path) -> Path:
    """*path* of the machine whose root directory is *root*."""
    return root / path.relative_to("/")


def write(path: Path, content: bytes) -> None:
    """Write *content* for everybody to read, as a whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    for directory in reversed([each for each in path.parents if not each.exists()]):
        directory.mkdir()
        directory.chmod(_ENTERABLE)  # whatever the umask
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".gpushare-", delete=False) as new:
        new.write(content)
        new.flush()
        os.fsync(new.fileno())
        os.fchmod(new.fileno(), _READABLE)
    Path(new.name).replace(path)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
