"""What all programs of a framework have in common: named scenes of state, gone through in steps, told by a digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["NoGpu", "Scene", "Scenes", "digest_of"]


class NoGpu(RuntimeError):  # noqa: N818  # what is said of an installation
    """The framework is installed and was built without the GPU, or finds none."""


class Scene(Protocol):
    """Some state of a framework's. Making it twice, and going on by as many steps, gives the same bits."""

    def step(self) -> None:
        """Go on by one step."""

    def state(self) -> Iterable[bytes]:
        """All of it, read back from the device."""


class Scenes:
    """The orders ``scene NAME`` and ``run STEPS``."""

    def __init__(self, scenes: Mapping[str, Callable[[], Scene]]) -> None:
        self._scenes = scenes
        self._scene: Scene | None = None

    def scene(self, name: str) -> None:
        """Prepare the scene *name* anew."""
        self._scene = None
        self._scene = self._scenes[name]()

    def run(self, steps: int) -> str:
        """Go on by *steps*; a digest of all state."""
        if self._scene is None:
            raise RuntimeError("there is no scene: order `scene NAME` first")
        for _ in range(steps):
            self._scene.step()
        return digest_of(self._scene.state())


def digest_of(pieces: Iterable[bytes]) -> str:
    """A hash of *pieces*."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
