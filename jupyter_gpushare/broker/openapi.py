"""The OpenAPI document, made from the wire types and from the table of who may do what, so that none drifts apart."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.access import ACCESS, Role
from jupyter_gpushare.broker.openapi_verbs import VERBS, Verb

__all__ = ["VERBS", "Verb", "document"]

_REF: Final = "#/components/schemas/{name}"
_ERRORS: Final = {
    "400": "The request cannot be read; the message names the field.",
    "401": "The broker does not know who asks.",
    "403": "You may not.",
}
_MORE_ERRORS: Final = {
    "404": "There is no such thing, or you may not see it.",
    "409": "It cannot be, as things are; the message says why, and what to do.",
    "429": "One person has too many of these; the message says how many.",
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
        "responses": {status: _answer(verb) for status in (verb.status, *verb.more_statuses)}
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
