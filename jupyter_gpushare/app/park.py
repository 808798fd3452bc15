"""``jupyter gpushare park`` and ``resume``: a notebook's GPU memory off the GPU and back, from a terminal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from jupyter_core.application import JupyterApp
from rich.progress import BarColumn, Progress, TextColumn
from traitlets import Bool, Float

from jupyter_gpushare.app import moving
from jupyter_gpushare.app.choosing import Found, chosen, kernels_of
from jupyter_gpushare.app.servers import Answered, ask_all
from jupyter_gpushare.demo.command import new_console
from jupyter_gpushare.demo.figures import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from jupyter_gpushare.app.moving import Outcome
    from jupyter_gpushare.session.wire import ParkingModel

__all__ = ["ParkApp", "ResumeApp"]


class ChoiceError(Exception):
    """Which kernel is meant cannot be told. The text says what there is."""


class MoveApp(JupyterApp):
    """What both commands have in common: choosing kernels, moving them, telling how it went."""

    verb: ClassVar[str]

    all_kernels = Bool(help="Every kernel that it applies to, of all your servers.").tag(config=True)
    json = Bool(help="Print JSON.").tag(config=True)
    deadline = Float(600, help="Seconds to wait for the end. Past it, the server goes on without this command.").tag(
        config=True
    )
    aliases = {"deadline": "MoveApp.deadline"}  # noqa: RUF012  # traitlets reads it from the class
    flags = {  # noqa: RUF012  # as above
        "all": ({"MoveApp": {"all_kernels": True}}, "Every kernel that it applies to, of all your servers."),
        "json": ({"MoveApp": {"json": True}}, "Print JSON."),
    }

    def start(self) -> None:
        """Move what is meant; exits with 0 when all of it is where it was wanted."""
        super().start()
        console = new_console()
        try:
            outcomes = asyncio.run(self._run(console))
        except ChoiceError as error:
            self.exit(str(error))
        except KeyboardInterrupt:
            self.exit("Stopped waiting. Nothing is lost, and it goes on in the server.")
        if self.json:
            console.out(json.dumps([outcome.as_json() for outcome in outcomes], indent=2), highlight=False)
        else:
            for outcome in outcomes:
                console.out(_line(outcome), highlight=False)
        self.exit(0 if all(outcome.done for outcome in outcomes) else 1)

    def applies(self, found: Found) -> bool:
        """Whether `--all` means this kernel too."""
        raise NotImplementedError

    async def move(self, found: Found, told: moving.Told) -> Outcome:
        """Move one kernel, to the end or the deadline."""
        raise NotImplementedError

    async def _run(self, console: Console) -> list[Outcome]:
        from jupyter_server.serverapp import list_running_servers  # takes a second, which other commands need not

        answers = await ask_all(list_running_servers(self.runtime_dir, self.log))
        kernels = self._meant(answers)
        return [await self._move(console, found) for found in kernels]

    def _meant(self, answers: Sequence[Answered]) -> list[Found]:
        kernels = kernels_of(answers)
        if self.all_kernels and not self.extra_args:
            return [found for found in kernels if self.applies(found)] or _nothing(answers, f"Nothing to {self.verb}.")
        if self.all_kernels or len(self.extra_args) != 1:
            raise ChoiceError(f"Write one notebook or kernel id, or --all: jupyter gpushare {self.verb} train.ipynb")
        (target,) = self.extra_args
        found = chosen(target, kernels, Path.cwd())
        if len(found) > 1:
            raise ChoiceError(f"{printable(target)!r} may mean {len(found)} kernels; write an id:\n{_listed(found)}")
        return found or _nothing(answers, f"No running kernel is called {printable(target)!r}.")

    async def _move(self, console: Console, found: Found) -> Outcome:
        quiet = self.json or not console.is_terminal
        columns = TextColumn("{task.description}", markup=False), BarColumn(24)
        with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
            task = progress.add_task(printable(found.label), total=None)

            def tell(parking: ParkingModel) -> None:
                text = f"{printable(found.label)}  {printable(parking.message.text)}"
                total = None if parking.moved is None else parking.memory
                progress.update(task, description=text, total=total, completed=parking.moved or 0)

            return await self.move(found, tell)


class ParkApp(MoveApp):
    """Move a notebook's GPU memory to host memory. Nothing is lost: its next cell brings it back."""

    name = "jupyter-gpushare-park"
    description = __doc__
    examples = "jupyter gpushare park train.ipynb\njupyter gpushare park 3f2a\njupyter gpushare park --all"
    verb = "park"

    async def move(self, found: Found, told: moving.Told) -> Outcome:
        """Park it."""
        return await moving.park(found, told, self.deadline)

    def applies(self, found: Found) -> bool:
        """Those that hold GPU memory, or may."""
        parking = found.kernel.parking
        return found.kernel.memory.value != 0 and (parking is None or parking.status != "parked")


class ResumeApp(MoveApp):
    """Bring a parked notebook's GPU memory back to the GPU now, without running a cell."""

    name = "jupyter-gpushare-resume"
    description = __doc__
    examples = "jupyter gpushare resume train.ipynb\njupyter gpushare resume --all"
    verb = "resume"

    async def move(self, found: Found, told: moving.Told) -> Outcome:
        """Resume it."""
        return await moving.resume(found, told, self.deadline)

    def applies(self, found: Found) -> bool:
        """Those that are parked, or on the way."""
        parking = found.kernel.parking
        return parking is not None and parking.status in ("parking", "parked", "waiting", "resuming")


def _line(outcome: Outcome) -> str:
    return f"{'✓' if outcome.done else '!'} {printable(outcome.found.label)}  {printable(outcome.text)}"


def _listed(kernels: Sequence[Found]) -> str:
    return "\n".join(
        f"  {printable(found.kernel.id)}  {printable(found.label)}  {printable(found.server.url)}" for found in kernels
    )


def _nothing(answers: Sequence[Answered], problem: str) -> list[Found]:
    """Say why there is nothing, with what there is and what could not be asked."""
    if not answers:
        raise ChoiceError("No Jupyter server of yours is running here. Start one with: jupyter lab")
    kernels = kernels_of(answers)
    parts = [problem, f"There is:\n{_listed(kernels)}" if kernels else "No kernel is running."]
    parts += [f"{printable(one.server.url)}  {printable(one.problem)}" for one in answers if one.problem]
    raise ChoiceError("\n".join(parts))
