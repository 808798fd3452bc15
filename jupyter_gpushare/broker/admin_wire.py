"""What admins send, and what they are answered. Decoded into these, or refused. *why* is for the audit."""

from __future__ import annotations

from typing import Annotated

import msgspec

_Text = Annotated[str, msgspec.Meta(max_length=500)]

__all__ = ["ApplyAnswer", "ApplyRequest", "DrainRequest", "ReclaimRequest", "StopParkingRequest"]


class ApplyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text of a gpushare.toml, to be put in force or only looked at."""

    text: Annotated[str, msgspec.Meta(max_length=200_000)]
    dry_run: bool = False
    why: _Text = ""


class ApplyAnswer(msgspec.Struct, frozen=True):
    """What it changes, one line each, and what it would over-commit."""

    changes: list[str]
    warnings: list[str]


class ReclaimRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An admin takes back what *lease* has: a session is parked, a job yields and waits again."""

    lease: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    why: _Text = ""


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device or a host takes nothing new; with *evacuate*, jobs there yield too. *undo* has it take leases again."""

    device: Annotated[str, msgspec.Meta(max_length=200)] = ""
    host: Annotated[str, msgspec.Meta(max_length=255)] = ""
    undo: bool = False
    evacuate: bool = False
    why: _Text = ""


class StopParkingRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Park nobody any more and bring everybody back in order; or, with false, begin again."""

    stop: bool
    why: _Text = ""
