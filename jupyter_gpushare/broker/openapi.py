"""The OpenAPI document, made from the wire types and from the table of who may do what, so that none drifts apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from jupyter_gpushare.broker import admin_wire, wire
from jupyter_gpushare.broker.access import ACCESS, Role
from jupyter_gpushare.broker.audit_wire import AuditAnswer

__all__ = ["VERBS", "Verb", "document"]

_REF: Final = "#/components/schemas/{name}"
_ERRORS: Final = {
    "400": "The request cannot be read; the message names the field.",
    "401": "The broker does not know who asks.",
    "403": "You may not.",
}


@dataclass(frozen=True, slots=True)
class Verb:
    """One route and verb. *query* are the names of its parameters; *answer* is None for what is no JSON of ours."""

    route: str
    path: str
    method: str
    summary: str
    answer: type[msgspec.Struct] | None
    status: str = "200"
    body: type[msgspec.Struct] | None = None
    query: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


VERBS: Final = (
    Verb("broker", "/", "get", "The broker itself", wire.BrokerModel),
    Verb("health", "/health", "get", "Whether it can keep promises", wire.HealthAnswer, errors=("503",)),
    Verb("metrics", "/metrics", "get", "Figures for Prometheus", None),
    Verb("document", "/openapi.json", "get", "This document", None),
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
        wire.AvailabilityAnswer,
        query=("share", "project", "kind"),
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
        query=("after", "limit", "lease", "project", "person", "verb", "reason", "because_of", "by"),
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
_MORE_ERRORS: Final = {
    "404": "There is no such thing, or you may not see it.",
    "409": "It is decided elsewhere; the message says where.",
    "503": "The ledger cannot be used now; the message says what to do.",
}
#: What the two WebSockets, ``holder`` and ``stream``, carry: one JSON object in each message.
_SOCKET_TYPES: Final = (
    wire.HelloMessage,
    wire.ProcessesMessage,
    wire.WantMessage,
    wire.DidMessage,
    wire.CouldNotMessage,
    wire.UsageMessage,
    wire.WelcomeMessage,
    wire.LeaseMessage,
    wire.RefusedMessage,
    wire.StateMessage,
)


def document() -> dict[str, Any]:
    """OpenAPI 3.1 of everything but the two WebSockets, whose messages are among the schemas."""
    types: set[type[msgspec.Struct]] = {wire.ErrorAnswer, *_SOCKET_TYPES}
    types |= {verb.answer for verb in VERBS if verb.answer} | {verb.body for verb in VERBS if verb.body}
    _, components = msgspec.json.schema_components(sorted(types, key=lambda t: t.__name__), ref_template=_REF)
    paths: dict[str, Any] = {}
    for verb in VERBS:
        paths.setdefault(verb.path, {})[verb.method] = _operation(verb)
    return {
        "openapi": "3.1.0",
        "info": {"title": "jupyter_gpushare, the broker", "version": "1"},
        "servers": [{"url": "/services/gpushare/api/v1"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(verb: Verb) -> dict[str, Any]:
    roles = ACCESS[verb.route, verb.method.upper()]
    names = [part[1:-1] for part in verb.path.split("/") if part.startswith("{")]
    errors = {code: text for code, text in (_ERRORS | _MORE_ERRORS).items() if code in _ERRORS or code in verb.errors}
    operation: dict[str, Any] = {
        "summary": verb.summary,
        "description": "For: " + ", ".join(sorted(role.value for role in roles)) + ".",
        "security": [{}] if Role.NOBODY in roles else [{"token": []}],
        "parameters": [_parameter(name, "path") for name in names] + [_parameter(name, "query") for name in verb.query],
        "responses": {verb.status: _answer(verb)}
        | {code: _json(wire.ErrorAnswer, text) for code, text in errors.items()},
    }
    if verb.body is not None:
        operation["requestBody"] = _json(verb.body, verb.summary) | {"required": True}
    return operation


def _parameter(name: str, where: str) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": {"type": "string"}}


def _answer(verb: Verb) -> dict[str, Any]:
    return {"description": verb.summary} if verb.answer is None else _json(verb.answer, verb.summary)


def _json(kind: type[msgspec.Struct], description: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name=kind.__name__)}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
