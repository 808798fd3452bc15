"""A team and what it is entitled to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EVERYBODY", "GROUP", "Project"]

#: As the only member: whoever asks is one.
EVERYBODY = "*"
#: Before the name of a group, among names of people.
GROUP: Final = "@"


@dataclass(frozen=True, slots=True)
class Project:
    """One team.

    Attributes:
        name: unique.
        quota: GPUs that it always gets when it wants them.
        weight: its part of what is left over, against the others' weights; None means its quota.
        limit: GPUs above which it never gets anything, loans included.
        person_limit: GPUs that one person's sessions may have together.
        members: names of people, and of groups with an ``@`` before them, or ``EVERYBODY``.
        owners: names of people, and of groups as above, who look after it.
        joined: people who are members by one of its groups now.
        added: people whom an owner made members.
        limits: limits of single people, in place of *person_limit*.
        set_quota: the quota, if an admin has set it here and not in a file.
    """

    name: str
    quota: Fraction
    weight: Fraction | None = None
    limit: Fraction = Fraction.UNLIMITED
    person_limit: Fraction = Fraction.UNLIMITED
    members: frozenset[str] = frozenset({EVERYBODY})
    owners: frozenset[str] = frozenset()
    joined: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    limits: Mapping[str, Fraction] = field(default_factory=dict)
    set_quota: Fraction | None = None

    @property
    def over_quota_weight(self) -> Fraction:
        """The weight that counts."""
        return self.quota if self.weight is None else self.weight

    def has(self, person: str) -> bool:
        """Whether *person* may claim in its name. Nobody becomes a member by being called like a group."""
        if EVERYBODY in self.members or person in self.joined or person in self.added:
            return True
        return person in self.members and not person.startswith(GROUP)

    def is_listed(self, person: str) -> bool:
        """Whether *person* is a member by name or group: in a project for everybody nobody is a colleague for that."""
        if person in self.members:
            return person != EVERYBODY and not person.startswith(GROUP)
        return person in self.joined or person in self.added

    def is_for(self, groups: frozenset[str]) -> bool:
        """Whether somebody in *groups* is a member by one of them."""
        return any(f"{GROUP}{group}" in self.members for group in groups)

    def is_owned_by(self, person: str, groups: frozenset[str]) -> bool:
        """Whether *person*, who is in *groups*, owns it."""
        if not self.owners:
            return False
        if person in self.owners and not person.startswith(GROUP):
            return True
        return any(f"{GROUP}{group}" in self.owners for group in groups)

    def limit_of(self, person: str) -> Fraction:
        """GPUs that the sessions of *person* may have together."""
        return self.limits.get(person, self.person_limit)
