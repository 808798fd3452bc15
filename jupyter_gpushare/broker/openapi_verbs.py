"""Every route and verb, as the OpenAPI document tells them: what is sent, what is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker import admin_wire, hub_wire, wire
from jupyter_gpushare.broker.audit_wire import AuditAnswer
from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer

if TYPE_CHECKING:
    import msgspec

__all__ = ["VERBS", "Verb"]


@dataclass(frozen=True, slots=True)
class Verb:
    """One route and verb. *query* are the names of its parameters.

    *answer* is None for what is no type of ours; *media* then says what it is, and is empty where nothing is answered.
    *status* is how it is answered, and *more_statuses* how else; *errors* beside those of every route.
    """

    route: str
    path: str
    method: str
    summary: str
    answer: type[msgspec.Struct] | None
    status: str = "200"
    body: type[msgspec.Struct] | None = None
    query: tuple[str, ...] = ()
    more_statuses: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    media: str = ""


VERBS: Final = (
    Verb("broker", "/", "get", "The broker itself", wire.BrokerModel),
    Verb("health", "/health", "get", "Whether it can keep promises", wire.HealthAnswer, errors=("503",)),
    Verb("metrics", "/metrics", "get", "Figures for Prometheus", None, media="text/plain"),
    Verb("document", "/openapi.json", "get", "This document", None, media="application/json"),
    Verb("projects", "/projects", "get", "Projects that you may see", wire.ProjectsAnswer),
    Verb("devices", "/devices", "get", "Hosts and devices, with their books", wire.DevicesAnswer),
    Verb(
        "leases", "/leases", "get", "Leases that you may see", wire.LeasesAnswer, query=("project", "person", "status")
    ),
    Verb("lease", "/leases/{lease_id}", "get", "One lease", wire.LeaseModel, errors=("404",)),
    Verb(
        "lease",
        "/leases/{lease_id}",
        "delete",
        "Have a lease ended by its holder",
        wire.LeaseModel,
        status="202",
        errors=("404", "503"),
    ),
    Verb(
        "availability",
        "/availability",
        "get",
        "When a share could be had; `share` may be given several times",
        AvailabilityAnswer,
        query=("share", "project", "kind", "person", "group"),
    ),
    Verb(
        "claims",
        "/claims",
        "get",
        "Every claim whose key begins with `prefix`",
        hub_wire.ClaimsAnswer,
        query=("prefix",),
    ),
    Verb(
        "claim",
        "/claims/{key}",
        "put",
        "Make a claim for a server to come, or keep it: 201 granted, 200 known, 202 waits",
        hub_wire.ClaimAnswer,
        body=hub_wire.ClaimRequest,
        more_statuses=("201", "202"),
        errors=("404", "409", "503"),
    ),
    Verb(
        "claim",
        "/claims/{key}",
        "get",
        "One claim",
        hub_wire.ClaimAnswer,
        query=("person",),
        errors=("404",),
    ),
    Verb(
        "claim",
        "/claims/{key}",
        "delete",
        "End a claim; none is no error",
        None,
        status="204",
        query=("person", "why"),
        errors=("503",),
    ),
    Verb(
        "alive",
        "/claims/{key}/alive",
        "post",
        "Keep a claim a little longer",
        hub_wire.ClaimAnswer,
        body=hub_wire.AliveRequest,
        errors=("404", "503"),
    ),
    Verb(
        "memberships",
        "/memberships",
        "get",
        "The groups and projects of a person",
        hub_wire.MembershipModel,
        query=("person",),
    ),
    Verb("members", "/projects/{project}/members", "get", "Its people", hub_wire.MembersAnswer, errors=("404",)),
    Verb(
        "member",
        "/projects/{project}/members/{person}",
        "put",
        "Make somebody a member",
        hub_wire.MembersAnswer,
        query=("why",),
        errors=("404", "503"),
    ),
    Verb(
        "member",
        "/projects/{project}/members/{person}",
        "delete",
        "Take that back",
        hub_wire.MembersAnswer,
        query=("why",),
        errors=("404", "409", "503"),
    ),
    Verb(
        "limits",
        "/projects/{project}/limits",
        "put",
        "Another limit for a person, or another quota",
        hub_wire.MembersAnswer,
        body=hub_wire.LimitsRequest,
        errors=("404", "409", "503"),
    ),
    Verb(
        "asks",
        "/asks",
        "get",
        "What members ask for, newest first",
        hub_wire.AsksAnswer,
        query=("state", "project"),
        errors=("503",),
    ),
    Verb(
        "asks",
        "/asks",
        "post",
        "Ask for more",
        hub_wire.AskModel,
        status="201",
        body=hub_wire.AskRequest,
        errors=("404", "409", "503"),
    ),
    Verb(
        "ask",
        "/asks/{number}",
        "post",
        "Approve, deny or withdraw an ask",
        hub_wire.AskModel,
        body=hub_wire.AskDecision,
        errors=("404", "409", "503"),
    ),
    Verb("day", "/day", "get", "What the GPUs did", hub_wire.DayAnswer, query=("hours",), errors=("503",)),
    Verb(
        "parking-report",
        "/parking-report",
        "get",
        "What parking would have won",
        hub_wire.ParkingReport,
        query=("days",),
        errors=("503",),
    ),
    Verb(
        "apply",
        "/apply",
        "post",
        "Put a gpushare.toml in force, or say what it would change",
        admin_wire.ApplyAnswer,
        body=admin_wire.ApplyRequest,
        errors=("409", "503"),
    ),
    Verb(
        "audit",
        "/audit",
        "get",
        "Who got, lost, parked and lent what, and why",
        AuditAnswer,
        query=(
            "after",
            "before",
            "order",
            "limit",
            "since",
            "until",
            "lease",
            "project",
            "person",
            "verb",
            "reason",
            "because_of",
            "by",
        ),
        errors=("503",),
    ),
    Verb(
        "reclaim",
        "/admin/reclaim",
        "post",
        "Take back what a lease has",
        wire.LeaseModel,
        status="202",
        body=admin_wire.ReclaimRequest,
        errors=("404", "503"),
    ),
    Verb(
        "drain",
        "/admin/drain",
        "post",
        "Empty a device or a host",
        wire.DevicesAnswer,
        body=admin_wire.DrainRequest,
        errors=("404", "503"),
    ),
    Verb(
        "stop-parking",
        "/admin/stop-parking",
        "post",
        "Bring everybody back in order and park nobody any more",
        wire.BrokerModel,
        body=admin_wire.StopParkingRequest,
        errors=("503",),
    ),
)
