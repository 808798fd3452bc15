"""``jupyter gpushare install-service``: the broker as a service for every user of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.application import JupyterApp
from rich.text import Text
from traitlets import Bool, Unicode

from jupyter_gpushare.broker.install import machine
from jupyter_gpushare.broker.install.installing import commands, install
from jupyter_gpushare.broker.install.planning import InstallError, check_may_change, plan
from jupyter_gpushare.broker.places import machine_socket
from jupyter_gpushare.demo.command import new_console

if TYPE_CHECKING:
    from jupyter_gpushare.broker.install.planning import Plan

__all__ = ["InstallServiceApp"]


class InstallServiceApp(JupyterApp):
    """Make the broker a service of this machine, which serves every user, each as himself."""

    name = "jupyter-gpushare-install-service"
    description = __doc__
    examples = "sudo jupyter gpushare install-service --dry-run\nsudo jupyter gpushare install-service"

    account = Unicode("gpushare", help="The account that the broker runs under; made if need be.").tag(config=True)
    configuration = Unicode("/etc/gpushare/gpushare.toml", help="The admin's file; an example if there is none.").tag(
        config=True
    )
    dry_run = Bool(help="Only show what would be written and run.").tag(config=True)
    root = Unicode("/", help="The root directory of the machine that it is for; for images. Nothing is started.").tag(
        config=True
    )

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        "user": "InstallServiceApp.account",
        "config": "InstallServiceApp.configuration",
        "root": "InstallServiceApp.root",
    }
    flags = {  # noqa: RUF012  # as above
        "dry-run": ({"InstallServiceApp": {"dry_run": True}}, "Only show what would be written and run."),
    }

    def start(self) -> None:
        """Do it, and say what was done."""
        super().start()
        if self.extra_args:
            self.exit(f"{self.extra_args[0][:80]!r} is no option. See jupyter gpushare install-service --help.")
        try:
            said = self._do(Path(self.root).absolute())
        except InstallError as error:
            self.exit(str(error))
        console = new_console()
        for line in said:
            console.print(Text(line), soft_wrap=True)
        self.exit(0)

    def _do(self, root: Path) -> list[str]:
        if not self.dry_run:
            check_may_change(root, "install-service")
        made = plan(self.account, Path(self.configuration), root)
        notes = [f"! {note}" for note in made.notes]
        return [*notes, *(_shown(made) if self.dry_run else [*install(made), *self._end(made)])]

    def _end(self, made: Plan) -> list[str]:
        if not made.is_here:
            return []
        return [
            f"The broker serves everybody on this machine at {machine_socket()}: notebooks and jobs find it there.",
            f"Who may use how much stands in {self.configuration}; after a change: systemctl reload gpushare",
        ]


def _shown(made: Plan) -> list[str]:
    """What would be written and run."""
    lines = []
    for path, content in made.files.items():
        lines += ["", f"would write {made.root / path.relative_to('/')}:"]
        lines += [f"  {line}" for line in content.decode().splitlines()] if path.suffix != ".py" else []
    where = "would run:" if made.is_here else "to run on that machine:"
    lines += ["", where, *(f"  {' '.join(step)}" for step in commands(made)), "", "Nothing was changed."]
    if made.is_here and not machine.has_systemd():
        lines.append("systemd does not run this machine: without --dry-run this is refused.")
    return lines
