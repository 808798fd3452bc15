"""Writes the service and turns it on, or takes back exactly what was written."""

from __future__ import annotations

import pwd
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.install import machine
from jupyter_gpushare.broker.install.manifest import Manifest, ManifestError, below, write
from jupyter_gpushare.broker.install.planning import InstallError
from jupyter_gpushare.broker.places import machine_socket, machine_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_gpushare.broker.install.planning import Plan

    Run = Callable[[Sequence[str]], None]

__all__ = ["commands", "install", "run_command", "uninstall"]

_COMMAND_S: Final = 120.0
_ROOT: Final = Path("/")


def run_command(command: Sequence[str]) -> None:
    """Run *command* to its end.

    Raises:
        InstallError: it fails; with what it said.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMMAND_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"`{' '.join(command)}` failed: {error}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise InstallError(f"`{' '.join(command)}` failed: {said or f'exit code {done.returncode}'}")


def commands(plan: Plan) -> list[list[str]]:
    """What is run once the files are there: the account is made, the units are turned on."""
    account = plan.service.account
    made = [] if plan.is_here and _exists(account) else [_make_account(account)]
    old, new = [] if plan.earlier is None else plan.earlier.units, plan.service.units()
    gone = [unit for unit in old if unit not in new]
    off = [["systemctl", "disable", "--now", *gone]] if gone else []
    on = [["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", *new]]
    again = [["systemctl", "restart", "gpushare.service"]] if old else []
    return [*made, *off, *on, *again]


def install(plan: Plan, run: Run = run_command) -> list[str]:
    """Do what *plan* says; gives a line for each thing that was done, and for each that is still to do.

    Raises:
        InstallError: a step fails; what was written until then is taken back by ``uninstall``.
    """
    earlier = plan.earlier
    steps = commands(plan)
    account = plan.service.account
    manifest = Manifest(account, made_account=plan.is_here and not _exists(account), units=plan.service.units())
    if earlier is not None:
        manifest.made_account |= earlier.made_account
        manifest.files |= earlier.files
        manifest.directories += earlier.directories
    manifest.note(plan.root, plan.files)
    stale = [] if earlier is None else [path for path in earlier.files if _is_stale(path, plan)]
    try:
        # It is kept first: whatever happens next, what was begun can be taken back.
        manifest.keep(plan.root)
        for path, content in plan.files.items():
            write(below(plan.root, path), content)
    except OSError as error:
        raise InstallError(f"The files cannot be written: {error}. Take it back with: {_UNINSTALL}") from None
    said = [f"wrote {below(plan.root, path)}" for path in plan.files]
    if plan.is_here:
        said += _run_all(steps, run)
    said += _remove_stale(manifest, plan, stale)
    return said if plan.is_here else [*said, "On that machine run:", *(f"  {' '.join(step)}" for step in steps)]


_UNINSTALL: Final = "jupyter gpushare uninstall"


def _run_all(steps: Sequence[Sequence[str]], run: Run) -> list[str]:
    for step in steps:
        try:
            run(step)
        except InstallError as error:
            more = "See: journalctl -u gpushare" if step[0] == "systemctl" else ""
            raise InstallError(f"{error}\n{more} Then run this again, or take it back: {_UNINSTALL}") from None
    return [f"ran {' '.join(step)}" for step in steps]


def _is_stale(path: str, plan: Plan) -> bool:
    """Whether an earlier installation wrote it and this one does not want it. The admin's own file always stays."""
    return Path(path) not in plan.files and not path.endswith(".toml")


def _remove_stale(manifest: Manifest, plan: Plan, stale: Sequence[str]) -> list[str]:
    removed = [path for path in stale if manifest.is_untouched(plan.root, path)]
    for path in removed:
        below(plan.root, Path(path)).unlink()
    manifest.files = {path: value for path, value in manifest.files.items() if path not in removed}
    manifest.keep(plan.root)
    return [f"removed {below(plan.root, Path(path))}" for path in removed]


def uninstall(root: Path, *, purge: bool = False, run: Run = run_command) -> list[str]:
    """Take back what was installed; gives a line for each thing that was done, and for each that stays.

    Args:
        root: the root directory of the machine that it was for.
        purge: remove the books and the account too.
        run: runs a command.

    Raises:
        InstallError: nothing is installed, or a step fails.
    """
    try:
        manifest = Manifest.read(root)
    except (ManifestError, OSError) as error:
        raise InstallError(f"Nothing was changed. {error}") from None
    if manifest is None:
        raise InstallError(f"Nothing is installed below {root}.")
    is_here = root == _ROOT and machine.has_systemd()
    said = _run_all([["systemctl", "disable", "--now", *reversed(manifest.units)]], run) if is_here else []
    try:
        changed = manifest.take_back(root)
    except OSError as error:
        raise InstallError(f"Something cannot be removed: {error}. Run this again.") from None
    said += [f"removed {below(root, Path(path))}" for path in manifest.files if path not in changed]
    said += [f"kept {below(root, Path(path))}: it was changed since" for path in changed]
    if is_here:
        said += _run_all([["systemctl", "daemon-reload"]], run)
    return said + _books(manifest, root, run, purge=purge)


def _books(manifest: Manifest, root: Path, run: Run, *, purge: bool) -> list[str]:
    """What the broker itself wrote: it stays, unless the admin wants it gone too."""
    state = below(root, machine_state())
    runtime = below(root, machine_socket().parent)
    if runtime.is_dir() and not runtime.is_symlink():
        shutil.rmtree(runtime)
    if not purge:
        if not state.is_dir():
            return []
        return [f"kept {state} and the account {manifest.account}: the books are in it (--purge removes both)"]
    said = []
    if state.is_dir() and not state.is_symlink():
        shutil.rmtree(state)
        said.append(f"removed {state}")
    if root == _ROOT and manifest.made_account and _exists(manifest.account):
        said += _run_all([["userdel", manifest.account]], run)
    return said


def _make_account(account: str) -> list[str]:
    if shutil.which("systemd-sysusers"):
        return ["systemd-sysusers", "/etc/sysusers.d/gpushare.conf"]
    shell = "/usr/sbin/nologin"
    return ["useradd", "--system", "--user-group", "--home-dir", str(machine_state()), "--shell", shell, account]


def _exists(account: str) -> bool:
    try:
        pwd.getpwnam(account)
    except KeyError:
        return False
    return True
