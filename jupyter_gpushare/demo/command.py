"""``jupyter gpushare demo``: its options, and which of the demo's parts they run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jupyter_core.application import JupyterApp
from rich.console import Console
from traitlets import Bool, Float, Int, Unicode

from jupyter_gpushare.broker.places import PlaceError
from jupyter_gpushare.demo import tour
from jupyter_gpushare.demo.hub.plan import HubError
from jupyter_gpushare.demo.processes import ENDING_SIGNALS
from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.demo.show import Demo, DemoError
from jupyter_gpushare.demo.workspace import IDLE_S

if TYPE_CHECKING:
    from types import FrameType

    from jupyter_gpushare.demo.hub.show import HubDemo

__all__ = ["DemoApp", "new_console"]

_INTERRUPTED: Final = 130  # the shell's code for a program ended by Ctrl-C
_PIPE_WIDTH: Final = 160
_SHORTEST_IDLE_S: Final = 1.0
_LAB_PORT: Final = 8888
_HUB_PORT: Final = 8000


def new_console() -> Console:
    """A console that keeps colours out of pipes and honours NO_COLOR; a pipe gets long lines instead of folded ones."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_PIPE_WIDTH)


def _flag(trait: str, value: Any, help_text: str) -> tuple[dict[str, dict[str, Any]], str]:
    return {"DemoApp": {trait: value}}, help_text


class DemoApp(JupyterApp):
    """JupyterLab, or with --hub a JupyterHub, on two simulated GPUs: a guided notebook, training, and who has what."""

    name = "jupyter-gpushare-demo"
    description = __doc__
    examples = (
        "jupyter gpushare demo                       # prints the address, and opens it unless you are root\n"
        "jupyter gpushare demo --hub                 # a JupyterHub with people of two teams; prints their passwords\n"
        "jupyter gpushare demo --tour hub            # picked, idle, parked, lent and back again, through that hub\n"
        "jupyter gpushare demo --tour                # every story, without a browser, as a table\n"
        "jupyter gpushare demo --tour share          # a notebook idles, and training has its half, with times\n"
        "jupyter gpushare demo --tour teams          # four teams, sixteen GPUs, who has to yield and why\n"
        "jupyter gpushare demo --tour notebook --break allocate"
    )

    hub = Bool(help="Start a JupyterHub, where two people of two teams pick their shares, and not one JupyterLab.").tag(
        config=True
    )
    real = Bool(help="Use this machine's real GPUs instead of simulated ones.").tag(config=True)
    port = Int(
        None, allow_none=True, help="The first port to try: 8888, or 8000 with --hub. 0 takes any free one."
    ).tag(config=True)
    browser = Bool(True, help="Open a browser. Never done as root.").tag(config=True)  # noqa: FBT003  # the default
    lab_dir = Unicode(help="Keep the notebooks in this directory; without it they are deleted at the end.").tag(
        config=True
    )
    idle = Float(
        IDLE_S, help="Park a notebook that was idle for so many seconds; 0 for never by itself. Not with --real."
    ).tag(config=True)
    story = Unicode(help="Run this story without a browser and print its timeline; --tour alone runs all.").tag(
        config=True
    )
    broken = Unicode(help="Sabotage reality at this step of the tour, to see that the tour notices.").tag(config=True)
    list_steps = Bool(help="Print the steps of every story, and what --break does in each.").tag(config=True)
    deadline = Float(60, help="Seconds that a single wait may take. Passing it is a failure, with its reason.").tag(
        config=True
    )
    json = Bool(help="Print JSON.").tag(config=True)

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        "port": "DemoApp.port",
        "lab-dir": "DemoApp.lab_dir",
        "idle": "DemoApp.idle",
        "tour": "DemoApp.story",
        "break": "DemoApp.broken",
        "deadline": "DemoApp.deadline",
    }
    flags = {  # noqa: RUF012  # as above
        "hub": _flag("hub", value=True, help_text="Start a JupyterHub."),
        "real": _flag("real", value=True, help_text="Use real GPUs."),
        "no-browser": _flag("browser", value=False, help_text="Only print the address."),
        "tour": _flag("story", value=tour.ALL, help_text="Run every story that the installed extras allow."),
        "list-steps": _flag("list_steps", value=True, help_text="Print the steps of every story."),
        "json": _flag("json", value=True, help_text="Print JSON."),
    }

    def start(self) -> None:
        """Run what the options ask for, and exit with what happened."""
        super().start()
        for number in ENDING_SIGNALS:
            _end_on(number)
        console = new_console()
        try:
            self.exit(self._run(console))
        except (DemoError, HubError, PlaceError, ServerError, tour.TourError) as error:
            self.exit(str(error))
        except KeyboardInterrupt:
            self.exit(_INTERRUPTED)

    def _run(self, console: Console) -> int:
        self._check_options()
        if self.list_steps:
            tour.list_steps(console)
            return 0
        if self.story:
            return 0 if asyncio.run(self._tour(console)) else 1
        return self._show(console)

    def _check_options(self) -> None:
        if self.extra_args:
            raise DemoError(f"{self.extra_args[0]!r} is no option of the demo. See jupyter gpushare demo --help.")
        if self.broken and not self.story:
            raise DemoError("--break goes with --tour: jupyter gpushare demo --tour --break STEP")
        if self.story and self.real:
            raise DemoError("--tour runs on simulated devices only; leave out --real.")
        if self.hub and (self.real or self.lab_dir):
            raise DemoError("--hub shows simulated devices in a directory of its own; leave out --real and --lab-dir.")
        if self.port is not None and not 0 <= self.port <= 65535:  # noqa: PLR2004  # the range of TCP ports
            raise DemoError(f"--port {self.port} is no port; write for example --port 8888")
        if self.idle < 0 or 0 < self.idle < _SHORTEST_IDLE_S:
            raise DemoError(f"--idle {self.idle:g} is too short; write for example --idle 30, or 0 for never")
        if self.deadline <= 0:
            raise DemoError(f"--deadline {self.deadline:g} is no time; write for example --deadline 60")

    async def _tour(self, console: Console) -> bool:
        return await tour.run(
            console, self.story, broken=self.broken or None, deadline_s=self.deadline, as_json=self.json
        )

    def _show(self, console: Console) -> int:
        if find_spec("jupyterlab") is None:
            raise DemoError("The demo needs JupyterLab: pip install 'jupyter_gpushare[demo]'")
        demo = self._hub_demo(console) if self.hub else self._lab_demo(console)
        wanted = self.browser and not self.json and os.geteuid() != 0
        try:
            asyncio.run(demo.run(open_browser=wanted, as_json=self.json))
        except KeyboardInterrupt:
            if not self.json:
                console.print("\nEnding the demo…")
        finally:
            demo.clean_up()
        return 0

    def _lab_demo(self, console: Console) -> Demo:
        return Demo(
            console,
            keep=Path(self.lab_dir) if self.lab_dir else None,
            real=self.real,
            port=_LAB_PORT if self.port is None else self.port,
            idle_s=self.idle or None,
            deadline_s=self.deadline,
        )

    def _hub_demo(self, console: Console) -> HubDemo:
        if find_spec("jupyterhub") is None:
            raise DemoError("--hub needs JupyterHub: pip install 'jupyter_gpushare[demo,hub]'")
        from jupyter_gpushare.demo.hub.show import HubDemo

        port = _HUB_PORT if self.port is None else self.port
        return HubDemo(console, port=port, idle_s=self.idle or None, deadline_s=self.deadline)


def _end_on(number: signal.Signals) -> None:
    """Make *number* end the demo as Ctrl-C does. A hang-up stays ignored under ``nohup``."""
    if number == signal.SIGINT:
        # A shell starts its background jobs with this one ignored, and `kill` would then be lost with it.
        signal.signal(number, signal.default_int_handler)
    elif signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)  # which asyncio already turns into an orderly end
