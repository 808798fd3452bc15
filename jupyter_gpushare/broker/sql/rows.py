"""Between the rules' records and rows. Decoding trusts nothing: a row that says nonsense is a damaged ledger."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import Condition, GpuDevice, Host
from jupyter_gpushare.rules.change import Entry, Verb
from jupyter_gpushare.rules.lease import Grant, Hold, Kind, Lease, Loan, Status, Target
from jupyter_gpushare.rules.pace import Pace
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Parts", "Row", "device_of", "device_row", "entry_of", "entry_row", "grant_rows", "host_of", "host_row"]
__all__ += [
    "lease_of",
    "lease_row",
    "loan_rows",
    "pace_of",
    "pace_row",
    "people_rows",
    "pool_of",
    "pool_row",
    "project_of",
    "project_row",
]

Row = dict[str, Any]

_CONDITIONS: Final = frozenset(get_args(Condition))
_PARKING: Final = frozenset({"off", "observe", "park"})
_RESUME: Final = frozenset({"guaranteed", "best-effort"})
_PLACEMENT: Final = frozenset({"binpack", "spread"})
#: Columns that are fields of a lease as they are.
_PLAIN: Final = (
    "id",
    "project",
    "person",
    "name",
    "pool",
    "submitted",
    "since",
    "epoch",
    "spread_group",
    "grace_s",
    "start_cost_s",
    "turn_began",
    "turns_lost",
    "most_turns_lost",
    "not_before",
    "because_of",
    "deadline",
    "wanted_since",
    "idle_since",
)
_POOL_PLAIN: Final = (
    "name",
    "isolation",
    "minimum_turn_s",
    "backoff_s",
    "grace_s",
    "lend_at_least_s",
    "idle_timeout_s",
)


def project_row(project: Project) -> Row:
    """The row of *project*, without its people."""
    return {
        "name": project.name,
        "quota": project.quota.millionths,
        "weight": None if project.weight is None else project.weight.millionths,
        "upper_limit": project.limit.millionths,
        "person_limit": project.person_limit.millionths,
        "set_quota": None if project.set_quota is None else project.set_quota.millionths,
    }


def people_rows(project: Project) -> Iterator[Row]:
    """The rows of what is known of people in *project* beside the file's members."""
    for person in sorted(project.owners | project.joined | project.added | project.limits.keys()):
        limit = project.limits.get(person)
        yield {
            "project": project.name,
            "person": person,
            "is_owner": person in project.owners,
            "is_joined": person in project.joined,
            "is_added": person in project.added,
            "own_limit": None if limit is None else limit.millionths,
        }


def project_of(row: Mapping[str, Any], members: Iterable[str], people: Iterable[Mapping[str, Any]] = ()) -> Project:
    """The project of *row*, with its *members* and the rows of its *people*."""
    known = list(people)
    return Project(
        row["name"],
        Fraction(row["quota"]),
        None if row["weight"] is None else Fraction(row["weight"]),
        Fraction(row["upper_limit"]),
        Fraction(row["person_limit"]),
        frozenset(members),
        owners=frozenset(each["person"] for each in known if each["is_owner"]),
        joined=frozenset(each["person"] for each in known if each["is_joined"]),
        added=frozenset(each["person"] for each in known if each["is_added"]),
        limits={each["person"]: Fraction(each["own_limit"]) for each in known if each["own_limit"] is not None},
        set_quota=None if row["set_quota"] is None else Fraction(row["set_quota"]),
    )


def pool_row(pool: Pool) -> Row:
    """The row of *pool*."""
    return {
        **{name: getattr(pool, name) for name in _POOL_PLAIN},
        "parking": pool.parking,
        "resume": pool.resume,
        "oversubscribe": pool.oversubscribe.millionths,
        "placement": pool.placement,
        "consolidation": pool.consolidation,
    }


def pool_of(row: Mapping[str, Any]) -> Pool:
    """The pool of *row*."""
    return Pool(
        **{name: row[name] for name in _POOL_PLAIN},
        parking=cast("Literal['off', 'observe', 'park']", _one_of(_PARKING, row["parking"])),
        resume=cast("Literal['guaranteed', 'best-effort']", _one_of(_RESUME, row["resume"])),
        oversubscribe=Fraction(row["oversubscribe"]),
        placement=cast("Literal['binpack', 'spread']", _one_of(_PLACEMENT, row["placement"])),
        consolidation=bool(row["consolidation"]),
    )


def host_row(host: Host) -> Row:
    """The row of *host*."""
    return {
        "name": host.name,
        "parking_budget": host.parking_budget.bytes,
        "copies": host.copies,
        "saves": host.saves,
        "condition": host.condition,
    }


def host_of(row: Mapping[str, Any]) -> Host:
    """The host of *row*."""
    return Host(row["name"], Memory(row["parking_budget"]), row["copies"], row["saves"], _condition(row))


def device_row(device: GpuDevice) -> Row:
    """The row of *device*."""
    return {
        "uuid": device.uuid,
        "host": device.host,
        "kind": device.kind,
        "pool": device.pool,
        "usable": device.usable.bytes,
        "foreign_part": device.foreign.millionths,
        "trespassed": device.trespassed,
        "condition": device.condition,
    }


def device_of(row: Mapping[str, Any]) -> GpuDevice:
    """The device of *row*."""
    return GpuDevice(
        row["uuid"],
        row["host"],
        row["kind"],
        row["pool"],
        Memory(row["usable"]),
        Fraction(row["foreign_part"]),
        bool(row["trespassed"]),
        _condition(row),
    )


def lease_row(lease: Lease) -> Row:
    """The row of *lease*, without its parts."""
    return {
        **{name: getattr(lease, name) for name in _PLAIN},
        "kind": lease.kind.value,
        "holder_key": lease.key,
        "share": str(lease.share),
        "status": lease.status.value,
        "target": lease.target.value,
        "is_parkable": lease.is_parkable,
        "host_memory": lease.host_memory.bytes,
        "reason": None if lease.reason is None else lease.reason.value,
        "was": None if lease.was is None else lease.was.value,
        "held_until": None if lease.hold is None else lease.hold.until,
        "is_starting": lease.hold is not None and lease.hold.is_starting,
    }


def lease_of(row: Mapping[str, Any], parts: Parts) -> Lease:
    """The lease of *row* with its *parts*."""
    return Lease(
        **{name: row[name] for name in _PLAIN},
        kind=Kind(row["kind"]),
        key=row["holder_key"],
        share=_share(row["share"]),
        status=Status(row["status"]),
        target=Target(row["target"]),
        is_parkable=bool(row["is_parkable"]),
        host_memory=Memory(row["host_memory"]),
        reason=None if row["reason"] is None else Reason(row["reason"]),
        was=None if row["was"] is None else Status(row["was"]),
        hold=None if row["held_until"] is None else Hold(row["held_until"], bool(row["is_starting"])),
        **parts.of(row["id"]),
    )


def grant_rows(lease: Lease) -> Iterator[Row]:
    """The rows of what *lease* has."""
    is_resuming = lease.status is Status.RESUMING
    for is_burst, grants in ((False, lease.grants), (True, lease.bursts)):
        for position, grant in enumerate(grants):
            yield {
                "lease": lease.id,
                "is_burst": is_burst,
                "position": position,
                "device": grant.device,
                "amount": grant.amount.millionths,
                "is_restoring": is_resuming and not is_burst,
            }


def loan_rows(lease: Lease) -> Iterator[Row]:
    """The rows of what is lent to *lease*."""
    for is_burst, loans in ((False, lease.loans), (True, lease.burst_loans)):
        for position, loan in enumerate(loans):
            yield {
                "lease": lease.id,
                "is_burst": is_burst,
                "position": position,
                "lender": loan.lender,
                "device": loan.device,
                "amount": loan.amount.millionths,
            }


class Parts:
    """Grants and loans of all leases, from rows in the order of their positions."""

    def __init__(self, grants: Iterable[Mapping[str, Any]], loans: Iterable[Mapping[str, Any]]) -> None:
        self._parts: defaultdict[str, defaultdict[str, list[Grant | Loan]]] = defaultdict(lambda: defaultdict(list))
        for row in grants:
            name = "bursts" if row["is_burst"] else "grants"
            self._parts[row["lease"]][name].append(Grant(row["device"], Fraction(row["amount"])))
        for row in loans:
            name = "burst_loans" if row["is_burst"] else "loans"
            self._parts[row["lease"]][name].append(Loan(row["lender"], row["device"], Fraction(row["amount"])))

    def of(self, lease: str) -> dict[str, Any]:
        """Those of *lease*, by the names of its fields; empty ones left out."""
        return {name: tuple(parts) for name, parts in self._parts.get(lease, {}).items()}


def entry_row(entry: Entry) -> Row:
    """The row of *entry*, without its number."""
    return {
        "at": entry.at,
        "verb": entry.verb.value,
        "lease": entry.lease,
        "project": entry.project,
        "person": entry.person,
        "devices": json.dumps(entry.devices),
        "amount": None if entry.amount is None else entry.amount.millionths,
        "lent": None if entry.lent is None else entry.lent.millionths,
        "reason": "" if entry.reason is None else entry.reason.value,
        "because_of": entry.because_of,
        "by": entry.by,
        "details": json.dumps(dict(entry.details)),
    }


def entry_of(row: Mapping[str, Any]) -> Entry:
    """The entry of *row*."""
    return Entry(
        row["at"],
        Verb(row["verb"]),
        row["lease"],
        row["project"],
        row["person"],
        tuple(json.loads(row["devices"])),
        None if row["amount"] is None else Fraction(row["amount"]),
        None if row["lent"] is None else Fraction(row["lent"]),
        Reason(row["reason"]) if row["reason"] else None,
        row["because_of"],
        row["by"],
        json.loads(row["details"]),
    )


def pace_row(host: str, pace: Pace) -> Row:
    """The row of a host's pace."""
    return {"host": host} | {name: getattr(pace, name) for name in Pace.__slots__}


def pace_of(row: Mapping[str, Any]) -> tuple[str, Pace]:
    """A host and its pace.

    Raises:
        ValueError: it moves nothing, ever.
    """
    pace = Pace(**{name: row[name] for name in Pace.__slots__})
    if min(pace.out_bytes_per_s, pace.in_bytes_per_s) <= 0:
        raise ValueError(f"the host {row['host']!r} is said to move nothing")
    return row["host"], pace


@lru_cache(maxsize=4096)
def _share(text: str) -> Share:
    return Share.parse(text)


def _condition(row: Mapping[str, Any]) -> Condition:
    return cast("Condition", _one_of(_CONDITIONS, row["condition"]))


def _one_of(known: frozenset[str], value: str) -> str:
    if value not in known:
        raise ValueError(f"{value!r} is none of {', '.join(sorted(known))}")
    return value
