"""What the pages' forms ask for: one table, which the templates write their forms by and the service answers by.

Every form is posted to ``actions/<name>`` below the service's prefix, with ``_xsrf`` and with ``next``, the page to go
back to. Every answer is 303 to that page, with what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ACTIONS", "Action"]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that can be asked for.

    Attributes:
        fields: what the form sends; those with a question mark may be missing or empty.
        whose: who may: ``holder`` the lease's person, ``member`` of the project, ``owner`` of the project, ``asker``
            who made the ask. Admins may everything.
    """

    fields: tuple[str, ...]
    whose: str


ACTIONS: Final = {
    # One's own leases.
    "release": Action(("lease",), "holder"),
    "resume": Action(("lease",), "holder"),
    "end": Action(("lease",), "holder"),
    # A member asks for more: *what* is ``limit`` (its own) or ``quota`` (the project's).
    "ask": Action(("project", "what", "amount", "why?"), "member"),
    "withdraw": Action(("ask",), "asker"),
    # A project's owners: who is in it; *limit* of one *person*, empty takes its own limit away.
    "approve": Action(("ask", "answer?"), "owner"),
    "deny": Action(("ask", "answer?"), "owner"),
    "add-member": Action(("project", "person", "why?"), "owner"),
    "remove-member": Action(("project", "person", "why?"), "owner"),
    "limit": Action(("project", "person", "limit?", "why?"), "owner"),
    # Admins. *host* or *device*; *evacuate* is ``yes`` where jobs there are to leave too.
    "reclaim": Action(("lease", "why"), "admin"),
    "drain": Action(("host?", "device?", "evacuate?", "why"), "admin"),
    "undrain": Action(("host?", "device?", "why?"), "admin"),
    "stop-parking": Action(("why",), "admin"),
    "start-parking": Action(("why?",), "admin"),
    "quota": Action(("project", "quota", "why"), "admin"),
}
