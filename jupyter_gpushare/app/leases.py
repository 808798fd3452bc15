"""``jupyter gpushare leases``: who has, waits for, or has parked what."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from traitlets import Enum, Unicode

from jupyter_gpushare.app.broker_command import BrokerCommand
from jupyter_gpushare.app.tables import leases_table
from jupyter_gpushare.broker.wire import LeasesAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jupyter_gpushare.broker.client import BrokerClient

__all__ = ["LeasesApp"]

_STATUSES = ("", "queued", "granted", "running", "parking", "parked", "resuming", "yielding", "missing")


class LeasesApp(BrokerCommand):
    """Leases: who has what of the GPUs, who waits and why, and what is parked and lent."""

    name = "jupyter-gpushare-leases"
    description = __doc__
    examples = "jupyter gpushare leases --project team-a --status queued"

    project = Unicode(help="Only those of this project.").tag(config=True)
    person = Unicode(help="Only those of this person.").tag(config=True)
    status = Enum(_STATUSES, "", help="Only those in this state.").tag(config=True)

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        "project": "LeasesApp.project",
        "person": "LeasesApp.person",
        "status": "LeasesApp.status",
    }
    flags = {"json": ({"LeasesApp": {"json": True}}, "Print JSON.")}  # noqa: RUF012  # as above

    async def asked(self, client: BrokerClient) -> LeasesAnswer:
        """Every lease that the asker may see."""
        wanted = {"project": self.project, "person": self.person, "status": self.status}
        query = urlencode({name: value for name, value in wanted.items() if value})
        return await client.request("GET", f"leases?{query}" if query else "leases", type=LeasesAnswer)

    def shown(self, answer: LeasesAnswer) -> RenderableType:
        """A table, or that there is none."""
        if answer.leases:
            return leases_table(answer.leases)
        if self.project or self.person or self.status:
            return "No share that you may see is like that now."
        return "Of those whose shares you may see, nobody has or waits for one now."
