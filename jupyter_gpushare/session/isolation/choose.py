"""The isolation mode that an admin chose."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.session.isolation.caps import Caps
from jupyter_gpushare.session.isolation.hami_core import HamiCore
from jupyter_gpushare.session.isolation.mig import Mig
from jupyter_gpushare.session.isolation.mps import Mps
from jupyter_gpushare.session.isolation.none import NoIsolation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_gpushare.session.isolation.mode import Isolation, Mode

__all__ = ["MODES", "IsolationSettings", "choose_isolation", "isolation_maker"]

#: Every mode, from the weakest on.
MODES: tuple[type[Isolation], ...] = (NoIsolation, Caps, HamiCore, Mps, Mig)


@dataclass(frozen=True, slots=True)
class IsolationSettings:
    """What the admin decided.

    Attributes:
        mode: which one.
        mps_kernels: for ``mps``: into how many equal parts the share is divided, one for each kernel.
        hami_library: for ``hami-core``: where its library is; empty for the usual places.
        park_under_hami: for ``hami-core``: an admin has measured that its programs can be parked.
    """

    mode: Mode = "none"
    mps_kernels: int = 2
    hami_library: str = ""
    park_under_hami: bool = False


def isolation_maker(settings: IsolationSettings, mode: Mode, *, directory: Path) -> Isolation:
    """Any *mode* for this server, with the details that *settings* give for each."""
    return choose_isolation(replace(settings, mode=mode), directory=directory, environ=os.environ, pid=os.getpid())


def choose_isolation(
    settings: IsolationSettings, *, directory: Path, environ: Mapping[str, str], pid: int
) -> Isolation:
    """The mode of *settings*.

    Args:
        settings: what the admin decided.
        directory: a directory on this host for this user alone.
        environ: the server's environment.
        pid: the server's process.
    """
    if settings.mode == "caps":
        return Caps()
    if settings.mode == "mig":
        return Mig()
    if settings.mode == "mps":
        pipes = environ.get("CUDA_MPS_PIPE_DIRECTORY", "")
        return Mps(kernels=settings.mps_kernels, directory=directory / "mps", pipes=pipes)
    if settings.mode == "hami-core":
        session = "-".join(map(str, identify(pid) or (pid,)))
        return HamiCore(
            library=settings.hami_library, directory=directory, session=session, parkable=settings.park_under_hami
        )
    return NoIsolation()
