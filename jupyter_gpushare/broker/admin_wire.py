"""What admins send. Decoded into these, or refused."""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = ["DrainRequest", "ReclaimRequest", "StopParkingRequest"]


class ReclaimRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An admin takes back what *lease* has: a session is parked, a job yields and waits again."""

    lease: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device or a host takes nothing new; with *evacuate*, jobs there yield too. *undo* has it take leases again."""

    device: Annotated[str, msgspec.Meta(max_length=200)] = ""
    host: Annotated[str, msgspec.Meta(max_length=255)] = ""
    undo: bool = False
    evacuate: bool = False


class StopParkingRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Park nobody any more and bring everybody back in order; or, with false, begin again."""

    stop: bool
