"""What every ledger keeps beside the books: groups, asks, what the GPUs did; and how the audit is read and forgotten."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.ledger import ConflictError, NotLeaderError, Span
from jupyter_gpushare.broker.ledger_records import Ask, Idle, Membership, Moment
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Change, Entry, Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.ledger import Ledger
    from tests.broker.ledger.conftest import Opener

ASK = Ask("team-a", "ana", "limit", Fraction(1_500_000), 100.0, "“Größeres” Modell")
MOMENT = Moment(300, 60.0, 30.0, 10.0, 5.0, 5.0, 2.0, 8.0)
IDLE = Idle(3600, "team-a", "class", 0.5, 2)
LINES = tuple(
    Entry(100.0 + number, Verb.GRANTED, f"lease-{number}", "team-a" if number % 2 else "team-b", "ana", by="rules")
    for number in range(10)
)


def test_groups_come_back_as_they_were_told_last(ledger: Ledger, open_ledger: Opener) -> None:
    """The next broker knows who was in what; a person without any group is known too."""
    ledger.keep_memberships({"ana": Membership(frozenset({"a", "ß"}), 1.5), "bo": Membership(frozenset(), 2.5)})
    ledger.keep_memberships({"ana": Membership(frozenset({"b"}), 3.5)})
    assert open_ledger().memberships() == {
        "ana": Membership(frozenset({"b"}), 3.5),
        "bo": Membership(frozenset(), 2.5),
    }


def test_an_ask_is_open_once_and_decided_once(ledger: Ledger, open_ledger: Opener) -> None:
    """The same cannot be asked twice at a time; of two decisions the first one counts, and then it may be asked anew."""
    kept = ledger.add_ask(ASK)
    with pytest.raises(ConflictError):
        ledger.add_ask(ASK)
    other = ledger.add_ask(replace(ASK, what="quota"))
    denied = replace(kept, state="denied", decided_by="cy", decided_at=200.0, answer="later")
    assert ledger.decide_ask(denied)
    assert not ledger.decide_ask(replace(denied, state="approved"))
    assert not ledger.decide_ask(replace(denied, number=4711))
    again = ledger.add_ask(ASK)
    assert list(open_ledger().asks()) == [again, other, denied]
    assert list(ledger.asks(state="open")) == [again, other]
    assert list(ledger.asks(number=other.number)) == [other]
    assert list(ledger.asks(limit=1)) == [again]
    assert len({kept.number, other.number, again.number}) == 3


def test_the_past_is_added_up(ledger: Ledger, open_ledger: Opener) -> None:
    """What two brokers saw of one moment is one moment; idle hours are summed by project and pool."""
    ledger.add_past([MOMENT], [IDLE])
    ledger.add_past([MOMENT, replace(MOMENT, at=600)], [IDLE, replace(IDLE, hour=7200), replace(IDLE, pool="other")])
    opened = open_ledger()
    assert [(each.at, each.seconds, each.foreign) for each in opened.moments(since=0)] == [
        (300, 120.0, 4.0),
        (600, 60.0, 2.0),
    ]
    assert list(opened.moments(since=301)) == [replace(MOMENT, at=600)]
    assert list(opened.idles(since=0)) == [
        Idle(3600, "team-a", "class", 1.5, 6),
        Idle(3600, "team-a", "other", 0.5, 2),
    ]
    assert list(opened.idles(since=7200)) == [replace(IDLE, hour=7200)]
    ledger.prune_past(moments=600, idles=7200)
    assert [each.at for each in opened.moments(since=0)] == [600]
    assert [each.hour for each in opened.idles(since=0)] == [7200]


@pytest.mark.parametrize(
    "write",
    [
        lambda ledger: ledger.keep_memberships({"a\0": Membership(frozenset(), 1.0)}),
        lambda ledger: ledger.keep_memberships({"a": Membership(frozenset({"\udcff"}), 1.0)}),
        lambda ledger: ledger.keep_memberships({"a": Membership(frozenset(), math.nan)}),
        lambda ledger: ledger.add_ask(replace(ASK, why="\0")),
        lambda ledger: ledger.add_past([replace(MOMENT, running=-1.0)], []),
        lambda ledger: ledger.add_past([], [replace(IDLE, idle=math.inf)]),
    ],
)
def test_what_no_database_can_hold_is_refused_whole(ledger: Ledger, write: Callable[[Ledger], object]) -> None:
    """Such text and such numbers would make one ledger keep what another one cannot."""
    with pytest.raises(ConflictError):
        write(ledger)
    assert ledger.memberships() == {}
    assert not [*ledger.asks(), *ledger.moments(since=0), *ledger.idles(since=0)]


@pytest.mark.parametrize(
    "write",
    [
        lambda ledger: ledger.keep_memberships({"ana": Membership(frozenset(), 1.0)}),
        lambda ledger: ledger.add_ask(ASK),
        lambda ledger: ledger.decide_ask(ASK),
        lambda ledger: ledger.add_past([MOMENT], []),
        lambda ledger: ledger.prune_past(moments=1, idles=1),
        lambda ledger: ledger.prune_audit(1.0),
    ],
)
def test_who_is_no_writer_writes_nothing_beside_the_books(
    ledger: Ledger, open_ledger: Opener, write: Callable[[Ledger], object]
) -> None:
    """A broker that another one has taken over from leaves the ledger alone."""
    open_ledger().take_over("second")
    with pytest.raises(NotLeaderError):
        write(ledger)


@pytest.mark.parametrize(
    ("span", "numbers"),
    [
        (Span(), [1, 2, 3]),
        (Span(newest_first=True), [10, 9, 8]),
        (Span(newest_first=True, before=8), [7, 6, 5]),
        (Span(since=105.0), [6, 7, 8]),
        (Span(newest_first=True, until=102.0), [2, 1]),
        (Span(since=200.0), []),
    ],
)
def test_the_audit_is_read_from_either_end(ledger: Ledger, span: Span, numbers: list[int]) -> None:
    """Pages go on from the number that the one before ended with, oldest or newest first, within a time."""
    ledger.commit(Change(audit=LINES))
    assert [each.number for each in ledger.audit(limit=3, span=span)] == numbers


def test_the_audit_of_some_projects(ledger: Ledger) -> None:
    """An owner reads what concerns its projects, and nothing else."""
    ledger.commit(Change(audit=LINES))
    assert [each.number for each in ledger.audit(projects=["team-a"], limit=2)] == [2, 4]
    assert list(ledger.audit(projects=[])) == []


def test_old_lines_of_the_audit_are_forgotten_and_the_numbers_go_on(ledger: Ledger, open_ledger: Opener) -> None:
    """What is older than it is kept is gone; the rest is as it was, and no number is given twice."""
    ledger.commit(Change(audit=LINES))
    assert ledger.prune_audit(105.0) == 5
    assert ledger.prune_audit(105.0) == 0
    ledger.commit(Change(audit=LINES[-1:]))
    opened = open_ledger()
    assert [each.number for each in opened.audit()] == [6, 7, 8, 9, 10, 11]
    assert [each.number for each in opened.audit(after=8)] == [9, 10, 11]
