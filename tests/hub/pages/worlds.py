"""Books that pages are tried on: one as in a drawing, with everything in it once, and one with very much of everything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.ledger import UsageHours
from jupyter_gpushare.devices.device import Device
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.change import Entry, Verb
from jupyter_gpushare.rules.lease import Grant, Kind, Lease, Loan, Status, Target
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.share import Share
from tests.hub.pages.still import StillSite

if TYPE_CHECKING:
    from collections.abc import Iterator

#: 14:02 on a Sunday, UTC.
NOW = 1_795_356_120.0
_GIB = 1 << 30


def gpus(amount: str) -> Fraction:
    """``gpus("0.5")`` is half a GPU."""
    return Fraction.parse(amount)


def lease(name: str, person: str, project: str, *parts: tuple[str, str], **changes: Any) -> Lease:
    """A lease with these *parts* of devices; it runs, unless *changes* say otherwise."""
    kind = changes.pop("kind", Kind.INTERACTIVE)
    amount = parts[0][1] if parts else "0.5"
    values: dict[str, Any] = {
        "share": Share.parse(amount),
        "submitted": NOW - 7200,
        "since": NOW - 3600,
        "status": Status.RUNNING,
        "is_parkable": True,
        "key": f"hub:{person}/{name}",
        "epoch": 1,
        "id": f"id-{name}",
    }
    grants = tuple(Grant(device, gpus(part)) for device, part in parts)
    return Lease(kind=kind, project=project, person=person, name=name, grants=grants, **{**values, **changes})


def parked(name: str, person: str, project: str, *parts: tuple[str, str], **changes: Any) -> Lease:
    """A session that is parked and is to stay so."""
    more = {"status": Status.PARKED, "target": Target.PARKED, "host_memory": Memory(7_400_000_000), **changes}
    return lease(name, person, project, *parts, **more)


def job(name: str, person: str, project: str, *parts: tuple[str, str], **changes: Any) -> Lease:
    """A job that runs."""
    return lease(name, person, project, *parts, kind=Kind.TRAINING, **changes)


def hosts(count: int, per_host: int, kind: str = "a100") -> tuple[list[Host], list[GpuDevice], dict[str, Device]]:
    """Hosts ``host-1``… of *per_host* devices ``GPU-1-0``…, and the devices as a driver names them."""
    made, devices, hardware = [], [], {}
    usable, total = Memory(40 * _GIB), Memory(41 * _GIB)
    for number in range(1, count + 1):
        name = f"host-{number}"
        made.append(Host(name, parking_budget=Memory(256 * _GIB)))
        for index in range(per_host):
            uuid = f"GPU-{number}-{index}"
            devices.append(GpuDevice(uuid, name, kind, "main", usable))
            hardware[uuid] = Device(uuid, index, name, kind, f"NVIDIA {kind.upper()}-SXM4-40GB", total, usable)
    return made, devices, hardware


PROJECTS = (
    Project("team-a", gpus("4"), members=frozenset({"ana", "ali", "@a"}), owners=frozenset({"cy"})),
    Project("team-b", gpus("2"), members=frozenset({"bo", "ben"}), owners=frozenset({"@b-leads"})),
    Project("team-c", gpus("2"), members=frozenset({"cleo"})),
    Project("team-d", gpus("8"), members=frozenset({"dan"})),
)


def _leases() -> list[Lease]:
    """What the drawing shows, and then some: every look that a lease may have."""
    return [
        lease("climate", "ana", "team-a", ("GPU-1-0", "0.5")),
        lease("vision", "ali", "team-a", ("GPU-1-0", "0.25")),
        job("sweep", "bo", "team-b", ("GPU-1-0", "0.25")),
        parked("genes", "ana", "team-a", ("GPU-1-1", "0.5"), since=NOW - 1500),
        lease("maps", "bo", "team-b", ("GPU-1-1", "0.5")),
        job("bert", "cleo", "team-c", ("GPU-1-1", "0.5"), loans=(Loan("id-genes", "GPU-1-1", gpus("0.5")),)),
        job("resnet", "cleo", "team-c", ("GPU-1-2", "1"), ("GPU-1-3", "1")),
        lease("survey", "dan", "team-d", ("GPU-2-0", "0.6")),
        parked("poems", "dan", "team-d", ("GPU-2-0", "0.4"), since=NOW - 300),
        job("gan", "ben", "team-b", ("GPU-2-1", "1")),
        lease("tides", "dan", "team-d", ("GPU-2-2", "0.25"), status=Status.PARKING, target=Target.PARKED, since=NOW - 4),
        parked("birds", "ana", "team-a", ("GPU-2-2", "0.25"), target=Target.RUNNING, wanted_since=NOW - 20,
               reason=Reason.WAITING_FOR_COPIES),
        lease("wine", "ali", "team-a", ("GPU-2-2", "0.25")),
        job("lora", "bo", "team-b", status=Status.QUEUED, share=Share.parse("1"), since=NOW - 600,
            reason=Reason.WAITING_FOR_QUOTA),
        lease("forms", "ana", "team-a", status=Status.QUEUED, share=Share.parse("2x0.5"), since=NOW - 90,
              submitted=NOW - 90, reason=Reason.WAITING_FOR_DEVICE),
        job("diffusion", "dan", "team-d", status=Status.QUEUED, share=Share.parse("2"), since=NOW - 400,
            reason=Reason.BLOCKED_BY_FRAGMENTATION),
    ]  # fmt: skip


def _day(whole: float, step_s: float = 300.0) -> hub_wire.DayAnswer:
    """A day with a busy afternoon, and an hour in which nobody looked."""
    slots = []
    for n in range(288):
        if 60 <= n < 72:
            continue
        at = NOW - 86400 + n * step_s
        bump = math.exp(-(((n - 170) / 60) ** 2))
        running, lent = whole * (0.18 + 0.25 * bump), whole * (0.12 + 0.18 * bump)
        parked_now, training = whole * 0.06, whole * (0.2 + 0.08 * math.sin(n / 9))
        foreign = whole * 0.02
        free = max(0.0, whole - running - lent - parked_now - training - foreign)
        slots.append(hub_wire.DayModel(at, running, parked_now, lent, training, foreign, free))
    return hub_wire.DayAnswer(step_s, slots)


def _audit(leases: list[Lease]) -> list[Entry]:
    lines = []
    for each in leases:
        lines.append(entry(each, Verb.SUBMITTED, each.submitted, by="holder", details={"share": str(each.share)}))
        if each.grants:
            lines += [entry(each, Verb.GRANTED, each.submitted + 2), entry(each, Verb.STARTED, each.submitted + 5)]
        if each.status is Status.PARKED:
            lines += [entry(each, Verb.ASKED_TO_PARK, each.since - 9), entry(each, Verb.PARKED, each.since)]
    old = leases[0].evolve(id="id-old", status=Status.ENDED)
    began = NOW - 3 * 86400
    lines += [
        entry(old, Verb.SUBMITTED, began, by="holder", details={"share": "0.5"}),
        entry(old, Verb.GRANTED, began + 1),
        entry(old, Verb.PARKED, began + 3601),
        entry(old, Verb.RESUMING, began + 18001),
        entry(old, Verb.ENDED, began + 25201, by="holder"),
        Entry(NOW - 50, Verb.POLICY_SET, by="root", details={"why": "a new <team>", "quota": "team-d 8"}),
    ]
    return sorted(lines, key=lambda line: line.at)


ASKS = (
    hub_wire.AskModel(7, "team-a", "ana", "limit", "1.5", "the deadline is on Friday", NOW - 4000, "open"),
    hub_wire.AskModel(8, "team-a", "ali", "quota", "6", "", NOW - 3000, "open"),
    hub_wire.AskModel(9, "team-b", "bo", "limit", "1", "", NOW - 2000, "open"),
    hub_wire.AskModel(3, "team-a", "ali", "limit", "1", "", NOW - 90000, "denied", "cy", NOW - 80000, "next week"),
)


def drawing(**changes: Any) -> StillSite:
    """The small world: two hosts of four devices, four projects, every state."""
    made, devices, hardware = hosts(2, 4)
    devices[7] = GpuDevice(
        "GPU-2-3", "host-2", "a100", "main", devices[7].usable, foreign=gpus("0.3"), condition="draining"
    )
    leases = _leases()
    books = Snapshot.of(projects=PROJECTS, pools=[Pool("main")], hosts=made, devices=devices, leases=leases)
    hour = int(NOW // 3600) * 3600
    used = [
        UsageHours(hour - 3600, project, person, held, back, lent, held * 0.6)
        for project, person, held, back, lent in (
            ("team-a", "ana", 61.2, 41.0, 0.0), ("team-b", "bo", 80.5, 63.4, 22.1), ("team-c", "cleo", 44.0, 31.2, 55.0),
            ("team-d", "dan", 20.0, 13.3, 0.0),
        )
    ]  # fmt: skip
    report = hub_wire.ParkingReport(
        NOW - 7 * 86400,
        NOW,
        [
            hub_wire.ParkingReportLine("team-b", "main", "observe", 63.5, 41, 63.4),
            hub_wire.ParkingReportLine("team-a", "main", "observe", 12.25, 9, 41.0),
        ],
    )
    people = {
        "team-a": hub_wire.MembersAnswer(
            "team-a",
            ["@a", "ali", "ana"],
            ["cy"],
            [
                _member("ali", "0.5", "unlimited", via="", is_own_limit=False, is_owner=False),
                _member("ana", "1.25", "2", via="@a", is_own_limit=True, is_owner=False),
                _member("cy", "0", "unlimited", via="owner", is_own_limit=False, is_owner=True),
            ],
        )
    }
    busy = {device.uuid: (17 * n % 100) / 100 for n, device in enumerate(devices[:-1])}
    given: dict[str, Any] = {
        "audit": _audit(leases), "used": used, "day": _day(8), "report": report, "asks": ASKS, "people": people,
        "hardware": hardware, "busy": busy,
    }  # fmt: skip
    return StillSite(books, NOW, **{**given, **changes})


def _member(
    person: str, sessions: str, limit: str, *, via: str, is_own_limit: bool, is_owner: bool
) -> hub_wire.MemberModel:
    return hub_wire.MemberModel(person, sessions, limit, is_own_limit, via, is_owner)


def crowd(devices: int = 100, sessions: int = 1000, waiting: int = 60) -> StillSite:
    """The large world: that many devices with a tenth of each for every session, a third of them parked and lent."""
    made, there, hardware = hosts(-(-devices // 8), 8)
    there = there[:devices]
    projects = [Project(f"team-{n}", gpus("10"), members=frozenset({f"user-{m}" for m in range(n, sessions, 10)}))
                for n in range(10)]  # fmt: skip
    leases = list(_crowd(there, sessions))
    leases += [
        lease(f"late-{n}", f"user-{n}", f"team-{n % 10}", status=Status.QUEUED, reason=Reason.WAITING_FOR_DEVICE,
              submitted=NOW - n)
        for n in range(waiting)
    ]  # fmt: skip
    books = Snapshot.of(projects=projects, pools=[Pool("main")], hosts=made, devices=there, leases=leases)
    busy = {device.uuid: (n % 100) / 100 for n, device in enumerate(there)}
    return StillSite(books, NOW, audit=_audit(leases), day=_day(devices), hardware=hardware, busy=busy)


def _crowd(devices: list[GpuDevice], sessions: int) -> Iterator[Lease]:
    for n in range(sessions):
        device, person, project = devices[n % len(devices)].uuid, f"user-{n}", f"team-{n % 10}"
        if n % 3 == 0:
            yield parked(f"notebook-{n}", person, project, (device, "0.1"))
            loans = (Loan(f"id-notebook-{n}", device, gpus("0.1")),)
            yield job(f"job-{n}", person, project, (device, "0.1"), loans=loans)
        else:
            yield lease(f"notebook-{n}", person, project, (device, "0.1"))
