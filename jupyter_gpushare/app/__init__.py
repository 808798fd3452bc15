"""The command ``jupyter gpushare …``."""

from __future__ import annotations

import sys

from jupyter_core.application import JupyterApp

from jupyter_gpushare.app.admin import AdminApp
from jupyter_gpushare.app.apply import ApplyApp
from jupyter_gpushare.app.broker import BrokerApp
from jupyter_gpushare.app.doctor import DoctorApp
from jupyter_gpushare.app.install_service import InstallServiceApp, UninstallApp
from jupyter_gpushare.app.leases import LeasesApp
from jupyter_gpushare.app.park import ParkApp, ResumeApp
from jupyter_gpushare.app.projects import ProjectsApp
from jupyter_gpushare.app.run import RunApp
from jupyter_gpushare.app.status import StatusApp
from jupyter_gpushare.app.top import TopApp
from jupyter_gpushare.demo.command import DemoApp
from jupyter_gpushare.demo.figures import printable

__all__ = ["GpuShareApp", "main"]


class GpuShareApp(JupyterApp):
    """GPU shares for Jupyter: see yours live, and give it back."""

    name = "jupyter-gpushare"
    description = __doc__
    subcommands = {  # noqa: RUF012  # traitlets reads it from the class
        "admin": (AdminApp, AdminApp.__doc__),
        "apply": (ApplyApp, ApplyApp.__doc__),
        "broker": (BrokerApp, BrokerApp.__doc__),
        "demo": (DemoApp, DemoApp.__doc__),
        "doctor": (DoctorApp, DoctorApp.__doc__),
        "run": (RunApp, RunApp.__doc__),
        "status": (StatusApp, StatusApp.__doc__),
        "top": (TopApp, TopApp.__doc__),
        "leases": (LeasesApp, LeasesApp.__doc__),
        "projects": (ProjectsApp, ProjectsApp.__doc__),
        "install-service": (InstallServiceApp, InstallServiceApp.__doc__),
        "uninstall": (UninstallApp, UninstallApp.__doc__),
        "park": (ParkApp, ParkApp.__doc__),
        "resume": (ResumeApp, ResumeApp.__doc__),
    }

    def start(self) -> None:
        """Run the subcommand, or say which there are."""
        super().start()
        known = ", ".join(self.subcommands)
        if self.extra_args:
            self.exit(f"jupyter gpushare has no command {printable(self.extra_args[0])!r}. Commands: {known}.")
        self.exit(f"Which command? {known}. For example: jupyter gpushare status")


def main() -> None:
    """Run the command."""
    GpuShareApp.launch_instance(sys.argv[1:])
