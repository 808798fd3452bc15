"""The command ``jupyter gpushare …``."""

from __future__ import annotations

import sys

from jupyter_core.application import JupyterApp

from jupyter_gpushare.demo.figures import printable

__all__ = ["GpuShareApp", "main"]


class GpuShareApp(JupyterApp):
    """GPU shares for Jupyter: see yours live, and give it back."""

    name = "jupyter-gpushare"
    description = __doc__
    # By name: a command loads what it needs itself, and nothing of the others.
    subcommands = {  # noqa: RUF012  # traitlets reads it from the class
        "admin": (
            "jupyter_gpushare.app.admin.AdminApp",
            "What admins do: reclaim, drain, stop-parking, audit.",
        ),
        "apply": (
            "jupyter_gpushare.app.apply.ApplyApp",
            "Put projects, quotas and pools in force: jupyter gpushare apply [--dry-run] gpushare.toml.",
        ),
        "backup": (
            "jupyter_gpushare.app.backup.BackupApp",
            "Copy the broker's books to a file while it runs. In PostgreSQL: says how.",
        ),
        "broker": (
            "jupyter_gpushare.app.broker.BrokerApp",
            "Decide who holds which GPU: quotas, fair shares, and idle shares lent to training.",
        ),
        "demo": (
            "jupyter_gpushare.demo.command.DemoApp",
            (
                "JupyterLab, or with --hub a JupyterHub, on two simulated GPUs: a guided notebook, training, and who "
                "has what."
            ),
        ),
        "doctor": (
            "jupyter_gpushare.app.doctor.DoctorApp",
            "Whether notebooks can be parked on this host: every check, a self-test, and what helps.",
        ),
        "restore": (
            "jupyter_gpushare.app.backup.RestoreApp",
            "Put a backup in the place of the books of a stopped broker. Holders go on, and bring what is newer.",
        ),
        "rollback": (
            "jupyter_gpushare.app.backup.RollbackApp",
            "Take the books of a stopped broker back to what an older version reads; then install that one.",
        ),
        "run": (
            "jupyter_gpushare.app.run.RunApp",
            "Run a training job on free and lent GPU shares: it waits, gives the GPU back when asked, and goes on.",
        ),
        "status": (
            "jupyter_gpushare.app.status.StatusApp",
            "What your running Jupyter servers hold of their GPU shares, and your leases where there is a broker.",
        ),
        "top": (
            "jupyter_gpushare.app.top.TopApp",
            "The GPUs and who has them, live: q ends it. Printed once where the output is no terminal.",
        ),
        "leases": (
            "jupyter_gpushare.app.leases.LeasesApp",
            "Leases: who has what of the GPUs, who waits and why, and what is parked and lent.",
        ),
        "projects": (
            "jupyter_gpushare.app.projects.ProjectsApp",
            "Projects: their quotas, their fair shares now, and what they have of the GPUs.",
        ),
        "install-service": (
            "jupyter_gpushare.app.install_service.InstallServiceApp",
            "Make the broker a service of this machine, which serves every user, each as himself.",
        ),
        "uninstall": (
            "jupyter_gpushare.app.uninstall.UninstallApp",
            "Bring everybody back, take back what install-service wrote, say what is left. Books stay without --purge.",
        ),
        "park": (
            "jupyter_gpushare.app.park.ParkApp",
            "Move a notebook's GPU memory to host memory. Nothing is lost: its next cell brings it back.",
        ),
        "resume": (
            "jupyter_gpushare.app.park.ResumeApp",
            "Bring a parked notebook's GPU memory back to the GPU now, without running a cell.",
        ),
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
