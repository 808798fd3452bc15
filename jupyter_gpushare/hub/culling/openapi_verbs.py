"""The routes of culling, as the OpenAPI document of a hub's service tells them beside the broker's own."""

from __future__ import annotations

from typing import Final

from jupyter_gpushare.broker.openapi_verbs import Verb
from jupyter_gpushare.hub.culling import wire

__all__ = ["VERBS"]

VERBS: Final = (
    Verb(
        wire.TESTIMONY,
        f"/{wire.TESTIMONY}",
        "put",
        "Say how idle a notebook server is, and hear what will become of it",
        wire.Outlook,
        body=wire.Testimony,
        errors=("404",),
    ),
    Verb(
        wire.EVIDENCE,
        f"/{wire.EVIDENCE}",
        "get",
        "What is known of all servers with a share",
        wire.Evidence,
        query=("stop_after",),
    ),
    Verb(
        wire.LOSSES,
        f"/{wire.LOSSES}",
        "post",
        "Announce servers that are about to be stopped, and hear which of them must go on",
        wire.LossesAnswer,
        body=wire.LossesRequest,
    ),
)
