"""Tells people of an overrun: everybody who looks, and the one it is about, below the cell that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.gate.gates import Gates
    from jupyter_gpushare.session.kernels import Kernels
    from jupyter_gpushare.session.notices import Notices

__all__ = ["notifier"]


def notifier(notices: Notices, kernels: Kernels, gates: Gates) -> Callable[[str | None, Message], None]:
    """What `overrun.Overrun` calls with the id of a kernel, None where it is about none."""

    def notify(kernel_id: str | None, message: Message) -> None:
        notices.add("warning", message)
        kernel = kernels.get(kernel_id) if kernel_id is not None else None
        if kernel is not None and gates.can_gate(kernel.id):
            gates.of(kernel.id).tell(message.text, list(kernel.cells))

    return notify
