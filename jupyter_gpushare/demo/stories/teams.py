"""Four teams fill sixteen GPUs, one of them over its quota; then another team asks for what is its own.

The sequence is NetApp's TR-4858, section 4.8. Holders here are light: each holds its lease over a connection of its own
as a notebook server or a job does, and runs no program.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.table import Table

from jupyter_gpushare.broker.audit_wire import AuditAnswer
from jupyter_gpushare.broker.wire import DevicesAnswer, LeaseModel, ProjectsAnswer
from jupyter_gpushare.demo.broker import DemoBroker
from jupyter_gpushare.demo.light_holder import LightHolder
from jupyter_gpushare.demo.machine import create_machine
from jupyter_gpushare.demo.processes import Child, end_processes, marked_processes
from jupyter_gpushare.demo.story import Step, StepError, Story, expect, step
from jupyter_gpushare.demo.workspace import Workspace
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from jupyter_gpushare.rules.reason import Reason, explain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from rich.console import RenderableType

    from jupyter_gpushare.broker.wire import LeaseKind

__all__ = ["SUBMISSIONS", "TeamsStory"]

_QUOTAS: Final = {"team-a": 4, "team-b": 2, "team-c": 2, "team-d": 8}
#: In order: name, GPUs, kind, project.
SUBMISSIONS: Final[tuple[tuple[str, str, LeaseKind, str], ...]] = (
    ("a-1-1-jupyter", "1", "interactive", "team-a"),
    ("a-1-g", "1", "training", "team-a"),
    ("a-2-gg", "2", "training", "team-a"),
    ("b-1-g06", "0.6", "interactive", "team-b"),
    ("b-2-g04", "0.4", "interactive", "team-b"),
    ("b-3-g", "1", "training", "team-b"),
    ("b-4-gg", "2", "training", "team-b"),
    ("c-1-g05", "0.5", "interactive", "team-c"),
    ("c-2-g03", "0.3", "interactive", "team-c"),
    ("c-3-g02", "0.2", "interactive", "team-c"),
    ("c-4-gg", "2", "training", "team-c"),
    ("c-5-g", "1", "training", "team-c"),
    ("d-1-gggg", "4", "training", "team-d"),
)
_HOSTS: Final = ("host-1", "host-2")
_GPUS: Final = 8
#: What follows from one decision follows at once, but that a job which had to yield is left out for a second or two.
_SETTLED_WITHIN_S: Final = 8.0
_POLL_S: Final = 0.02
_MOVING: Final = frozenset({"granted", "resuming", "parking", "yielding"})
_POLICY: Final = '[pools.default]\nminimum_turn = "0s"\nbackoff = "1s"\n'


@dataclass(frozen=True)
class State:
    """Who has how much now: GPUs in use by project, the jobs that wait, and why."""

    allocated: Mapping[str, str]
    waiting: Mapping[str, str]

    @property
    def total(self) -> str:
        """All that is in use, in GPUs."""
        return f"{sum(map(float, self.allocated.values())):g}"


@dataclass(frozen=True)
class Row:
    """The state after something happened, and who had to yield for it, with the reason."""

    what: str
    state: State
    yielded: Mapping[str, str] = field(default_factory=dict)
    returned: tuple[str, ...] = ()


def _one_more(number: int, *, allocated: str, yields: str, waits: str, returns: str = "") -> Step:
    """Team-d asks for one more GPU: who has how much then (a, b, c, d), who yields, who waits, who goes on again."""
    name = f"d-{number + 1}-g"

    async def run(story: TeamsStory, /, *, broken: bool) -> str:
        waiting = set(waits.split())
        row = await story.claim(LightHolder(name, "training", "team-d", "2" if broken else "1"), waiting)
        wanted = dict(zip(_QUOTAS, allocated.split(), strict=True))
        expect(dict(row.state.allocated) == wanted, f"allocated are {dict(row.state.allocated)}, not {wanted}")
        expect(list(row.yielded) == [yields], f"{', '.join(row.yielded) or 'nobody'} had to yield, not {yields}")
        expect(row.state.waiting.keys() == waiting, f"waiting are {', '.join(row.state.waiting)}")
        expect(row.returned == tuple(returns.split()), f"{', '.join(row.returned) or 'nobody'} went on again")
        again = f"\n{returns} goes on again" if returns else ""
        return f"{yields} yields: {row.yielded[yields]}{again}\n{row.state.total}/16 in use: {_told(row.state)}"

    title = f"team-d claims its GPU {number + 4} of 8"
    return Step(f"claim-{number}", title, "it claims two GPUs", run)


class TeamsStory(Story):
    """A real broker over two simulated hosts of eight GPUs, asked over its API for all that is told."""

    name: ClassVar[str] = "teams"
    title: ClassVar[str] = "four teams share sixteen GPUs (the leases are real, the programs that hold them are not)"

    broker: DemoBroker

    def __init__(self, deadline_s: float) -> None:
        super().__init__(deadline_s)
        self.workspace = Workspace.create()
        self.environment = self.workspace.environment(private_runtime=True, broker=True)
        self.children: list[Child] = []
        self._rows: list[Row] = []
        self._holders: list[LightHolder] = []

    def clean_up(self) -> None:
        """End the broker and delete the directory. Holders end with the event loop."""
        for child in reversed(self.children):
            child.end()
        end_processes(self.workspace.root)
        self.workspace.remove()

    @step("hosts", "two hosts of eight GPUs, four teams with quotas", sabotage="one GPU is missing")
    async def _start(self, *, broken: bool) -> str:
        specs = [DeviceSpec(host=host, uuid=f"GPU-{host}-{n}") for host in _HOSTS for n in range(_GPUS)]
        create_machine(self.workspace, specs[1:] if broken else specs)
        policy = "".join(f"[projects.{name}]\nquota = {quota}\n" for name, quota in _QUOTAS.items()) + _POLICY
        self.broker = await DemoBroker.start(
            self.workspace, self.environment, policy, deadline_s=self.deadline_s, started=self.children.append
        )
        found = await self.broker.client.request("GET", "devices", type=DevicesAnswer)
        expect(len(found.devices) == len(specs), f"the broker sees {len(found.devices)} GPUs instead of {len(specs)}")
        return (
            f"{len(found.devices)} GPUs on {' and '.join(host.name for host in found.hosts)}; quotas: {_told_quotas()}"
        )

    @step("fill", "thirteen submissions, one after the other", sabotage="the last one is forgotten")
    async def _fill(self, *, broken: bool) -> str:
        for name, gpus, kind, project in SUBMISSIONS[:-1] if broken else SUBMISSIONS:
            row = await self.claim(LightHolder(name, kind, project, gpus))
            expect(not row.state.waiting, f"after {name} there wait: {', '.join(row.state.waiting)}")
            expect(not row.yielded, f"for {name} there yielded: {', '.join(row.yielded)}")
        state = self._rows[-1].state
        full = dict.fromkeys(_QUOTAS, "4")
        expect(dict(state.allocated) == full, f"allocated are {dict(state.allocated)}, not {full}")
        return f"{state.total}/16 in use: {_told(state)}; none queued"

    first = _one_more(1, allocated="4 4 3 5", yields="c-5-g", waits="c-5-g")
    second = _one_more(2, allocated="4 3 3 6", yields="b-3-g", waits="c-5-g b-3-g")
    third = _one_more(3, allocated="4 3 2 7", yields="c-4-gg", waits="b-3-g c-4-gg", returns="c-5-g")
    fourth = _one_more(4, allocated="4 2 2 8", yields="b-4-gg", waits="b-4-gg c-4-gg", returns="b-3-g")

    @step("end", "everybody leaves", sabotage="one holder stays")
    async def _end(self, *, broken: bool) -> str:
        await asyncio.gather(*(holder.end() for holder in self._holders[broken:]))
        deadline = time.monotonic() + _SETTLED_WITHIN_S
        while left := await self.broker.leases():
            expect(time.monotonic() < deadline, f"leases that are left: {', '.join(lease.name for lease in left)}")
            await asyncio.sleep(_POLL_S)
        code = await asyncio.to_thread(self.children[0].end, self.deadline_s)
        expect(code == 0, f"the broker ended with code {code}: {self.children[0].log_tail()}")
        expect(not marked_processes(self.workspace.root), "a process is left")
        return "no lease and no process is left"

    def summary(self) -> RenderableType | None:
        """Who had how much after each claim."""
        headings = [f"{name} (of {quota})" for name, quota in _QUOTAS.items()]
        table = Table("after", *headings, "in use", "waiting", "yielded, and why", title_justify="left")
        for row in self._rows:
            yielded = "\n".join(f"{name}: {why}" for name, why in row.yielded.items())
            waiting = ", ".join(row.state.waiting)
            table.add_row(row.what, *row.state.allocated.values(), f"{row.state.total}/16", waiting, yielded)
        return table if self._rows else None

    async def claim(self, holder: LightHolder, waits: AbstractSet[str] = frozenset()) -> Row:
        """Submit *holder*'s claim, wait until it runs, nobody moves any more and *waits* wait; the row of it.

        Who waits in truth, when that does not come, is in the row.

        Raises:
            StepError: it does not run.
        """
        before, last = await self._state(), await self._last_entry()
        self._holders.append(holder)
        holding = holder.claim(self.broker.client)
        try:
            await asyncio.wait_for(holding.until(lambda lease: lease.status == "running"), _SETTLED_WITHIN_S)
        except TimeoutError:
            why = "" if holding.lease is None or holding.lease.reason is None else holding.lease.reason.text
            raise StepError(f"{holder.name} does not run. {why}") from None
        leases = await self._settled(waits)
        state = await self._state()
        returned = tuple(name for name in before.waiting if name not in state.waiting)
        row = Row(f"{holder.name}, {holder.share}", state, await self._yielded(last, leases), returned)
        self._rows.append(row)
        self.figures.setdefault("states", []).append(_plain(row))
        return row

    async def _settled(self, waits: AbstractSet[str]) -> list[LeaseModel]:
        deadline = time.monotonic() + _SETTLED_WITHIN_S
        while True:
            leases = await self.broker.leases()
            waiting = {lease.name for lease in leases if lease.status == "queued"}
            is_moving = any(lease.status in _MOVING for lease in leases)
            if (not is_moving and waiting == waits) or time.monotonic() > deadline:
                return leases
            await asyncio.sleep(_POLL_S)

    async def _state(self) -> State:
        projects = (await self.broker.client.request("GET", "projects", type=ProjectsAnswer)).projects
        waiting = [lease for lease in await self.broker.leases() if lease.status == "queued"]
        return State(
            {project.name: project.allocated for project in projects},
            {lease.name: lease.reason.text if lease.reason else "" for lease in waiting},
        )

    async def _last_entry(self) -> int:
        entries = (await self.broker.client.request("GET", "audit?limit=1000", type=AuditAnswer)).entries
        return entries[-1].number if entries else 0

    async def _yielded(self, after: int, leases: list[LeaseModel]) -> dict[str, str]:
        """Who was reclaimed since the entry *after* of the audit, each with the audit's reason and for whom."""
        names = {lease.id: lease.name for lease in leases}
        audit = await self.broker.client.request("GET", f"audit?after={after}&limit=1000", type=AuditAnswer)
        return {
            names[entry.lease]: f"{explain(Reason(entry.reason)).text} ({entry.reason} for {names[entry.because_of]})"
            for entry in audit.entries
            if entry.verb == "reclaimed"
        }


def _told(state: State) -> str:
    return ", ".join(f"{name} {amount}/{_QUOTAS[name]}" for name, amount in state.allocated.items())


def _told_quotas() -> str:
    return ", ".join(f"{name} {quota}" for name, quota in _QUOTAS.items())


def _plain(row: Row) -> dict[str, Any]:
    waiting, allocated = dict(row.state.waiting), dict(row.state.allocated)
    return {"after": row.what, "allocated": allocated, "waiting": waiting, "yielded": dict(row.yielded)}
