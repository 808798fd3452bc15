"""A team and what it is entitled to."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_gpushare.quantity import Fraction

__all__ = ["EVERYBODY", "Project"]

#: As the only member: whoever asks is one.
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class Project:
    """One team.

    Attributes:
        name: unique.
        quota: GPUs that it always gets when it wants them.
        weight: its part of what is left over, against the others' weights; None means its quota.
        limit: GPUs above which it never gets anything, loans included.
        person_limit: GPUs that one person's sessions may have together.
        members: names of people, or ``EVERYBODY``.
    """

    name: str
    quota: Fraction
    weight: Fraction | None = None
    limit: Fraction = Fraction.UNLIMITED
    person_limit: Fraction = Fraction.UNLIMITED
    members: frozenset[str] = frozenset({EVERYBODY})

    @property
    def over_quota_weight(self) -> Fraction:
        """The weight that counts."""
        return self.quota if self.weight is None else self.weight

    def has(self, person: str) -> bool:
        """Whether *person* may claim in its name."""
        return EVERYBODY in self.members or person in self.members
