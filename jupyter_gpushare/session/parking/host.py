"""The session that parking is part of, as parking sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from jupyter_gpushare.devices.device import Source
    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.session.kernel_messages import FreeAnswer
    from jupyter_gpushare.session.kernels import Kernel, Kernels
    from jupyter_gpushare.session.meter import Sample

__all__ = ["ParkingHost"]


@dataclass(frozen=True, slots=True)
class ParkingHost:
    """What parking asks of its session.

    Attributes:
        server: the Jupyter Server.
        kernels: its kernels.
        last: the newest sample; *ask* waits for a fresh one, *suspect* has one taken soon.
        free_cache: has a kernel free its cached memory, in that closing of its gate.
        reports: bytes that kernels counted themselves, by kernel id.
        process_name: a process's name, for people.
        open_source: gives the devices once more.
        announce: called with each loss before it happens, with the kernels' ids and who wanted it.
        changed: called when people should see something new.
    """

    server: Any
    kernels: Kernels
    last: Callable[[], Sample | None]
    ask: Callable[[], Awaitable[Sample]]
    suspect: Callable[[], None]
    free_cache: Callable[[Kernel, str], Awaitable[FreeAnswer]]
    reports: Mapping[str, int]
    process_name: Callable[[int], str]
    open_source: Callable[[], Source]
    announce: Callable[[Loss, Sequence[str], str], None]
    changed: Callable[[], None]
