"""What an installation would write and run here, with everything that speaks against it, before anything is done."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.configuration import Configuration, ConfigurationError
from jupyter_gpushare.broker.install import machine
from jupyter_gpushare.broker.install.manifest import Manifest, ManifestError, below
from jupyter_gpushare.broker.install.units import EXAMPLE, PROGRAM, Service, WrongWordError
from jupyter_gpushare.broker.privileged import program

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["InstallError", "Plan", "check_may_change", "plan"]

_ROOT: Final = Path("/")
_FOR_ALL: Final = "install jupyter_gpushare where every account can read it, for example in an environment in /opt"


class InstallError(Exception):
    """It cannot be installed or taken back. Says why and what to do; nothing was changed unless it says so."""


@dataclass(slots=True)
class Plan:
    """Everything that is to be written.

    Attributes:
        root: the root directory of the machine that it is for.
        service: the service.
        files: what is written, by its path on that machine.
        earlier: what an earlier installation wrote.
        notes: what the admin should know before people rely on it.
    """

    root: Path
    service: Service
    files: dict[Path, bytes] = field(default_factory=dict)
    earlier: Manifest | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_here(self) -> bool:
        """Whether it is for the machine that runs."""
        return self.root == _ROOT


def check_may_change(root: Path, command: str) -> None:
    """Whether this process may change services under *root*.

    Raises:
        InstallError: it is not root's, or there is no systemd.
    """
    if root != _ROOT:
        return
    if os.geteuid() != 0:
        raise InstallError(
            f"Only root may change this machine's services. Nothing was changed. "
            f"Run: sudo {sys.executable} -m jupyter_gpushare.app {command}"
        )
    if not machine.has_systemd():
        raise InstallError(
            "systemd does not run this machine, so there is no service to make. Nothing was changed. Have your own "
            "init start this, as an account of its own: jupyter gpushare broker --multi-user --config FILE"
        )


def plan(account: str, configuration: Path, root: Path) -> Plan:
    """Work it out. Changes nothing.

    Raises:
        InstallError: something speaks against it.
    """
    try:
        earlier = Manifest.read(root)
        made = Plan(root, Service(account, configuration, Path(sys.executable)), earlier=earlier)
        made.service.files()
        if made.is_here:
            _look_at_machine(made)
        _add_configuration(made)
    except (ManifestError, WrongWordError, ConfigurationError, OSError) as error:
        raise InstallError(f"Nothing was changed. {error}") from None
    made.files |= {path: text.encode() for path, text in made.service.files().items()}
    if problems := list(_in_the_way(made)):
        raise InstallError("\n".join(["Nothing was changed.", *problems]))
    return made


def _look_at_machine(made: Plan) -> None:
    places = machine.code_places()
    if machine.is_for_one_user():
        raise InstallError(f"Nothing was changed. jupyter_gpushare is installed for one user alone: {_FOR_ALL}")
    if (wall := machine.closed(places)) is not None:
        raise InstallError(f"Nothing was changed. Other accounts cannot read {wall}: {_FOR_ALL}")
    if (found := machine.changeable(places)) is not None:
        made.notes.append(f"{found[0]} can be changed by {found[1]}, who could thereby become the broker: {_FOR_ALL}")
    if not machine.sees_all_processes():
        made.notes.append(
            "This is a container: the broker sees the processes in it alone, and takes others for foreign."
        )
    hiding = machine.hiding()
    groups = machine.groups_for_devices()
    if hiding is not None and hiding.group is None:
        made.notes.append(hiding.remedy)
    elif hiding is not None and hiding.group is not None:
        groups = (*groups, hiding.group)
    made.service = replace(
        made.service, groups=groups, needs_home=machine.in_homes([*places, made.service.configuration])
    )


def _add_configuration(made: Plan) -> None:
    """The admin's file: an example where there is none; what it says about losses decides on the privileged program."""
    path = made.service.configuration
    there = below(made.root, path)
    if not there.exists():
        made.files[path] = EXAMPLE.encode()
        return
    configuration = Configuration.parse(there.read_text(encoding="utf-8"))
    if made.is_here and (wall := machine.closed([there])) is not None:
        raise InstallError(f"Nothing was changed. The broker's account cannot read {wall}: chmod o+rX {wall}")
    if program.LOSSES.isdisjoint(configuration.losses):
        return
    interpreter = machine.interpreter()
    changeable = machine.changeable([interpreter, Path(os.__file__).parent, there]) if made.is_here else None
    if changeable is not None:
        made.notes.append(
            f"The program that ends a job was left out: {changeable[0]} can be changed by {changeable[1]}, who could "
            "thereby become root. Give it to root alone, and run this again."
        )
        return
    made.service = replace(made.service, interpreter=interpreter)
    made.files[PROGRAM] = Path(program.__file__).read_bytes()


def _in_the_way(made: Plan) -> Iterator[str]:
    """Files that are not ours, or that somebody has changed: they are never written over."""
    for path, content in made.files.items():
        there = below(made.root, path)
        if not there.exists() or there.read_bytes() == content:
            continue
        if made.earlier is None or str(path) not in made.earlier.files:
            yield f"{there} is there already and was not written by this command: move it away"
        elif not made.earlier.is_untouched(made.root, str(path)):
            yield (
                f"{there} was changed by hand: keep what you need of it (systemctl edit {path.name}), remove the file, "
                "and run this again"
            )
