"""The OpenAPI document, made from the wire types and from the table of who may do what, so that none drifts apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.access import ACCESS, Role
from jupyter_gpushare.broker.openapi_parameters import parameter
from jupyter_gpushare.broker.openapi_verbs import VERBS, Verb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["VERBS", "Verb", "document"]

_REF: Final = "#/components/schemas/{name}"
_ERRORS: Final = {
    "400": "The request cannot be read; the message names the field.",
    "401": "The broker does not know who asks.",
    "403": "You may not.",
    "429": "One person has too many of these, or too many connections; the message says how many.",
}
_MORE_ERRORS: Final = {
    "404": "There is no such thing, or you may not see it.",
    "409": "It cannot be, as things are; the message says why, and what to do.",
    "503": "The ledger, or who knows you, cannot be asked now; the message says what to do.",
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


def document(
    verbs: Sequence[Verb] = VERBS,
    access: Mapping[tuple[str, str], frozenset[Role]] = ACCESS,
    title: str = "jupyter_gpushare, the broker",
) -> dict[str, Any]:
    """OpenAPI 3.1 of *verbs*, each for whom *access* says, and of the messages of the two WebSockets."""
    types: set[type[msgspec.Struct]] = {wire.ErrorAnswer, *_SOCKET_TYPES}
    types |= {verb.answer for verb in verbs if verb.answer} | {verb.body for verb in verbs if verb.body}
    _, components = msgspec.json.schema_components(sorted(types, key=lambda t: t.__name__), ref_template=_REF)
    paths: dict[str, Any] = {}
    for verb in verbs:
        paths.setdefault(verb.path, {})[verb.method] = _operation(verb, access[verb.route, verb.method.upper()])
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "servers": [{"url": "/services/gpushare/api/v1"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(verb: Verb, roles: frozenset[Role]) -> dict[str, Any]:
    names = [part[1:-1] for part in verb.path.split("/") if part.startswith("{")]
    errors = {code: text for code, text in (_ERRORS | _MORE_ERRORS).items() if code in _ERRORS or code in verb.errors}
    operation: dict[str, Any] = {
        "summary": verb.summary,
        "description": "For: " + ", ".join(sorted(role.value for role in roles)) + ".",
        "security": [{}] if Role.NOBODY in roles else [{"token": []}],
        "parameters": [parameter(name, "path") for name in names] + [parameter(name, "query") for name in verb.query],
        "responses": {status: _answer(verb) for status in (verb.status, *verb.more_statuses)}
        | {code: _json(wire.ErrorAnswer, text) for code, text in errors.items()},
    }
    if verb.body is not None:
        operation["requestBody"] = _json(verb.body, verb.summary) | {"required": True}
    return operation


def _answer(verb: Verb) -> dict[str, Any]:
    if verb.answer is not None:
        return _json(verb.answer, verb.summary)
    said: dict[str, Any] = {"description": verb.summary}
    return said | {"content": {verb.media: {"schema": {}}}} if verb.media else said


def _json(kind: type[msgspec.Struct], description: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name=kind.__name__)}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
