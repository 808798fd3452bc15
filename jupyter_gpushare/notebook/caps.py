"""Has GPU frameworks refuse what is beyond the share, each by its own means, once it is imported.

For people who keep to their share: it turns a neighbour's trouble into an out-of-memory error of one's own, in time.
The server sets ``GPUSHARE_MEMORY_CAPS`` where the isolation mode is ``caps``; elsewhere nothing here does anything.
TensorFlow has no cap: the only one it knows forbids `set_memory_growth` afterwards, which most notebooks call.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence
    from importlib.machinery import ModuleSpec

__all__ = ["CAPS_VARIABLE", "Caps"]

CAPS_VARIABLE: Final = "GPUSHARE_MEMORY_CAPS"
#: A context and the libraries' work space lie outside of the frameworks' allocators, and count against the share.
_OUTSIDE: Final = 640 << 20
_CUPY_LIMIT: Final = "CUPY_GPU_MEMORY_LIMIT"
#: Two names for one thing. JAX refuses to start on a GPU when both are set.
_JAX_LIMITS: Final = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")


class Caps:
    """The caps of this process: *limits* are (limit, total) in bytes, for each device.

    Attributes:
        problems: what could not be capped, for people. Nothing here ever keeps a framework from being imported.
    """

    def __init__(self, limits: Sequence[tuple[int, int]], environ: MutableMapping[str, str]) -> None:
        self.problems: list[str] = []
        self._limits = [(max(limit - _OUTSIDE, limit // 2), total) for limit, total in limits]
        self._environ = environ
        self._imports = _Imports({"jax": self._cap_jax, "cupy": self._cap_cupy}, {"torch": self._cap_torch}, self._note)

    @classmethod
    def install(cls, environ: MutableMapping[str, str] = os.environ) -> Caps | None:
        """Cap the frameworks that are imported from now on, and PyTorch if it is there already; None without caps."""
        text = environ.get(CAPS_VARIABLE, "")
        if not text:
            return None
        try:
            caps = cls([_read(part) for part in text.split(",")], environ)
        except ValueError as error:
            caps = cls([], environ)
            caps.problems.append(f"{CAPS_VARIABLE}: {error}")
            return caps
        caps._imports.install()
        return caps

    def remove(self) -> None:
        """Look at imports no more. What is capped stays so."""
        self._imports.remove()

    def _note(self, framework: str, error: Exception) -> None:
        why = f"{type(error).__name__}: {error}"
        self.problems.append(f"{framework} could not be held to the share, so take care not to exceed it ({why})")

    def _cap_cupy(self) -> None:
        """CuPy reads its limit at its import, in bytes on each device (docs.cupy.dev, "Memory Management")."""
        self._environ.setdefault(_CUPY_LIMIT, str(min(limit for limit, _ in self._limits)))

    def _cap_jax(self) -> None:
        """JAX reads its limit when it starts, as a part of the device's memory (docs.jax.dev)."""
        if not any(name in self._environ for name in _JAX_LIMITS):
            self._environ[_JAX_LIMITS[0]] = f"{min(limit / total for limit, total in self._limits):.4f}"

    def _cap_torch(self) -> None:
        """PyTorch takes its cap when it starts the GPU: asked for before, that would start it."""
        torch = sys.modules["torch"]
        torch.cuda._lazy_call(lambda: self._cap_started(torch))  # noqa: SLF001  # what its own set-up calls go through

    def _cap_started(self, torch: Any) -> None:
        try:
            for device in range(torch.cuda.device_count()):
                limit, total = self._limits[min(device, len(self._limits) - 1)]
                torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)
        except Exception as error:  # noqa: BLE001  # raised in here it would keep the user's program from the GPU
            self._note("torch", error)


class _Imports:
    """Calls *before* just before a module of that name is imported, *after* just after; each of them once.

    As a finder at the front of `sys.meta_path` it costs a look into two dictionaries for each module that is imported.
    """

    def __init__(
        self,
        before: dict[str, Callable[[], None]],
        after: dict[str, Callable[[], None]],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._before = before
        self._after = after
        self._failed = failed

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        for acts in (self._before, self._after):
            for name in [name for name in acts if name in sys.modules]:
                self._call(name, acts.pop(name))

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """`importlib.abc.MetaPathFinder.find_spec`."""
        if (act := self._before.pop(name, None)) is not None:
            self._call(name, act)
        spec = self._found(name, path, target) if name in self._after else None
        if spec is not None and spec.loader is not None:
            self._follow(name, spec.loader, self._after.pop(name))
        return spec

    def _found(self, name: str, path: Sequence[str] | None, target: Any) -> ModuleSpec | None:
        for finder in [finder for finder in sys.meta_path if finder is not self]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _follow(self, name: str, loader: Any, act: Callable[[], None]) -> None:
        """Act once *loader* has run the module, and leave the loader as it was."""
        try:
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                del loader.exec_module
                execute(module)
                self._call(name, act)

            loader.exec_module = exec_module
        except Exception as error:  # noqa: BLE001  # an unusual loader: the import goes on without the cap
            self._failed(name, error)

    def _call(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001  # whatever it is, the import goes on
            self._failed(name, error)


def _read(text: str) -> tuple[int, int]:
    """``limit/total`` in bytes.

    Raises:
        ValueError: it is something else.
    """
    limit, _, total = text.partition("/")
    if not (text.isascii() and limit.isdecimal() and total.isdecimal() and 0 < int(limit) <= int(total)):
        raise ValueError(f"{text!r} is not a limit and a total in bytes; write for example 5368709120/16106127360")
    return int(limit), int(total)
