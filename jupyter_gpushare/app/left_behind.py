"""What of us is on a machine: hooks, units, daemons, sockets and directories, each with how to be rid of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import psutil
from jupyter_core.paths import jupyter_config_path

from jupyter_gpushare.broker import places
from jupyter_gpushare.broker.install.manifest import PLACE, below
from jupyter_gpushare.broker.install.units import PROGRAM
from jupyter_gpushare.broker.privileged.asking import SOCKET as ENDING_SOCKET
from jupyter_gpushare.broker.settings import sqlite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Left", "left_behind"]

Kind = Literal["hook", "unit", "file", "daemon", "socket", "books", "directory"]
Processes = Callable[[], Iterable[psutil.Process]]

_UNITS: Final = tuple(map(Path, ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system")))
_ACCOUNTS: Final = Path("/etc/sysusers.d/gpushare.conf")
_LOCKS: Final = Path("/run/lock/gpushare")
#: Where JupyterHub's configuration usually is.
_HUBS: Final = tuple(
    map(Path, ("/etc/jupyterhub", "/srv/jupyterhub", "/opt/jupyterhub/etc", "/opt/tljh/config/jupyterhub_config.d"))
)
#: Where a hub's service keeps its books and its secret, if not in the directory that the hub runs in.
_HUBS_STATES: Final = tuple(
    map(Path, ("/var/lib/jupyterhub", "/srv/jupyterhub", "/etc/jupyterhub", "/opt/jupyterhub", "/opt/tljh/state"))
)
_A_STATE: Final = "gpushare*"
_USUAL_STATE: Final = Path("gpushare-state")
_IN_A_STATE: Final = ("broker.sqlite", "hub.token")
#: What qualifying a machine has found, by the service that a lab's server has for it.
_QUALIFIED: Final = Path("/var/lib/gpushare-qualify")
_IN_A_HUB: Final = ("setup_gpushare", "jupyter_gpushare.hub", "gpu_cull_arbiter")
_IN_A_SERVER: Final = ("c.GpuShare", '"GpuShare', "GpuShareProvisioner", "gpushare-provisioner")
#: Comes and goes with the package itself.
_OF_THE_PACKAGE: Final = "jupyter_gpushare.json"
_LARGEST: Final = 1 << 20
_MODULE: Final = "jupyter_gpushare"
_SCRIPT: Final = "jupyter-gpushare"
_MPS: Final = "nvidia-cuda-mps-control"
_ROOT: Final = Path("/")


@dataclass(frozen=True, slots=True)
class Left:
    """One thing of ours: *what* it is, and the *remedy*."""

    kind: Kind
    what: str
    remedy: str


def left_behind(
    root: Path, environ: Mapping[str, str], hubs: Sequence[Path] = (), processes: Processes = psutil.process_iter
) -> list[Left]:
    """Everything of ours, in the order in which it is best removed.

    Args:
        root: of the machine; of another one than this, only what is on its disk is looked at.
        environ: says where this user's own places are.
        hubs: more files or directories with a hub's configuration.
        processes: those of the machine.
    """
    is_here = root == _ROOT
    found = [*_hooks(root, hubs), *_units(root)]
    if is_here:
        found += [*_server_settings(), *_daemons(processes)]
    found += [*_of_machine(root), *_of_hubs(root), *(_of_user(environ) if is_here else ())]
    return found


def _hooks(root: Path, more: Sequence[Path]) -> Iterator[Left]:
    files = [file for place in (*(below(root, each) for each in _HUBS), *more) for file in _python_files(place)]
    if root == _ROOT:
        files += _python_files(Path("jupyterhub_config.py"))
    for file in dict.fromkeys(files):
        if _says(file, _IN_A_HUB):
            yield Left("hook", str(file), "take setup_gpushare(c) and what belongs to it out, and restart the hub")


def _python_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return sorted(place.glob("*.py")) if place.is_dir() else []


def _says(file: Path, words: Sequence[str]) -> bool:
    """Whether one of *words* stands in a line that is no comment."""
    try:
        if file.stat().st_size > _LARGEST:
            return False
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(word in line for line in lines if not line.lstrip().startswith("#") for word in words)


def _server_settings() -> Iterator[Left]:
    for directory in map(Path, jupyter_config_path()):
        named = (directory / "jupyter_server_config.d").glob("*gpushare*")
        for file in sorted(each for each in named if each.name != _OF_THE_PACKAGE):
            yield Left("hook", str(file), f"rm {file}")
        for file in (directory / "jupyter_server_config.py", directory / "jupyter_server_config.json"):
            if _says(file, _IN_A_SERVER):
                yield Left("hook", str(file), "take the settings of GpuShare out")


def _units(root: Path) -> Iterator[Left]:
    for directory in _UNITS:
        for unit in sorted(below(root, directory).glob("gpushare*")):
            yield Left("unit", str(unit), f"systemctl disable --now {unit.name}; rm {unit}; systemctl daemon-reload")
    for file in (_ACCOUNTS, PLACE, PROGRAM):
        if below(root, file).exists():
            yield Left("file", str(below(root, file)), "sudo jupyter gpushare uninstall")


def _daemons(processes: Processes) -> Iterator[Left]:
    ours = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    for process in processes():
        with suppress(psutil.Error):
            if process.pid not in ours and process.status() != psutil.STATUS_ZOMBIE and (name := _name_of(process)):
                yield Left("daemon", f"{name} (process {process.pid})", _remedy_of(name, process.pid))


def _name_of(process: psutil.Process) -> str:
    """What a process of ours is; empty for anybody else's."""
    words = process.cmdline()
    if not words:
        return ""
    for number, word in enumerate(words):
        if number < 2 and Path(word).name == _SCRIPT:  # noqa: PLR2004  # the interpreter, then the script
            return " ".join(["jupyter gpushare", *words[number + 1 : number + 2]])
        if word == "-m" and words[number + 1 : number + 2] and _is_module(words[number + 1]):
            return " ".join(words[number + 1 : number + 3])
    if Path(words[0]).name == _MPS and "gpushare" in process.environ().get("CUDA_MPS_PIPE_DIRECTORY", ""):
        return _MPS
    return ""


def _is_module(word: str) -> bool:
    return word == _MODULE or word.startswith(f"{_MODULE}.")


def _remedy_of(name: str, pid: int) -> str:
    if name.startswith("jupyter_gpushare.hub"):
        return "it belongs to the hub: restart that without setup_gpushare(c)"
    if "--on-demand" in name or name.startswith("jupyter_gpushare.app broker"):
        return f"it ends by itself when nobody needs it; or kill {pid}"
    if name.startswith("jupyter_gpushare.parking"):
        return "it ends with its notebook server"
    return f"end it: kill {pid}"


def _of_machine(root: Path) -> Iterator[Left]:
    runtime, state = below(root, places.machine_socket().parent), below(root, places.machine_state())
    if runtime.exists():
        yield Left("socket", str(runtime), f"rm -r {runtime}")
    if below(root, ENDING_SOCKET).exists():
        yield Left("socket", str(below(root, ENDING_SOCKET)), f"rm {below(root, ENDING_SOCKET)}")
    if state.exists():
        yield Left("books", str(state), "sudo jupyter gpushare uninstall --purge")
    for directory in (_LOCKS, _QUALIFIED):
        if below(root, directory).exists():
            yield Left("directory", str(below(root, directory)), f"rm -r {below(root, directory)}")


def _of_hubs(root: Path) -> Iterator[Left]:
    found = [each for place in _HUBS_STATES for each in sorted(below(root, place).glob(_A_STATE))]
    if root == _ROOT:
        found.append(_USUAL_STATE.absolute())
    for state in found:
        if _is_state(state):
            yield Left("books", str(state), f"stop the hub; rm -r {state}: hours of use and who waits are lost")


def _is_state(directory: Path) -> bool:
    try:
        return any((directory / name).exists() for name in _IN_A_STATE)
    except PermissionError:
        return True  # a hub's is its own user's, and open to nobody else


def _of_user(environ: Mapping[str, str]) -> Iterator[Left]:
    temporary = Path(tempfile.gettempdir())
    jobs = sorted(each for each in temporary.glob("gpushare-job-*") if each.stat().st_uid == os.getuid())
    sockets = (places.user_runtime(environ), temporary / f"gpushare-broker-{os.getuid()}")
    for directory in dict.fromkeys(each for each in sockets if each.exists()):
        yield Left("socket", str(directory), f"rm -r {directory}")
    state = places.user_state(environ)
    if state.exists():
        books = "books" if Path(sqlite(state).removeprefix("sqlite:///")).exists() else "directory"
        yield Left("books" if books == "books" else "directory", str(state), "jupyter gpushare uninstall --purge")
    for directory in (temporary / f"gpushare-{os.getuid()}", temporary / "gpushare-locks", *jobs):
        if directory.exists():
            yield Left("directory", str(directory), f"rm -r {directory}")
