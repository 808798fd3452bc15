"""What a hub, its pages and the broker say to each other over REST. Everything that arrives is decoded into these.

**Claims.** A hub holds a claim for a server that does not run yet: ``PUT …/claims/{key}``. The key is the hub's own
name for it (percent-encoded in the path); together with the person it names one lease, and the notebook server that
says hello with that key joins it. Until then nobody is connected, so the claim has a *hold*: a time until which it is
kept.

* Waiting, or granted on a wait page: kept while somebody says ``POST …/claims/{key}/alive`` (or the PUT again) at
  least every `AliveRequest.for_s` seconds. A granted one is kept so at most `reserve_s` after its grant.
* From the PUT with ``is_starting`` on, which is the hub's word that the server starts now: kept for `reserve_s`, for
  the server's first hello. That hello ends the hold; from then on the lease is like any other.
* ``DELETE …/claims/{key}`` ends it, whatever it is by then. It is no error if there is none: 204.

Answers to PUT: 201 granted and new, 200 granted and known before, 202 it waits (only with ``wait``), 409 with a reason
when it may not or, without ``wait``, cannot be had now: then no lease is made, and nobody had to yield for it; a claim
that waits under the key already keeps its place. Another share under the key takes the place of a claim that is only
held; of one whose server has come 409 ``KEY_IN_USE`` (another project's always, another share where the hub starts a
server: somebody holds the key with a token of their own), and 409 ``STILL_ENDING`` while the one before still has GPU
memory. 403 for a person that the caller may not speak for, 400 with the field for what cannot be read, 503 while the
ledger is away.

**Whose.** Only the hub (role HUB) and admins speak for others: for them `person` is required. A person speaks for
itself: `person` may be left out or must be its own name, and `groups`, ``is_starting``, ``is_running`` are refused
(403).

**Availability.** ``GET …/availability?share=0.5&share=1&project=team-a`` (`availability_wire`); the hub and admins may
add ``person=`` and ``group=`` (several times; what the person's groups are now). ``kind=training`` asks for a job.

**Audit.** ``GET …/audit?order=newest&before=<number>&limit=100&since=&until=&person=&project=&verb=&by=``: newest
first; without ``order`` oldest first, after ``after``. `AuditEntryModel.why` is what the person wrote who did it.

**Admin actions** (`admin_wire`) take ``why``, for the audit; who did it is whom the broker identified.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from jupyter_gpushare.broker.wire import Amount, LeaseModel  # decoded

__all__ = [
    "AliveRequest",
    "AskDecision",
    "AskModel",
    "AskRequest",
    "AsksAnswer",
    "ClaimAnswer",
    "ClaimRequest",
    "ClaimsAnswer",
    "DayAnswer",
    "DayModel",
    "HeldClaimModel",
    "HoldModel",
    "LimitsRequest",
    "MemberModel",
    "MembersAnswer",
    "MembershipModel",
    "ParkingReport",
    "ParkingReportLine",
]

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Text = Annotated[str, msgspec.Meta(max_length=500)]
_Seconds = Annotated[float, msgspec.Meta(ge=1, le=86400)]
Groups = Annotated[list[_Name], msgspec.Meta(max_length=1000)]


class ClaimRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A share for a server that does not run yet. The same again changes nothing but the time that it is kept.

    Attributes:
        share: what is asked for, as people write it: ``0.5``, ``0.25..0.8``, ``2x0.5@a100``.
        project: whose quota it counts against.
        person: for whom; empty for the caller itself.
        name: what people call it: the server's name.
        pool: in which pool; any when empty.
        groups: the person's groups at the hub now, by which it is a member and owner of projects (``@group`` in the
            admin's file); null leaves what is known of them. Believed of the hub and of admins alone.
        wait: stay in line where there is no room; without it such a claim leaves nothing behind.
        is_starting: the hub starts the server now. For the hub and admins alone.
        reserve_s: how long a grant is kept for a server that has not said hello, from the grant, and again from the
            PUT with *is_starting*: the spawner's start_timeout and some slack.
        for_s: how long it is kept without ``alive`` while it waits, or is granted and not starting.
    """

    share: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    project: _Name
    person: Annotated[str, msgspec.Meta(max_length=200)] = ""
    name: _Name = "server"
    pool: Annotated[str, msgspec.Meta(max_length=63)] = ""
    groups: Groups | None = None
    wait: bool = False
    is_starting: bool = False
    reserve_s: _Seconds = 300.0
    for_s: _Seconds = 60.0


class AliveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody still waits for the claim, or looks at its grant.

    Attributes:
        person: whose claim; empty for the caller itself.
        for_s: how long it is kept until the next one.
        reserve_s: a granted one is kept at most so long after its grant, however often this is said.
        is_running: the hub sees the server run though it has never said hello, as one without our extension: the
            grant is kept for *for_s* from now, whatever *reserve_s* says. For the hub and admins alone.
    """

    person: Annotated[str, msgspec.Meta(max_length=200)] = ""
    for_s: _Seconds = 60.0
    reserve_s: _Seconds = 300.0
    is_running: bool = False


class HoldModel(msgspec.Struct, frozen=True):
    """How a claim is kept without a connection: *until* when, and whether its server *is_starting*."""

    until: float
    is_starting: bool


class ClaimAnswer(msgspec.Struct, frozen=True):
    """A claim as it is now.

    Attributes:
        key: the hub's name for it.
        lease: where it is: ``queued`` with place and estimate, ``granted``, or, once its server has come, anything.
        hold: null when its server has said hello: the lease is its holder's.
        token: works for this lease alone: for the server's environment (GPUSHARE_BROKER_TOKEN). Empty but in the answer
            to a PUT.
    """

    key: str
    lease: LeaseModel
    hold: HoldModel | None
    token: str = ""


class HeldClaimModel(msgspec.Struct, frozen=True):
    """A lease by its holder's own name: enough to compare with a hub's list of servers."""

    key: str
    person: str
    lease: str
    status: str
    hold: HoldModel | None


class ClaimsAnswer(msgspec.Struct, frozen=True):
    """Every lease whose key begins with the ``prefix`` that was asked for (``GET …/claims?prefix=hub:``)."""

    claims: list[HeldClaimModel]


class MembershipModel(msgspec.Struct, frozen=True):
    """What is known of a person (``GET …/memberships?person=``; oneself without): groups and projects, by name.

    *owns* are those of *projects* whose owner it is. *seen* is when its groups were told last; null if never.
    """

    person: str
    groups: list[str]
    projects: list[str]
    owns: list[str]
    seen: float | None


class MemberModel(msgspec.Struct, frozen=True):
    """One person in a project, for its owners.

    Attributes:
        sessions: GPUs that its admitted sessions have, running or parked.
        limit: how many they may have; ``unlimited`` where nothing bounds it but the quota.
        is_own_limit: whether *limit* was set for this person alone, instead of the project's ``person_limit``.
        via: the ``@group`` it is a member by; ``owner`` of one that an owner added; empty of one that the file names.
        is_owner: whether it owns the project.
    """

    person: str
    sessions: Amount
    limit: Amount
    is_own_limit: bool
    via: str
    is_owner: bool


class MembersAnswer(msgspec.Struct, frozen=True):
    """A project's people (``GET …/projects/{project}/members``): those named, those known by group, those with leases.

    *names* is what the admin's file says, groups with an ``@`` before them and ``*`` for everybody.
    """

    project: str
    names: list[str]
    owners: list[str]
    members: list[MemberModel]


class LimitsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Other limits for a project (``PUT …/projects/{project}/limits``). What is null stays as it is.

    Attributes:
        person: whose own limit *limit* is; by its owners, up to the project's quota. Empty for none.
        limit: GPUs that the person's sessions may have together, as a decimal or ``unlimited``; empty takes its own
            limit away, so that the project's ``person_limit`` holds again.
        quota: the project's quota, by admins alone, and only where no file sets it (409 ``CONFIGURED_BY_FILE``).
        why: for the audit.
    """

    person: Annotated[str, msgspec.Meta(max_length=200)] = ""
    limit: Amount | None = None
    quota: Amount | None = None
    why: _Text = ""


class AskRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member asks for more (``POST …/asks``): 201 with the `AskModel`. One open ask a person, project and *what*.

    *what* is ``limit`` (the asker's own, by owners and admins) or ``quota`` (the project's, by admins). *amount*
    is the whole that is wanted, in GPUs, not the difference.
    """

    project: _Name
    amount: Amount
    what: Literal["limit", "quota"] = "limit"
    why: _Text = ""


class AskModel(msgspec.Struct, frozen=True):
    """One ask. *decided_by*, *decided_at* and *answer* are of one that is approved, denied or withdrawn."""

    number: int
    project: str
    person: str
    what: Literal["limit", "quota"]
    amount: Amount
    why: str
    at: float
    state: Literal["open", "approved", "denied", "withdrawn"]
    decided_by: str = ""
    decided_at: float | None = None
    answer: str = ""


class AsksAnswer(msgspec.Struct, frozen=True):
    """The asks that one may see, newest first (``GET …/asks?state=&project=``): one's own, those of one's own projects.

    *may_decide* are the numbers of the open ones that the caller may decide on.
    """

    asks: list[AskModel]
    may_decide: list[int]


class AskDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Decide on an ask (``POST …/asks/{number}``): its *approved* limit or quota holds at once. Askers may withdraw."""

    state: Literal["approved", "denied", "withdrawn"]
    answer: _Text = ""


class DayModel(msgspec.Struct, frozen=True):
    """GPUs, averaged over the five minutes that begin at *at*; they sum up to all there are.

    Attributes:
        running: of sessions that run.
        parked: promised to parked sessions, and used by nobody.
        lent: promised to parked sessions, and used by others.
        training: of jobs, without what is lent to them.
        foreign: held by programs that take part in no share.
        free: of nobody.
    """

    at: float
    running: float
    parked: float
    lent: float
    training: float
    foreign: float
    free: float


class DayAnswer(msgspec.Struct, frozen=True):
    """What the GPUs did (``GET …/day?hours=24``, up to 192), oldest first; times without a broker are left out."""

    step_s: float
    slots: list[DayModel]


class ParkingReportLine(msgspec.Struct, frozen=True):
    """One project in *pool*, in the time of the report.

    Attributes:
        mode: the pool's now.
        idle: GPU-hours in which sessions that ran had been idle for longer than the pool's ``idle_timeout``: what
            parking would have won, or in a pool that parks, what it could not win.
        parks: how often a session became that idle.
        handed_back: GPU-hours that parked sessions did hand back, of the whole project.
    """

    project: str
    pool: str
    mode: Literal["off", "observe", "park"]
    idle: float
    parks: int
    handed_back: float


class ParkingReport(msgspec.Struct, frozen=True):
    """What parking would have won (``GET …/parking-report?days=7``), most first, of projects that one may see."""

    since: float
    until: float
    lines: list[ParkingReportLine]
