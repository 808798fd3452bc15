"""What a shell gets from ``--ext=jupyter_gpushare`` or ``%load_ext``, and how it is taken away again.

Every shell gets `%gpushare`. A kernel also answers the server's wish to free cached memory, on the control
channel so that a running cell does not hold it up, and reports after its cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from jupyter_gpushare.notebook.address import Address, ServerError
from jupyter_gpushare.notebook.background import PROBE_REQUEST, Probe
from jupyter_gpushare.notebook.cache import free_cached
from jupyter_gpushare.notebook.caps import Caps
from jupyter_gpushare.notebook.gate import KernelGate
from jupyter_gpushare.notebook.magic import GpuShareMagics, complete
from jupyter_gpushare.notebook.quiet import closing
from jupyter_gpushare.notebook.reporter import Reporter

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["FREE_REPLY", "FREE_REQUEST", "load", "unload"]

FREE_REQUEST: Final = "gpushare_free_request"
FREE_REPLY: Final = "gpushare_free_reply"

_loaded: WeakKeyDictionary[InteractiveShell, _Presence] = WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Add what belongs in *shell*. Doing it twice is doing it once."""
    if shell not in _loaded:
        _loaded[shell] = _Presence(shell)


def unload(shell: InteractiveShell) -> None:
    """Leave *shell* as it was."""
    presence = _loaded.pop(shell, None)
    if presence is not None:
        presence.leave(shell)


class _Presence:
    """What one shell got."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._kernel = getattr(shell, "kernel", None)
        self._gate: KernelGate | None = None
        self._caps = Caps.install() if self._kernel is not None else None
        self._reporter = _reporter() if self._kernel is not None else None
        self._magics = GpuShareMagics(shell, problems=self.problems)
        self._magics.install()
        shell.Completer.custom_matchers.append(complete)
        if self._kernel is not None:
            self._kernel.control_handlers[FREE_REQUEST] = self._free
            self._gate = KernelGate.of(self._kernel)
            probe = Probe(self._kernel, gated=self._gate is not None)
            self._kernel.control_handlers[PROBE_REQUEST] = probe.answer
        if self._gate is not None:
            self._gate.install()
        if self._reporter is not None:
            shell.events.register("post_run_cell", self._reporter.cell_ended)

    def leave(self, shell: InteractiveShell) -> None:
        self._magics.remove()
        shell.Completer.custom_matchers.remove(complete)
        if self._kernel is not None:
            self._kernel.control_handlers.pop(FREE_REQUEST, None)
            self._kernel.control_handlers.pop(PROBE_REQUEST, None)
        if self._gate is not None:
            self._gate.remove()
        if self._caps is not None:
            self._caps.remove()
        if self._reporter is not None:
            shell.events.unregister("post_run_cell", self._reporter.cell_ended)
            self._reporter.stop()

    def problems(self) -> list[str]:
        """What went wrong behind the scenes."""
        report = [self._reporter.problem] if self._reporter is not None and self._reporter.problem else []
        return [*report, *(self._caps.problems if self._caps is not None else ())]

    def _free(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer a `gpushare_free_request`; runs in the control thread, perhaps beside a running cell."""
        content = parent.get("content")
        content = content if isinstance(content, dict) else {}
        assert self._kernel is not None  # noqa: S101  # only a kernel has this handler
        if content.get("closing", "") != closing():
            # Asked in another state of the gate, and late: what frees memory would crash a parked process.
            self._kernel.session.send(stream, FREE_REPLY, {"status": "parked"}, parent, ident)
            return
        freed = [result.answer() for result in free_cached(collect=content.get("collect") is True)]
        self._kernel.session.send(stream, FREE_REPLY, {"status": "ok", "freed": freed}, parent, ident)


def _reporter() -> Reporter | None:
    try:
        return Reporter(Address.from_environment())
    except ServerError:
        return None  # `%gpushare status` says what is missing
