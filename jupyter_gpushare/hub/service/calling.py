"""Whom the hub knows, as the broker knows callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.hub.service.standing import Level

if TYPE_CHECKING:
    from jupyter_gpushare.hub.service.standing import Standing

__all__ = ["HUB", "caller_of"]

#: The hub's own hooks.
HUB: Final = Caller("the hub", groups=frozenset(), kind="hub")


def caller_of(standing: Standing) -> Caller:
    """*standing* as a caller. Whether it is a Unix user too, the broker knows."""
    if standing.is_service:
        # No person can be meant by it, whatever people are called at the hub: a service holds nothing.
        return Caller(
            f"service {standing.name}",
            is_admin=standing.level is Level.ADMINISTER,
            groups=frozenset(),
            reads_only=standing.level is not Level.ADMINISTER,
            kind="service",
        )
    return Caller(
        standing.name,
        is_admin=standing.level is Level.ADMINISTER,
        groups=standing.groups,
        reads_only=standing.level < Level.ACT,
    )
