"""What may stand in paths and queries, for the OpenAPI document: the same bounds as the handlers keep."""

from __future__ import annotations

from typing import Any, Final, Literal

from jupyter_gpushare.broker.past import LONGEST_DAY_H, LONGEST_REPORT_D

__all__ = ["parameter"]

_MOST: Final = 1 << 62
#: As a form sends a field that nobody has filled in: the same as none.
_NONE: Final = {"type": "string", "maxLength": 0}
_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": _MOST}
_TIME: Final = {"anyOf": [{"type": "number"}, _NONE], "description": "Seconds since the epoch."}
_TEXTS: Final = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}}
_IN_PATH: Final[dict[str, dict[str, Any]]] = {
    "lease_id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "project": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,63}$"},
    "key": {"type": "string", "minLength": 1, "maxLength": 200},
    "person": {"type": "string", "minLength": 1, "maxLength": 200},
    "number": {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
}
#: What is not here is text, and where it fits nothing, nothing is found.
_IN_QUERY: Final[dict[str, dict[str, Any]]] = {
    "share": _TEXTS | {"minItems": 1, "maxItems": 32},
    "group": _TEXTS | {"maxItems": 900},
    "kind": {"type": "string", "enum": ["interactive", "training"]},
    "state": {"type": "string", "enum": ["", "open", "approved", "denied", "withdrawn"]},
    "order": {"type": "string", "enum": ["oldest", "newest"]},
    "after": _NUMBER,
    "before": _NUMBER,
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
    "since": _TIME,
    "until": _TIME,
    "hours": {"type": "integer", "minimum": 1, "maximum": LONGEST_DAY_H},
    "days": {"type": "integer", "minimum": 1, "maximum": LONGEST_REPORT_D},
    "stop_after": {"anyOf": [{"type": "number", "minimum": 1, "maximum": 1e9}, _NONE], "description": "Seconds."},
}
_TEXT: Final = {"type": "string"}
_NEEDED: Final = frozenset({"share"})


def parameter(name: str, where: Literal["path", "query"]) -> dict[str, Any]:
    """The parameter *name* of a route, as OpenAPI says it."""
    known = _IN_PATH if where == "path" else _IN_QUERY
    is_needed = where == "path" or name in _NEEDED
    return {"name": name, "in": where, "required": is_needed, "schema": known.get(name, _TEXT)}
