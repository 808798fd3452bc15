"""What an admin's file says about the notebooks of one pool. It travels with the lease, to be kept by the session."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

__all__ = ["PoolPolicy"]


class PoolPolicy(msgspec.Struct, frozen=True):
    """What `gpushare.toml` says of *pool*; null where it says nothing, and each notebook server decides for itself.

    Attributes:
        parking: what keeps idle notebooks from being parked.
        isolation: how kernels are held to their share, at least.
        idle_timeout_s: seconds after which an idle kernel is parked, at the latest.
    """

    pool: str
    parking: Literal["off", "observe"] | None = None
    isolation: Literal["none", "caps", "hami-core", "mps", "mig"] | None = None
    idle_timeout_s: Annotated[float, msgspec.Meta(ge=1)] | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether nothing is decided for anybody."""
        return self.parking is None and self.isolation is None and self.idle_timeout_s is None
