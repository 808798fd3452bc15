"""The facts that the system knows, read from proc(5). Blocking, a few small reads: call it in a thread.

A process may call itself and its threads what it likes and may end at any moment: everything is bounded, and what
cannot be read is said to be unreadable.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.parking.facts import HostFacts, ProcessFacts
from jupyter_gpushare.parking.headroom import cgroup_headroom, memory_available

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.devices.identity import Identity

__all__ = ["gather_host", "gather_process"]

# Of a process in these states proc(5) knows little more than its end.
_ENDED: Final = frozenset("ZXx")
_MOST_THREADS: Final = 2048
# A large PyTorch program has some ten thousand mappings of a hundred bytes each.
_LARGEST_FILE: Final = 32 << 20
_UVM: Final = re.compile(rb" /dev/nvidia-uvm(?: \(deleted\))?$", re.MULTILINE)
_TORCH_SHARED: Final = b" /dev/shm/torch_"
_MPS_VARIABLE: Final = b"CUDA_MPS_PIPE_DIRECTORY="
_MPS_DEFAULT: Final = b"/tmp/nvidia-mps"  # where NVIDIA's MPS daemon listens unless told otherwise


def gather_process(
    identity: Identity,
    *,
    features: Callable[[Identity], frozenset[str]] | None = None,
    proc: str = "/proc",
    who: Callable[[int], Identity | None] = identify,
) -> ProcessFacts:
    """What is known about *identity* now, in *proc*; *who* has a process id.

    *features* is the simulated machine's own knowledge (`occupancy.features`). Its memory is mostly holes, which take
    no room on the host, so that no control group bounds it there.
    """
    folder = f"{proc}/{identity.pid}"
    try:
        facts = _read(identity, folder, proc, features)
    except (FileNotFoundError, ProcessLookupError):
        return ProcessFacts(identity=identity, found=None, state="", uid=None)
    except (OSError, ValueError, KeyError, IndexError) as trouble:
        why = getattr(trouble, "strerror", None) or "an answer of the system is not understood"
        facts = ProcessFacts(identity=identity, found=None, state="S", uid=_owner(folder), unreadable=why)
    # Read last: when it is still the same process now, everything above was about it.
    return replace(facts, found=who(identity.pid))


def gather_host(*, budget_left: int | None = None, simulated: bool = False, proc: str = "/proc") -> HostFacts:
    """What is known about this host now; *budget_left* is the ledger's knowledge."""
    room = None if simulated else memory_available(Path(proc))
    return HostFacts(architecture=platform.machine(), available=room, budget_left=budget_left)


def _read(
    identity: Identity, folder: str, proc: str, features: Callable[[Identity], frozenset[str]] | None
) -> ProcessFacts:
    status = _fields(_bytes(f"{folder}/status"))
    if status["State"][:1] in _ENDED:
        return ProcessFacts(identity=identity, found=None, state=status["State"][:1], uid=None)
    maps = _bytes(f"{folder}/maps")
    used = features(identity) if features is not None else _features(folder, maps)
    return ProcessFacts(
        identity=identity,
        name=status["Name"],
        state=status["State"][:1],
        uid=int(status["Uid"].split()[1]),
        is_leader=int(status["Tgid"]) == identity.pid,
        threads=_threads(folder),
        uvm_mappings=len(_UVM.findall(maps)),
        features=used,
        cgroup_headroom=None if features is not None else cgroup_headroom(identity.pid, Path(proc)),
        found=None,
    )


def _owner(folder: str) -> int | None:
    try:
        return Path(folder).stat().st_uid
    except OSError:
        return None


def _bytes(path: str) -> bytes:
    """The content of *path*.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too long to be looked through.
    """
    with open(path, "rb") as file:  # noqa: PTH123  # half the time of a Path
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError(f"{path} is longer than {_LARGEST_FILE} bytes")
    return content


def _fields(status: bytes) -> dict[str, str]:
    lines = status.decode(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _threads(folder: str) -> tuple[str, ...]:
    numbers = os.listdir(f"{folder}/task")  # noqa: PTH208  # pathlib takes ten times as long
    if len(numbers) > _MOST_THREADS:
        raise ValueError(f"it has more than {_MOST_THREADS} threads")
    return tuple(sorted({name for number in numbers if (name := _thread(f"{folder}/task/{number}/comm"))}))


def _thread(path: str) -> str:
    try:
        return _bytes(path).decode(errors="replace").rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):  # It ended meanwhile.
        return ""


def _features(folder: str, maps: bytes) -> frozenset[str]:
    seen = {"torch_shared"} if _TORCH_SHARED in maps else set()
    if _listens_for_mps(folder):
        seen.add("mps")
    return frozenset(seen)


def _listens_for_mps(folder: str) -> bool:
    """Whether an MPS daemon listens where this program's CUDA looked for one: then it is a client of it."""
    given = [entry for entry in _bytes(f"{folder}/environ").split(b"\0") if entry.startswith(_MPS_VARIABLE)]
    directory = given[-1].removeprefix(_MPS_VARIABLE) if given else _MPS_DEFAULT
    # The program's own root directory: it may be in a container of its own.
    path = os.fsencode(folder) + b"/root" + directory + b"/control"
    try:
        os.stat(path)  # noqa: PTH116  # bytes, as any name may come
    except (FileNotFoundError, NotADirectoryError):
        return not directory.startswith(b"/")  # A relative one cannot be followed from here.
    return True
