"""The OpenAPI document of a hub's service: the broker's interface, and what it answers beside that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from jupyter_gpushare.broker.access import HUB_ACCESS
from jupyter_gpushare.broker.openapi import VERBS, document
from jupyter_gpushare.hub.culling import handlers, openapi_verbs

__all__ = ["described"]

#: Everywhere the hub is asked who that is, and it may be away.
_HUB_AWAY: Final = "503"


def described() -> dict[str, Any]:
    """Everything below ``…/api/v1`` but the two WebSockets."""
    verbs = [replace(verb, errors=(*verb.errors, _HUB_AWAY)) for verb in (*VERBS, *openapi_verbs.VERBS)]
    return document(verbs, {**HUB_ACCESS, **handlers.ACCESS}, "jupyter_gpushare, the service of a hub")
