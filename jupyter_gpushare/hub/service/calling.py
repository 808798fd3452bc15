"""Whom the hub knows, as the broker knows callers."""

from __future__ import annotations

import pwd
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.hub.service.standing import Level

if TYPE_CHECKING:
    from jupyter_gpushare.hub.service.standing import Standing

__all__ = ["HUB", "caller_of"]

#: The hub's own hooks.
HUB: Final = Caller("the hub", groups=frozenset(), kind="hub")


def caller_of(standing: Standing, *, has_unix_users: bool = False) -> Caller:
    """*standing* as a caller.

    With *has_unix_users* each hub user is the Unix user of the same name, as where the hub's spawner starts servers
    under that user. Otherwise never: a hub's user may well be called root.
    """
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
        _uid_of(standing.name) if has_unix_users else None,
        is_admin=standing.level is Level.ADMINISTER,
        groups=standing.groups,
        reads_only=standing.level < Level.ACT,
    )


def _uid_of(person: str) -> int | None:
    try:
        return pwd.getpwnam(person).pw_uid
    except (KeyError, ValueError):  # ValueError: a name with a zero byte
        return None
