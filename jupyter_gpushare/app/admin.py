"""``jupyter gpushare admin …``: what only admins may do, and the audit."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jupyter_core.application import JupyterApp
from rich.table import Table
from rich.text import Text
from traitlets import Bool, Int, Unicode

from jupyter_gpushare.app.broker_command import BrokerCommand
from jupyter_gpushare.broker.admin_wire import DrainRequest, ReclaimRequest, StopParkingRequest
from jupyter_gpushare.broker.audit_wire import AuditAnswer, AuditEntryModel
from jupyter_gpushare.broker.wire import (
    BrokerModel,
    DevicesAnswer,
    LeaseModel,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jupyter_gpushare.broker.client import BrokerClient

__all__ = ["AdminApp"]

_SHORT = 8


def _flags(app: str, **help_texts: str) -> dict[str, Any]:
    return {name: ({app: {name: True}}, text) for name, text in help_texts.items()}


class ReclaimApp(BrokerCommand):
    """Take back what a lease has: a notebook is parked, a job yields and waits again. Nothing is lost."""

    name = "jupyter-gpushare-admin-reclaim"
    description = __doc__
    examples = "jupyter gpushare admin reclaim 1f0c2a…"

    aliases = {}  # noqa: RUF012  # traitlets reads it from the class
    flags = _flags("ReclaimApp", json="Print JSON.")

    def start(self) -> None:
        """Take the lease's id, and ask for it."""
        leases, self.extra_args = self.extra_args, []
        if len(leases) != 1:
            self.exit("Which lease? `jupyter gpushare leases` shows their ids.")
        self._lease = leases[0][:64]
        super().start()

    async def asked(self, client: BrokerClient) -> LeaseModel:
        """The lease, as it is now."""
        return await client.request("POST", "admin/reclaim", ReclaimRequest(self._lease), type=LeaseModel)

    def shown(self, answer: LeaseModel) -> RenderableType:
        """One sentence."""
        return Text(f"{answer.name or answer.id} of {answer.person} is {answer.status}; nothing of it is lost.")


class DrainApp(BrokerCommand):
    """Have a device or a host take nothing new, until --undo; with --evacuate, jobs there yield and go on elsewhere."""

    name = "jupyter-gpushare-admin-drain"
    description = __doc__
    examples = "jupyter gpushare admin drain --host gpu-1 --evacuate"

    device = Unicode(help="The UUID of a device.").tag(config=True)
    host = Unicode(help="The name of a host.").tag(config=True)
    undo = Bool(help="Have it take leases again.").tag(config=True)
    evacuate = Bool(help="Jobs there yield too.").tag(config=True)

    aliases = {"device": "DrainApp.device", "host": "DrainApp.host"}  # noqa: RUF012  # traitlets reads it
    flags = _flags("DrainApp", json="Print JSON.", undo="Have it take leases again.", evacuate="Jobs there yield too.")

    def start(self) -> None:
        """Check what is meant, and ask for it."""
        if bool(self.device) == bool(self.host):
            self.exit("Name one: --device UUID or --host NAME.")
        super().start()

    async def asked(self, client: BrokerClient) -> DevicesAnswer:
        """The devices, as they are now."""
        request = DrainRequest(self.device[:200], self.host[:255], self.undo, self.evacuate)
        return await client.request("POST", "admin/drain", request, type=DevicesAnswer)

    def shown(self, answer: DevicesAnswer) -> RenderableType:
        """Those that are meant."""
        table = Table("host", "device", "condition", "held", "lent", "parked")
        for device in answer.devices:
            if device.uuid == self.device or device.host == self.host:
                parts = (device.host, device.uuid, device.condition, device.held, device.lent, device.parked)
                table.add_row(*map(Text, parts))
        return table


class StopParkingApp(BrokerCommand):
    """Stop all parking and bring everybody back in order; --undo has it begin again."""

    name = "jupyter-gpushare-admin-stop-parking"
    description = __doc__

    undo = Bool(help="Have parking begin again.").tag(config=True)

    aliases = {}  # noqa: RUF012  # traitlets reads it from the class
    flags = _flags("StopParkingApp", json="Print JSON.", undo="Have parking begin again.")

    async def asked(self, client: BrokerClient) -> BrokerModel:
        """The broker, as it is now."""
        request = StopParkingRequest(not self.undo)
        return await client.request("POST", "admin/stop-parking", request, type=BrokerModel)

    def shown(self, answer: BrokerModel) -> RenderableType:
        """One sentence."""
        if answer.is_parking_stopped:
            return "Nobody is parked any more; everybody is brought back in order. Undo with --undo."
        return "Parking goes on."


class AuditApp(BrokerCommand):
    """Who got, lost, parked and lent what, and why, the newest last. Everybody sees their own lines, admins all."""

    name = "jupyter-gpushare-admin-audit"
    description = __doc__
    examples = (
        "jupyter gpushare admin audit --project team-a --limit 50    # the newest 50\n"
        "jupyter gpushare admin audit --before 1200                  # what was before line 1200\n"
        "jupyter gpushare admin audit --after 1200                   # and what came after it, the oldest 100"
    )

    lease = Unicode(help="Of this lease only.").tag(config=True)
    project = Unicode(help="Of this project only.").tag(config=True)
    person = Unicode(help="Of this person only.").tag(config=True)
    before = Int(0, help="Only lines with a smaller number.").tag(config=True)
    after = Int(0, help="Only lines with a larger number, beginning with the oldest of them.").tag(config=True)
    limit = Int(100, help="So many lines at most, up to 1000.").tag(config=True)

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        name: f"AuditApp.{name}" for name in ("lease", "project", "person", "before", "after", "limit")
    }
    flags = _flags("AuditApp", json="Print JSON.")

    async def asked(self, client: BrokerClient) -> AuditAnswer:
        """One page, in the order in which it happened."""
        query = {name: getattr(self, name) for name in ("before", "after", "limit", "lease", "project", "person")}
        wanted = {name: value for name, value in query.items() if value not in ("", 0)}
        if not self.after:
            wanted["order"] = "newest"
        page = await client.request("GET", f"audit?{urlencode(wanted)}", type=AuditAnswer)
        return AuditAnswer(sorted(page.entries, key=lambda entry: entry.number))

    def shown(self, answer: AuditAnswer) -> RenderableType:
        """A table."""
        if not answer.entries:
            return "There are no such lines."
        table = Table("no.", "time", "what", "lease", "project", "person", "GPUs", "why", "by")
        for entry in answer.entries:
            table.add_row(*map(Text, _row(entry)))
        return table


def _row(entry: AuditEntryModel) -> tuple[str, ...]:
    at = datetime.fromtimestamp(entry.at).astimezone()
    why = entry.reason or (f"for {entry.because_of[:_SHORT]}" if entry.because_of else "")
    what = f"{at:%Y-%m-%d %H:%M:%S}", entry.verb.replace("_", " "), entry.lease[:_SHORT]
    return (str(entry.number), *what, entry.project, entry.person, entry.amount, why, entry.by)


class AdminApp(JupyterApp):
    """What admins do: reclaim, drain, stop-parking, audit."""

    name = "jupyter-gpushare-admin"
    description = __doc__
    subcommands = {  # noqa: RUF012  # traitlets reads it from the class
        "reclaim": (ReclaimApp, ReclaimApp.__doc__),
        "drain": (DrainApp, DrainApp.__doc__),
        "stop-parking": (StopParkingApp, StopParkingApp.__doc__),
        "audit": (AuditApp, AuditApp.__doc__),
    }

    def start(self) -> None:
        """Run the subcommand, or say which there are."""
        super().start()
        self.exit(f"Which one? {', '.join(self.subcommands)}. For example: jupyter gpushare admin audit")
