"""What a page is asked for: which one, and what its address says more."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.hub.site import AuditAsked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = ["Asked", "Notice", "PageName", "Waiting"]


class PageName(StrEnum):
    """The pages, each under its name below the service's prefix."""

    #: "My shares": one's own sessions and jobs.
    SESSIONS = "sessions"
    OVERVIEW = "overview"
    #: For those who own a project, or are in it.
    PROJECT = "project"
    ADMIN = "admin"
    #: Before a server starts whose share is not free yet.
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Notice:
    """What became of something that was asked for on this page: shown once, on top."""

    text: str
    is_good: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A server that is not started yet, because its share is not free.

    Attributes:
        server: the server's name; empty for the default one.
        share: what is asked for.
        project: in whose name.
        state: *granted* when the page is to post the spawn; *over* when the time ran out; *refused* with a *problem*.
        lease: the waiting claim; None when there is none.
        until: when the claim is given up, in seconds since the epoch.
        problem: why not, for people; empty while there is hope.
        spawn_url: where the spawn is posted to.
        spawn_method: how.
        spawn_fields: what is posted with it: the hub's form as it was sent, and the hub's own token.
        cancel_url: where cancelling is posted to.
        again_url: the hub's form, to choose something else.
    """

    server: str
    share: str
    project: str
    state: Literal["waiting", "granted", "over", "refused", "cancelled", "away"]
    lease: LeaseModel | None = None
    until: float | None = None
    problem: str = ""
    spawn_url: str = ""
    spawn_method: Literal["post", "get"] = "post"
    spawn_fields: Sequence[tuple[str, str]] = ()
    cancel_url: str = ""
    again_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the address says besides the page's name; none of it is believed.

    Attributes:
        project: which one, on its page; empty for the first that the viewer owns or is in.
        search: on the overview: part of the name or kind of a host or device; on the admins' page: of a lease.
        audit: on the admins' page: which lines.
        waiting: on the page that waits: for what.
        notice: what became of the last action.
    """

    project: str = ""
    search: str = ""
    audit: AuditAsked = field(default_factory=AuditAsked)
    waiting: Waiting | None = None
    notice: Notice | None = None
