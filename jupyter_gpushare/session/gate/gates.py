"""The gates of one server: one before each of its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_core.utils import ensure_async
from jupyter_server.gateway.managers import GatewayMappingKernelManager

from jupyter_gpushare.session.gate.clients import gated_factory
from jupyter_gpushare.session.gate.comms import QuietComms
from jupyter_gpushare.session.gate.connection import gated
from jupyter_gpushare.session.gate.flag import Flag
from jupyter_gpushare.session.gate.gate import Gate

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable
    from pathlib import Path

__all__ = ["FLAG_VARIABLE", "Gates"]

#: Tells the part of ours in a kernel where its flag is.
FLAG_VARIABLE: Final = "GPUSHARE_GATE_FILE"
_CLASS: Final = "kernel_websocket_connection_class"


class Gates:
    """Puts a gate before every kernel of *manager*. Lives on the server's event loop.

    Args:
        manager: the server's kernel manager.
        web_app: the server's web application.
        directory: where the flags go; made if need be, for this user alone.
        wake: called with a kernel's id whenever its closed gate holds something that somebody waits for.
        log: where trouble goes.
        before_end: awaited before a kernel's process is ended or replaced, whoever asked for it; True when it must
            be killed plainly, because its own way out would touch a GPU that is not there.
    """

    def __init__(
        self,
        manager: Any,
        web_app: Any,
        *,
        directory: Path,
        wake: Callable[[str], None],
        log: logging.Logger,
        before_end: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        self._manager = manager
        self._web_app = web_app
        self._directory = directory
        self._wake = wake
        self._log = log
        self._before_end = before_end
        self._gates: dict[str, Gate] = {}
        self._guarded: dict[str, Any] = {}
        self._is_installed = False

    def install(self) -> None:
        """Stand before every kernel from now on, those that run included. Doing it twice is doing it once."""
        self.confirm_installed()
        if self._is_installed:
            return
        self._is_installed = True
        manager = self._manager
        start_watching, remove = manager.start_watching_activity, manager.remove_kernel

        def start_watching_activity(kernel_id: str) -> None:
            start_watching(kernel_id)
            self._guard(kernel_id)

        def remove_kernel(kernel_id: str) -> Any:
            removed = remove(kernel_id)
            self.forget(kernel_id)
            return removed

        manager.start_watching_activity, manager.remove_kernel = start_watching_activity, remove_kernel
        for kernel_id in list(manager.list_kernel_ids()):
            self._guard(kernel_id)

    def confirm_installed(self) -> None:
        """Look whether another extension has put its own connection class over ours, and stand before that one too."""
        settings = self._web_app.settings
        settings[_CLASS] = gated(settings[_CLASS], self._gate_of)

    def can_gate(self, kernel_id: str) -> bool:
        """Whether a gate can hold everything for that kernel: not for one of a gateway or an unusual manager."""
        manager = self._manager
        return (
            isinstance(manager, AsyncMultiKernelManager)
            and not isinstance(manager, GatewayMappingKernelManager)
            and kernel_id in manager
        )

    def of(self, kernel_id: str) -> Gate:
        """The gate before that kernel.

        Raises:
            KeyError: there is no such kernel, or none that can have a gate; see `can_gate`.
        """
        gate = self._gate_of(kernel_id)
        if gate is None:
            raise KeyError(kernel_id)
        return gate

    def environment(self, kernel_id: str) -> dict[str, str]:
        """What the part of ours in a kernel that is about to start has to know."""
        return {FLAG_VARIABLE: str(self._flag_path(kernel_id))}

    def forget(self, kernel_id: str) -> None:
        """The kernel is gone, with all that was held for it."""
        self._guarded.pop(kernel_id, None)
        gate = self._gates.pop(kernel_id, None)
        if gate is not None:
            gate.drop()
        self._flag_path(kernel_id).unlink(missing_ok=True)

    def _gate_of(self, kernel_id: str) -> Gate | None:
        gate = self._gates.get(kernel_id)
        if gate is None and self.can_gate(kernel_id):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            manager, flag = self._manager.get_kernel(kernel_id), Flag(self._flag_path(kernel_id))
            gate = Gate(kernel_id, manager, flag=flag, wake=self._wake, log=self._log)
            self._gates[kernel_id] = gate
        return gate

    def _flag_path(self, kernel_id: str) -> Path:
        return self._directory / f"{quote(kernel_id, safe='')}.closed"

    def _guard(self, kernel_id: str) -> None:
        """Stand before a kernel, also when it has started anew on other ports."""
        gate = self._gate_of(kernel_id)
        if gate is None:
            return
        kernel = self._manager.get_kernel(kernel_id)
        QuietComms(gate, kernel, self._log).follow()
        if self._guarded.get(kernel_id) is not kernel:
            self._guarded[kernel_id] = kernel
            kernel.client_factory = gated_factory(kernel.client_factory, gate)
            self._guard_endings(kernel, gate)

    def _guard_endings(self, kernel: Any, gate: Gate) -> None:
        """Interrupt, restart and shutdown, whoever asks: pages, the restarter, the server's own end."""
        interrupt, restart, shutdown = kernel.interrupt_kernel, kernel.restart_kernel, kernel.shutdown_kernel

        async def interrupt_kernel() -> None:
            gate.abort()
            # A parked kernel's children would get the signal too; before that a cell may still run.
            if not gate.is_settled:
                await ensure_async(interrupt())

        async def restart_kernel(now: bool = False, **options: Any) -> None:  # noqa: FBT001, FBT002  # jupyter_client's
            plainly = await self._prepare_end(gate)
            await ensure_async(restart(now=now or plainly, **options))
            gate.open()

        async def shutdown_kernel(now: bool = False, restart: bool = False) -> None:  # noqa: FBT001, FBT002  # its too
            plainly = await self._prepare_end(gate)
            await ensure_async(shutdown(now=now or plainly, restart=restart))

        kernel.interrupt_kernel = interrupt_kernel
        kernel.restart_kernel, kernel.shutdown_kernel = restart_kernel, shutdown_kernel

    async def _prepare_end(self, gate: Gate) -> bool:
        """Forget what is held; whether the process must be killed plainly."""
        gate.drop()
        plainly = not gate.is_open
        if self._before_end is not None:
            try:
                plainly |= await self._before_end(gate.kernel_id)
            except Exception:  # noqa: BLE001  # the owner wants it ended
                self._log.exception("Preparing the end of kernel %s failed; it ends all the same", gate.kernel_id)
        return plainly
