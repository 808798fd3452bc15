"""Who is in a project by its groups, by an owner's word, and with which limit."""

from __future__ import annotations

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import GroupsKnown, MemberSet, PolicySet, QuotaSet, ShareChanged, Submitted
from jupyter_gpushare.rules.lease import Kind, Lease
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.rules.step import step
from jupyter_gpushare.share import Share

NOW = 1000.0
ONE, TWO = Fraction.ONE, Fraction.parse("2")
TEAM = Project("team", TWO, person_limit=ONE, members=frozenset({"ana", "@team"}), owners=frozenset({"cy", "@leads"}))
POOLS = (Pool("default"),)
BOOKS = Snapshot.of(
    projects=[TEAM],
    pools=POOLS,
    hosts=[Host("h")],
    devices=[GpuDevice(f"GPU-{number}", "h", "a100", "default", Memory(1 << 36)) for number in range(3)],
)


def claims(books: Snapshot, person: str, share: str) -> Reason | None:
    """Why *person* is refused *share* in the team; None if it is not."""
    wish = Lease(
        id=f"{person}-{share}",
        kind=Kind.INTERACTIVE,
        project="team",
        person=person,
        name="lab",
        share=Share.parse(share),
        submitted=NOW,
        since=NOW,
    )
    lease = step(books, [Submitted(wish)], NOW).change.leases[wish.id]
    return lease.reason if lease.is_over else None


def after(books: Snapshot, *events: object) -> Snapshot:
    """The books after *events*."""
    return step(books, events, NOW).snapshot  # type: ignore[arg-type]  # all of them are events


def test_a_group_makes_a_member_for_as_long_as_it_is_known() -> None:
    """Whoever comes into the group may claim, whoever leaves it may claim no more and keeps what it has."""
    assert claims(BOOKS, "bo", "0.5") is Reason.NOT_A_MEMBER
    inside = after(BOOKS, GroupsKnown("bo", frozenset({"team", "x"})))
    assert claims(inside, "bo", "0.5") is None
    wish = Lease(
        id="has",
        kind=Kind.INTERACTIVE,
        project="team",
        person="bo",
        name="lab",
        share=Share.parse("0.5"),
        submitted=NOW,
        since=NOW,
    )
    outside = after(after(inside, Submitted(wish)), GroupsKnown("bo", frozenset({"x"})))
    assert claims(outside, "bo", "0.25") is Reason.NOT_A_MEMBER
    assert outside.leases["has"].grants


def test_what_nothing_follows_from_changes_nothing() -> None:
    """Groups that no project names, told again and again, make no line and no commit."""
    assert not step(BOOKS, [GroupsKnown("bo", frozenset({"x"}))], NOW).change
    inside = after(BOOKS, GroupsKnown("bo", frozenset({"team"})))
    assert not step(inside, [GroupsKnown("bo", frozenset({"team"}))], NOW).change


def test_nobody_gets_in_by_being_called_like_a_group() -> None:
    """A name with an ``@`` before it is a group's, and a person may not have it."""
    assert claims(BOOKS, "@team", "0.5") is Reason.NOT_A_MEMBER
    assert not TEAM.is_owned_by("@leads", frozenset())
    assert TEAM.is_owned_by("dee", frozenset({"leads"}))
    assert TEAM.is_owned_by("cy", frozenset())


def test_a_person_has_a_limit_of_its_own() -> None:
    """An owner gives one person more, or less, than the project gives everybody; taken away, the project's holds."""
    assert claims(BOOKS, "ana", "2x1") is Reason.EXCEEDS_PERSON_LIMIT
    more = after(BOOKS, MemberSet("team", "ana", "cy", limit=TWO, why="a paper"))
    assert claims(more, "ana", "2x1") is None
    assert claims(after(more, MemberSet("team", "ana", "cy", drops_limit=True)), "ana", "2x1") is not None
    less = after(BOOKS, MemberSet("team", "ana", "cy", limit=Fraction.parse("0.25")))
    assert claims(less, "ana", "0.5") is Reason.EXCEEDS_PERSON_LIMIT


def test_a_live_change_of_a_share_keeps_to_the_persons_own_limit() -> None:
    """What may not be claimed may not be grown into either."""
    wish = Lease(
        id="a",
        kind=Kind.INTERACTIVE,
        project="team",
        person="ana",
        name="lab",
        share=Share.parse("0.25"),
        submitted=NOW,
        since=NOW,
    )
    books = after(BOOKS, MemberSet("team", "ana", "cy", limit=Fraction.parse("0.5")), Submitted(wish))
    assert str(after(books, ShareChanged("a", Share.parse("1"))).leases["a"].share) == "0.25"
    assert str(after(books, ShareChanged("a", Share.parse("0.5"))).leases["a"].share) == "0.5"


def test_who_did_it_and_why_is_in_the_audit() -> None:
    """A decision about a person names who made it and what it wrote."""
    done = step(BOOKS, [MemberSet("team", "bo", "cy", is_member=True, limit=TWO, why="joins us")], NOW)
    [line] = done.change.audit
    assert (line.verb, line.by, line.person, line.project) == (Verb.POLICY_SET, "cy", "bo", "team")
    assert line.details == {"project": "team", "member": "added", "limit": "2", "why": "joins us"}
    assert claims(done.snapshot, "bo", "0.5") is None
    again = step(done.snapshot, [MemberSet("team", "bo", "cy", is_member=True)], NOW)
    assert not again.change


def test_what_people_did_outlives_a_new_file() -> None:
    """Limits, added members and known groups stay when the admin's file says something else of the project."""
    books = after(
        BOOKS,
        GroupsKnown("dee", frozenset({"team"})),
        MemberSet("team", "bo", "cy", is_member=True, limit=TWO),
    )
    wider = Project("team", TWO, person_limit=ONE, members=frozenset({"eve", "@team"}))
    then = after(books, PolicySet((wider,), POOLS)).projects["team"]
    assert (then.added, then.limits, then.joined) == (frozenset({"bo"}), {"bo": TWO}, frozenset({"dee"}))
    assert not then.has("ana")
    closed = after(books, PolicySet((Project("team", TWO, members=frozenset({"eve"})),), POOLS)).projects["team"]
    assert not closed.has("dee")


def test_a_quota_that_an_admin_set_holds_until_a_file_says_another() -> None:
    """Without a file it outlives a restart; a file, or another configuration that is applied, decides anew."""
    books = after(BOOKS, QuotaSet("team", Fraction.parse("3"), "root", "term"))
    assert books.projects["team"].quota == Fraction.parse("3")
    again = after(books, PolicySet((TEAM,), POOLS, keeps_quotas=True))
    assert again.projects["team"].quota == Fraction.parse("3")
    anew = after(again, PolicySet((TEAM,), POOLS))
    assert (anew.projects["team"].quota, anew.projects["team"].set_quota) == (TWO, None)


def test_the_same_file_again_says_nothing_in_the_audit() -> None:
    """A restart of the broker is no change of policy, whatever people did meanwhile."""
    books = after(BOOKS, GroupsKnown("dee", frozenset({"team"})), MemberSet("team", "bo", "cy", limit=ONE))
    assert not step(books, [PolicySet((TEAM,), POOLS), GroupsKnown("dee", frozenset({"team"}))], NOW).change
