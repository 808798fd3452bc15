"""Devices are emptied: by an admin, or because they are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.audit import changed, with_why
from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import DeviceBooks
from jupyter_gpushare.rules.yielding import call

if TYPE_CHECKING:
    from jupyter_gpushare.rules.capacity import Condition
    from jupyter_gpushare.rules.event import Drained
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["drained", "leave_gone"]


def drained(snapshot: Snapshot, event: Drained, now: float) -> Change:
    """A device or host takes nothing new, or with *undo* takes it again. Sessions there stay; jobs may be asked to go.

    Unknown names, and what is gone, change nothing.
    """
    old: Condition = "draining" if event.undo else "ready"
    new: Condition = "ready" if event.undo else "draining"
    device, host = snapshot.devices.get(event.device), snapshot.hosts.get(event.host)
    change = Change()
    if device is not None and device.condition == old:
        change = change.then(Change(devices={device.uuid: replace(device, condition=new)}))
    if host is not None and host.condition == old:
        change = change.then(Change(hosts={host.name: replace(host, condition=new)}))
    if event.evacuate and not event.undo:
        change = change.then(_called_away(snapshot, event))
    if not change:
        return change
    details = with_why({"condition": new, "host": event.host}, event.why)
    uuids = (event.device,) if event.device else ()
    return change.then(Change(audit=(Entry(now, Verb.DEVICE_CHANGED, devices=uuids, by=event.by, details=details),)))


def _called_away(snapshot: Snapshot, event: Drained) -> Change:
    uuids = [uuid for uuid, device in snapshot.devices.items() if uuid == event.device or device.host == event.host]
    return Change(leases={job.id: call(job, Reason.DRAINED) for uuid in uuids for job in _jobs_on(snapshot, uuid)})


def _jobs_on(snapshot: Snapshot, uuid: str) -> list[Lease]:
    there = [snapshot.leases[key] for key in sorted(snapshot.device_books.get(uuid, DeviceBooks()).leases)]
    return [lease for lease in there if not lease.is_session and lease.can_be_called]


def leave_gone(snapshot: Snapshot, now: float) -> Change:
    """Jobs leave devices that are gone: who runs there yields, who is parked from there starts anew elsewhere.

    Sessions keep their place: their state belongs to that device, and it may come back.
    """
    change = Change()
    for uuid in snapshot.gone:
        called = {job.id: call(job, Reason.DEVICE_GONE) for job in _jobs_on(snapshot, uuid)}
        change = change.then(Change(leases=called))
        for key in sorted(snapshot.device_books.get(uuid, DeviceBooks()).leases):
            lease = snapshot.leases[key]
            if not lease.is_session and lease.status is Status.PARKED and lease.target is Target.RUNNING:
                change = change.then(_anew(lease, now))
    forgotten = dict.fromkeys(uuid for uuid in snapshot.gone if uuid not in snapshot.device_books)
    return change.then(Change(devices=forgotten)) if forgotten else change


def _anew(lease: Lease, now: float) -> Change:
    after = lease.enter(Status.QUEUED, now, grants=(), host_memory=Memory.ZERO, reason=Reason.DEVICE_GONE)
    return changed(after, Verb.REQUEUED, now, devices=lease.devices)
