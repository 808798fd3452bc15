"""``jupyter gpushare doctor``: whether notebooks can be parked on this host, and what to do if not."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from jupyter_core.application import JupyterApp
from rich.console import Console
from rich.table import Table
from rich.text import Text
from traitlets import Bool, Float, Unicode

from jupyter_gpushare.demo.command import new_console
from jupyter_gpushare.demo.figures import printable
from jupyter_gpushare.devices.discovery import SIMULATED_MACHINE, open_source
from jupyter_gpushare.parking.examination import Examination
from jupyter_gpushare.parking.qualification import Qualifications
from jupyter_gpushare.parking.remote_checkpoint import Deadlines, RemoteCheckpoint, checkpoint_command
from jupyter_gpushare.quantity import Memory, QuantityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.parking.doctor import Result
    from jupyter_gpushare.parking.examination import Diagnosis

__all__ = ["DoctorApp"]

_INTERRUPTED: Final = 130  # the shell's code for a program ended by Ctrl-C
_SCHEMA: Final = 1
_WORDS: Final[dict[Result, tuple[str, str]]] = {
    "ok": ("✓ ok", ""),
    "note": ("! note", "yellow"),
    "no": ("✗ no", "bold red"),
    "skipped": ("- skipped", "dim"),
}
_EXPLANATION: Final = """\
--qualify tries what can go wrong with this driver, on programs of its own: it kills one that was resumed, stops one
that is parked, and lets one touch the GPU while it is parked. On some drivers that has hung the whole host. Save your
work, and make sure that nobody else needs this machine for the next minutes."""


class DoctorApp(JupyterApp):
    """Whether notebooks can be parked on this host: every check, a self-test, and what helps."""

    name = "jupyter-gpushare-doctor"
    description = __doc__
    examples = (
        "jupyter gpushare doctor                     # a table; exits with 0 if notebooks can be parked, else 1\n"
        "jupyter gpushare doctor --json              # the same for programs, and for reports\n"
        "jupyter gpushare doctor --qualify           # tries the risky parts too, once for each driver and host"
    )

    json = Bool(help="Print JSON.").tag(config=True)
    qualify = Bool(help="Make the risky trials too, and write down how they went.").tag(config=True)
    simulated = Unicode(
        help=f"Examine the simulated machine in this directory; without it the one that {SIMULATED_MACHINE} names."
    ).tag(config=True)
    size = Unicode("256MiB", help="How much GPU memory the trials move.").tag(config=True)
    locks = Unicode(help="The directory for locks; without it the one that all servers of this host use.").tag(
        config=True
    )
    deadline = Float(300, help="Seconds that one trial may take. Passing it is a failure, with its reason.").tag(
        config=True
    )

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        "simulated": "DoctorApp.simulated",
        "size": "DoctorApp.size",
        "locks": "DoctorApp.locks",
        "deadline": "DoctorApp.deadline",
    }
    flags = {  # noqa: RUF012  # as above
        "json": ({"DoctorApp": {"json": True}}, "Print JSON."),
        "qualify": ({"DoctorApp": {"qualify": True}}, "Make the risky trials too."),
        "yes": ({"JupyterApp": {"answer_yes": True}}, "Do not ask before the risky trials."),
    }

    def start(self) -> None:
        """Print what was found; exits with 0 when notebooks can be parked here, else with 1."""
        super().start()
        size = self._size()
        if self.deadline <= 0:
            self.exit(f"--deadline: {self.deadline:g} is no time; write for example --deadline 300")
        if self.extra_args:
            self.exit(f"{printable(self.extra_args[0])!r} is no option. See jupyter gpushare doctor --help.")
        if self.qualify and not self.answer_yes and not _agreed():
            self.exit("Nothing was tried. Without --qualify only harmless checks are made.")
        try:
            with Console(stderr=True).status("Looking at the host") as status:
                diagnosis = asyncio.run(self._examine(size, status.update))
        except KeyboardInterrupt:
            self.exit(_INTERRUPTED)
        except OSError as trouble:
            self.exit(f"The results of the trials cannot be written: {trouble}")
        self._print(diagnosis)
        self.exit(0 if diagnosis.parkable else 1)

    def _size(self) -> int:
        try:
            size = Memory.parse(self.size)
        except QuantityError as trouble:
            self.exit(f"--size: {trouble}")
        if size.is_unlimited or size <= Memory.ZERO:
            self.exit(f"--size: {self.size} cannot be moved; write for example --size 256MiB")
        return size.bytes

    async def _examine(self, size: int, began: Callable[[str], None]) -> Diagnosis:
        directory = self.simulated or os.environ.get(SIMULATED_MACHINE, "")
        environ = {**os.environ, SIMULATED_MACHINE: directory}
        source = open_source(environ)
        command = checkpoint_command(directory or None, self.locks or None)
        remote = RemoteCheckpoint(command, deadlines=_deadlines(self.deadline), log=self.log)
        examination = Examination(
            source,
            remote,
            Qualifications.of_user(self.data_dir),
            simulated=directory,
            locks=self.locks or None,
            size=size,
            trial_s=self.deadline,
            began=began,
        )
        try:
            return await examination.run(qualify=self.qualify)
        finally:
            await remote.aclose()
            source.close()

    def _print(self, diagnosis: Diagnosis) -> None:
        console = new_console()
        if self.json:
            console.out(json.dumps(_as_json(diagnosis), indent=2), highlight=False)
            return
        console.print(_table(diagnosis))
        console.print(_verdict(diagnosis))


def _deadlines(trial_s: float) -> Deadlines:
    """No single call takes longer than a whole trial may."""
    usual = Deadlines()
    return Deadlines(
        ask_s=min(usual.ask_s, trial_s), small_s=min(usual.small_s, trial_s), copy_s=min(usual.copy_s, trial_s)
    )


def _agreed() -> bool:
    console = Console(stderr=True, highlight=False)
    console.print(_EXPLANATION, markup=False)
    if not sys.stdin.isatty():
        console.print("Add --yes to go on without being asked.")
        return False
    return console.input("Go on? [y/N] ").strip().lower() in {"y", "yes"}


def _table(diagnosis: Diagnosis) -> Table:
    where = " (simulated devices)" if diagnosis.seen.simulated else ""
    table = Table(title=f"Can notebooks be parked here?{where}", title_justify="left")
    for heading in ("check", "", "what was found", "what helps"):
        table.add_column(heading, overflow="fold", no_wrap=not heading)
    for row in diagnosis.rows:
        word, style = _WORDS[row.result]
        table.add_row(row.title, Text(word, style), Text(printable(row.found)), Text(printable(row.remedy)))
    return table


def _verdict(diagnosis: Diagnosis) -> Text:
    against = [row.title for row in diagnosis.rows if row.result == "no"]
    if against:
        return Text(f"Notebooks cannot be parked here, because of: {', '.join(against)}.", "bold red")
    return Text("Notebooks can be parked here.")


def _as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    seen = diagnosis.seen
    checkpoint = seen.checkpoint
    return {
        "schema": _SCHEMA,
        "version": version("jupyter_gpushare"),
        "parkable": diagnosis.parkable,
        "qualified": diagnosis.qualified,
        "simulated": seen.simulated,
        "host": {"architecture": seen.host.architecture, "system": platform.release()},
        "driver": {
            "vendor": checkpoint.vendor if checkpoint else seen.driver.vendor,
            "version": checkpoint.version if checkpoint else seen.driver.version,
            "cuda": checkpoint.cuda if checkpoint else "",
        },
        "checks": [asdict(row) for row in diagnosis.rows],
    }
