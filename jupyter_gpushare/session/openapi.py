"""The OpenAPI document, made from the wire types so that the two cannot drift apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from jupyter_gpushare.session import requests, wire
from jupyter_gpushare.session.tokens import TOKEN_HEADER

__all__ = ["document"]

_REF = "#/components/schemas/{name}"
_ERRORS = {
    "400": "The request cannot be read.",
    "403": "You may not.",
    "404": "There is no such thing.",
}


@dataclass(frozen=True, slots=True)
class _Verb:
    path: str
    method: str
    summary: str
    answer: type[msgspec.Struct]
    status: str = "200"
    body: type[msgspec.Struct] | None = None
    kernel: bool = False
    conflict: bool = False


_VERBS = (
    _Verb("/session", "get", "Everything that the sidebar shows", wire.Snapshot),
    _Verb("/devices", "get", "The devices", wire.DevicesAnswer),
    _Verb("/kernels", "get", "The kernels and what they hold", wire.KernelsAnswer),
    _Verb("/kernels/{kernel_id}", "get", "One kernel, as it may see itself", wire.KernelView, kernel=True),
    _Verb(
        "/kernels/{kernel_id}/report",
        "post",
        "What a kernel counted itself",
        requests.ReportAnswer,
        body=requests.ReportRequest,
        kernel=True,
    ),
    _Verb("/processes", "get", "GPU use outside kernels", wire.ProcessesAnswer),
    _Verb("/history", "get", "The recent past", wire.HistoryModel),
    _Verb("/releases", "get", "The newest releases", wire.ReleasesAnswer),
    _Verb(
        "/releases",
        "post",
        "Begin a release",
        wire.ReleaseModel,
        status="202",
        body=requests.ReleaseRequest,
        kernel=True,
        conflict=True,
    ),
    _Verb("/releases/{release_id}", "get", "How a release stands", wire.ReleaseModel, kernel=True),
    _Verb(
        "/resumes",
        "post",
        "Bring parked GPU state back",
        requests.ResumeAnswer,
        status="202",
        body=requests.ResumeRequest,
        kernel=True,
    ),
    _Verb(
        "/keep",
        "post",
        "Keep from being parked for a while",
        requests.KeepAnswer,
        body=requests.KeepRequest,
        kernel=True,
    ),
    _Verb(
        "/culling/keep",
        "post",
        "Keep the server or a kernel from ending by itself for a while",
        requests.KeepAnswer,
        body=requests.KeepRequest,
        conflict=True,
    ),
    _Verb(
        "/request",
        "post",
        "Ask for another share",
        requests.ShareAnswer,
        body=requests.ShareRequest,
        kernel=True,
        conflict=True,
    ),
    _Verb(
        "/kernels/{kernel_id}/policy",
        "put",
        "When a kernel is parked by itself",
        wire.PolicyModel,
        body=requests.PolicyRequest,
        kernel=True,
    ),
    _Verb("/kernels/{kernel_id}/wake", "post", "A kernel holds a message itself", requests.WakeAnswer, kernel=True),
    _Verb("/parking", "get", "What parking did, or would have done", wire.ParkingReport),
)


def document() -> dict[str, Any]:
    """OpenAPI 3.1 for everything under ``<base_url>gpushare/api/v1`` but the WebSocket ``stream``.

    The stream sends one JSON object a frame: a `Snapshot`, or with a kernel's token a `KernelView`.
    """
    types = {verb.answer for verb in _VERBS} | {verb.body for verb in _VERBS if verb.body} | {wire.ErrorAnswer}
    _, components = msgspec.json.schema_components(sorted(types, key=lambda t: t.__name__), ref_template=_REF)
    paths: dict[str, Any] = {}
    for verb in _VERBS:
        paths.setdefault(verb.path, {})[verb.method] = _operation(verb)
    return {
        "openapi": "3.1.0",
        "info": {"title": "jupyter_gpushare, one server's share", "version": "1"},
        "servers": [{"url": "/gpushare/api/v1"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "server": {"type": "apiKey", "in": "header", "name": "Authorization"},
                "kernel": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
            },
        },
    }


def _operation(verb: _Verb) -> dict[str, Any]:
    names = [part[1:-1] for part in verb.path.split("/") if part.startswith("{")]
    errors = _ERRORS | (
        {"409": "Confirm what the message announces; without a `confirm` it cannot be done."} if verb.conflict else {}
    )
    operation: dict[str, Any] = {
        "summary": verb.summary,
        "security": [{"server": []}] + ([{"kernel": []}] if verb.kernel else []),
        "parameters": [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names],
        "responses": {verb.status: _content(verb.answer, verb.summary)}
        | {status: _content(wire.ErrorAnswer, text) for status, text in errors.items()},
    }
    if verb.body is not None:
        operation["requestBody"] = _content(verb.body, verb.summary) | {"required": True}
    return operation


def _content(kind: type[msgspec.Struct], description: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name=kind.__name__)}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
