"""Devices, hosts and the admin's policy as they are now: what there is to share, and under which rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpushare.rules.audit import with_why
from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.people import as_people_left_it

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.event import HostSeen, Inventory, PolicySet
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["host_seen", "inventory", "policy_set"]


def inventory(snapshot: Snapshot, event: Inventory, now: float) -> Change:
    """The devices of a host. What is drained stays so; what is missing is gone, and forgotten once nobody needs it."""
    seen = {device.uuid: device for device in event.devices}
    changes: dict[str, GpuDevice | None] = {}
    audit: list[Entry] = []
    for uuid, old in snapshot.devices.items():
        if old.host == event.host and uuid not in seen:
            seen[uuid] = replace(old, condition="gone")
    for uuid, device in sorted(seen.items()):
        old_one = snapshot.devices.get(uuid)
        new = _still_drained(old_one, device)
        if new != old_one:
            changes[uuid] = new
            audit += _lines(old_one, new, now)
    return Change(devices=changes, audit=tuple(audit))


def _still_drained(old: GpuDevice | None, new: GpuDevice) -> GpuDevice:
    is_drained = old is not None and old.condition == "draining" and new.condition == "ready"
    return replace(new, condition="draining") if is_drained else new


def _lines(old: GpuDevice | None, new: GpuDevice, now: float) -> list[Entry]:
    """What people may want to know; that foreign programs use a little more or less is not among it."""
    lines = []
    if new.trespassed and (old is None or not old.trespassed):
        lines.append(Entry(now, Verb.TRESPASSED, devices=(new.uuid,), by="device"))
    if old is None or (old.condition, old.pool, old.usable) != (new.condition, new.pool, new.usable):
        details = {"condition": new.condition, "pool": new.pool, "usable": new.usable.human}
        lines.append(Entry(now, Verb.DEVICE_CHANGED, devices=(new.uuid,), by="device", details=details))
    return lines


def host_seen(snapshot: Snapshot, event: HostSeen, now: float) -> Change:
    """A host with its limits. One that is drained stays so."""
    old, new = snapshot.hosts.get(event.host.name), event.host
    if old is not None and old.condition == "draining" and new.condition == "ready":
        new = replace(new, condition="draining")
    if new == old:
        return Change()
    details = {"host": new.name, "condition": new.condition, "parking budget": str(new.parking_budget)}
    return Change(hosts={new.name: new}, audit=(Entry(now, Verb.DEVICE_CHANGED, by="device", details=details),))


def policy_set(snapshot: Snapshot, event: PolicySet, now: float) -> Change:
    """These projects and pools, and no others. Leases of a project that is gone keep what they have."""
    wished = {each.name: _kept(snapshot, each, event) for each in event.projects}
    projects = _differences(snapshot.projects, wished)
    pools = _differences(snapshot.pools, {each.name: each for each in event.pools})
    if not projects and not pools:
        return Change()
    details = with_why({"projects": ", ".join(sorted(projects)), "pools": ", ".join(sorted(pools))}, event.why)
    return Change(projects=projects, pools=pools, audit=(Entry(now, Verb.POLICY_SET, by=event.by, details=details),))


def _kept(snapshot: Snapshot, project: Project, event: PolicySet) -> Project:
    return as_people_left_it(snapshot.projects.get(project.name), project, keeps_quota=event.keeps_quotas)


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    return changed | dict.fromkeys(old.keys() - new.keys())
