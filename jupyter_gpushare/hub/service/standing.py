"""From what the hub says of a token to what it may do here. Pure.

A token is not its person: it may be a notebook server's, which every program in that server can read. What one may is
therefore decided by the token's own scopes (JupyterHub, "Scopes in JupyterHub"), which are never more than its
person's:

============================================  =====================================================
``custom:gpushare:read``                      look: what its person may see
``custom:gpushare:write``                     also act for its person
``custom:gpushare:admin``                     also act for everybody
``access:services!service=gpushare``          look; in a browser that signed in here, act for its person
``tokens!user=…`` (may make other tokens)     as good as its person, who could make any other
============================================  =====================================================

An admin is who is one at the hub, or whom the admin's file names, and shows more than a notebook server's token.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_gpushare.hub.service.hub_rest import Identified

__all__ = ["Level", "Standing", "standing_of"]

_GPUSHARE: Final = "custom:gpushare:"


class Level(IntEnum):
    """How much a token may do here, each more than the one before."""

    NOTHING = 0
    LOOK = 1
    ACT = 2
    ADMINISTER = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """Who shows a token, and what it may.

    Attributes:
        name: at the hub.
        is_service: whether it is another service of the hub, and no person.
        groups: the person's at the hub.
        level: what it may do.
        is_hub_admin: whether it is an admin of the whole hub, for the hub's own menu.
    """

    name: str
    is_service: bool
    groups: frozenset[str]
    level: Level
    is_hub_admin: bool = False


def standing_of(said: Identified, service: str, admins: Collection[str], *, is_browser: bool) -> Standing:
    """What *said* may do at *service*.

    Args:
        said: what the hub says of a token.
        service: our own name at the hub.
        admins: names of people and, with an ``@`` before them, of the hub's groups that may administer.
        is_browser: whether the token is one that signing in to our own pages made.
    """
    is_service = said.kind == "service"
    groups = frozenset(said.groups)
    level = _by_scopes(said, service)
    if not is_service:
        is_person_itself = _has(said, "tokens") or (is_browser and level >= Level.LOOK)
        if is_person_itself:
            level = max(level, Level.ACT)
            if said.admin or _is_named(said, admins):
                level = Level.ADMINISTER
    return Standing(said.name, is_service, groups, level, said.admin and not is_service)


def _by_scopes(said: Identified, service: str) -> Level:
    for name, level in (("admin", Level.ADMINISTER), ("write", Level.ACT), ("read", Level.LOOK)):
        if _has(said, _GPUSHARE + name):
            return level
    may_enter = f"access:services!service={service}" in said.scopes or "access:services" in said.scopes
    return Level.LOOK if may_enter else Level.NOTHING


def _has(said: Identified, scope: str) -> bool:
    """Whether it has *scope* at all, or for itself, or for a server or group of its own."""
    for each in said.scopes:
        name, _, only = each.partition("!")
        if name == scope and (not only or _is_own(said, only)):
            return True
    return False


def _is_own(said: Identified, only: str) -> bool:
    what, _, whom = only.partition("=")
    if what in ("user", "service"):
        return what == said.kind and whom == said.name
    if what == "server":
        return said.kind == "user" and whom.partition("/")[0] == said.name
    return what == "group" and whom in said.groups


def _is_named(said: Identified, admins: Collection[str]) -> bool:
    """Whether it stands in the list. A person whose own name begins with an @ is no group."""
    own = said.name in admins and not said.name.startswith("@")
    return own or any(f"@{group}" in admins for group in said.groups)
