"""What every ledger keeps to, in memory and in both databases."""

from __future__ import annotations

import math
from dataclasses import fields
from random import Random
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.ledger import ConflictError, NotLeaderError, UsageHours
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import Host
from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.lease import Grant, Loan, Status
from jupyter_gpushare.rules.pace import Pace
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.snapshot import EMPTY
from tests.broker.ledger.books import EVERYTHING, HALF, a_lease, keep, random_change

if TYPE_CHECKING:
    from jupyter_gpushare.broker.ledger import Ledger
    from tests.broker.ledger.conftest import Opener

ENTRY = Entry(100.0, Verb.GRANTED, "lease-1", "team-a", "ana")

#: Fields that no ledger need keep: the next look at the devices says them anew.
_SEEN_ANEW = frozenset({"uses"})


def test_everything_comes_back_as_it_was(ledger: Ledger, open_ledger: Opener) -> None:
    """No field of any record is lost or altered between a commit and the load of the next broker."""
    ledger.commit(EVERYTHING)
    assert open_ledger().load() == EMPTY.with_change(EVERYTHING)


@pytest.mark.parametrize(
    "record",
    [
        EVERYTHING.leases["job"],
        EVERYTHING.projects["team-a"],
        EVERYTHING.pools["class"],
        EVERYTHING.hosts["gpu-1"],
        EVERYTHING.devices["GPU-1"],
        EVERYTHING.audit[0],
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_comes_back_has_every_field(record: object) -> None:
    """A field that is added to a record and forgotten in the ledger fails here: no default hides it."""
    kept = (each for each in fields(record) if each.name not in _SEEN_ANEW)  # type: ignore[arg-type]  # all of them are dataclasses
    for each in kept:
        plain = each.default_factory() if callable(each.default_factory) else each.default
        assert getattr(record, each.name) != plain, each.name


def test_the_pace_of_hosts_comes_back_as_it_was(ledger: Ledger, open_ledger: Opener) -> None:
    """What one broker learned the next one knows; what is learned anew takes the place of that."""
    first, second = Pace(1.5e9, 2.5e9, 0.5, 0.25), Pace(3e9, 4e9, 0.0, 0.125)
    ledger.keep_paces({"gpu-1": first, "gpu-2": first})
    ledger.keep_paces({"gpu-2": second})
    assert open_ledger().paces() == {"gpu-1": first, "gpu-2": second}


@pytest.mark.parametrize("pace", [Pace(0.0), Pace(out_fixed_s=-1.0), Pace(in_bytes_per_s=math.nan), Pace(math.inf)])
def test_no_pace_that_says_nothing_is_kept(ledger: Ledger, pace: Pace) -> None:
    """Estimates would be for ever, or no numbers at all."""
    with pytest.raises(ConflictError, match="the pace of host 'gpu-1'"):
        ledger.keep_paces({"gpu-1": pace})
    assert ledger.paces() == {}


def test_who_is_no_writer_keeps_no_pace(ledger: Ledger, open_ledger: Opener) -> None:
    """A broker that another one has taken over from leaves the ledger alone."""
    open_ledger().take_over("second")
    with pytest.raises(NotLeaderError):
        ledger.keep_paces({"gpu-1": Pace()})


def test_an_empty_ledger_has_empty_books(ledger: Ledger) -> None:
    """A first start finds nothing, and no error."""
    assert ledger.load() == EMPTY
    assert list(ledger.audit()) == []


def test_any_history_leaves_the_same_books(ledger: Ledger, open_ledger: Opener) -> None:
    """Whatever comes, goes and changes, the books in the ledger are those in the broker's memory."""
    random, snapshot, entries = Random(4858), EMPTY, 0  # noqa: S311  # a history, no secret
    for step in range(60):
        change = random_change(random, snapshot, 100.0 + step)
        ledger.commit(change)
        snapshot, entries = snapshot.with_change(change), entries + len(change.audit)
    assert open_ledger().load() == snapshot
    assert len(ledger.audit()) == entries


def test_a_lease_that_is_over_is_gone_and_its_history_stays(ledger: Ledger) -> None:
    """What is over takes no place in the books, and the audit still tells of it."""
    ledger.commit(keep(a_lease(grants=(Grant("GPU-1", HALF),)), audit=(ENTRY,)))
    ledger.commit(keep(a_lease(status=Status.ENDED)))
    assert ledger.load() == EMPTY
    assert [each.entry for each in ledger.audit()] == [ENTRY]


def test_what_has_no_record_any_more_is_removed(ledger: Ledger) -> None:
    """A project, pool or device that is no more does not come back with the next broker."""
    ledger.commit(EVERYTHING)
    gone = Change(projects={"team-a": None}, pools={"class": None}, devices={"GPU-1": None})
    ledger.commit(gone)
    assert ledger.load() == EMPTY.with_change(EVERYTHING).with_change(gone)


def test_the_switch_outlives_the_broker(ledger: Ledger, open_ledger: Opener) -> None:
    """An admin's stop of all parking still holds after a restart, until it is undone."""
    ledger.commit(Change(is_parking_stopped=True))
    following = open_ledger()
    following.take_over("second")
    assert following.load().is_parking_stopped
    following.commit(Change(is_parking_stopped=False))
    assert not following.load().is_parking_stopped


def test_a_writer_that_was_taken_over_writes_nothing(ledger: Ledger, open_ledger: Opener) -> None:
    """Two brokers never write the same books: the older one is told, and nothing of what it wanted is kept."""
    following = open_ledger()
    following.take_over("second")
    with pytest.raises(NotLeaderError):
        ledger.commit(keep(a_lease(), audit=(ENTRY,)))
    with pytest.raises(NotLeaderError):
        ledger.add_usage([UsageHours(0, "team-a", "ana", held=1)])
    assert following.load() == EMPTY
    assert list(following.audit()) == []
    assert list(following.usage(since=0, until=1)) == []
    following.commit(keep(a_lease()))


def test_nobody_writes_without_having_taken_over(open_ledger: Opener) -> None:
    """A program that only reads cannot write by mistake."""
    with pytest.raises(NotLeaderError):
        open_ledger().commit(keep(a_lease()))


RESTORING = a_lease("restoring", status=Status.RESUMING, grants=(Grant("GPU-1", HALF),), key="k1", epoch=5)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (keep(a_lease("other", key="k1")), "a second lease of one holder"),
        (keep(RESTORING.evolve(id="other", key="k2")), "a second restore on one device"),
        (keep(RESTORING.evolve(epoch=4)), "an epoch that goes back"),
        (keep(a_lease(grants=(Grant("GPU-1", Fraction(-1)),))), "a grant below zero"),
        (keep(a_lease(loans=(Loan("restoring", "GPU-1", Fraction(-1)),))), "a loan below zero"),
        (keep(a_lease(grants=(Grant("GPU-1", HALF), Grant("GPU-1", HALF)))), "two grants on one device"),
        (keep(a_lease(host_memory=Memory(-1))), "memory below zero"),
        (keep(a_lease(epoch=-1)), "an epoch below zero"),
        (keep(a_lease(epoch=1 << 63)), "an epoch that no database holds"),
        (keep(a_lease(submitted=math.nan)), "a time that is no number"),
        (keep(a_lease(deadline=math.inf)), "a deadline that never comes"),
        (keep(a_lease(name="a\0b")), "a NUL character"),
        (keep(a_lease(person="\ud800")), "half of a character"),
        (Change(projects={"p": Project("p", Fraction(-1))}), "a quota below zero"),
        (Change(projects={"p": Project("p", HALF, members=frozenset({"\0"}))}), "a member with a NUL character"),
        (Change(hosts={"h": Host("h", copies=-1)}), "copies below zero"),
        (Change(audit=(Entry(math.nan, Verb.GRANTED),)), "an entry at no time"),
        (Change(audit=(Entry(1.0, Verb.GRANTED, details={"note": "\0"}),)), "a detail with a NUL character"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_what_breaks_the_books_is_refused_whole(ledger: Ledger, change: Change, what: str) -> None:
    """The ledger's own guards hold, and a change that breaks one leaves no trace, its good parts included."""
    ledger.commit(keep(RESTORING))
    good = keep(a_lease("good", key="good"), audit=(ENTRY,))
    with pytest.raises(ConflictError):
        ledger.commit(good.then(change))
    assert ledger.load() == EMPTY.with_change(keep(RESTORING)), what
    assert list(ledger.audit()) == []


def test_leases_without_a_key_are_as_many_as_they_like(ledger: Ledger) -> None:
    """Only a holder's own key makes two claims the same one."""
    ledger.commit(
        keep(a_lease("one"), a_lease("two"), a_lease("three", key="k"), a_lease("four", key="k", person="bo"))
    )
    assert len(ledger.load().leases) == 4


def test_a_key_and_a_device_pass_on_within_one_change(ledger: Ledger) -> None:
    """The lease that ends makes way for the one that takes its key and its device in the same change."""
    ledger.commit(keep(RESTORING))
    successor = RESTORING.evolve(id="a-successor", epoch=1)
    ledger.commit(keep(successor, RESTORING.evolve(status=Status.ENDED)))
    assert set(ledger.load().leases) == {"a-successor"}


def test_the_audit_is_read_in_pages(ledger: Ledger) -> None:
    """Pages of any size, one after the other, tell every line once and in order."""
    ledger.commit(Change(audit=tuple(Entry(float(n), Verb.GRANTED, f"lease-{n}") for n in range(10))))
    pages, after = [], 0
    while page := ledger.audit(after=after, limit=3):
        pages += [each.entry.lease for each in page]
        after = page[-1].number
    assert pages == [f"lease-{n}" for n in range(10)]
    assert list(ledger.audit(limit=0)) == []


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ({"lease": "b"}, [1, 3]),
        ({"project": "p", "verb": "ended"}, [3]),
        ({"person": "nobody"}, []),
        ({"reason": ""}, [0, 1, 2, 3]),
    ],
)
def test_the_audit_is_searched(ledger: Ledger, where: dict[str, str], numbers: list[int]) -> None:
    """A question names columns, and all of them must be equal."""
    entries = [
        Entry(0.0, Verb.GRANTED, "a", "p"),
        Entry(1.0, Verb.GRANTED, "b", "p"),
        Entry(2.0, Verb.ENDED, "a"),
        Entry(3.0, Verb.ENDED, "b", "p"),
    ]
    ledger.commit(Change(audit=tuple(entries)))
    assert [each.entry for each in ledger.audit(where=where)] == [entries[n] for n in numbers]


def test_the_audit_has_no_column_of_that_name(ledger: Ledger) -> None:
    """A wrong question is told what could be asked, and reaches no database."""
    with pytest.raises(ValueError, match=r"has no number; there are because_of, by, lease"):
        ledger.audit(where={"number": "1"})


def test_usage_adds_up(ledger: Ledger) -> None:
    """Hours of one person in one project are summed, others are left alone, and the window is half open."""
    ledger.add_usage([UsageHours(3600, "p", "ana", 1, 2, 3, 4), UsageHours(7200, "p", "ana", held=1)])
    ledger.add_usage([UsageHours(3600, "p", "ana", 0.5, 0.5, 0.5, 0.5), UsageHours(3600, "p", "bo", held=9)])
    ledger.add_usage([])
    assert list(ledger.usage(since=3600, until=7200)) == [
        UsageHours(3600, "p", "ana", 1.5, 2.5, 3.5, 4.5),
        UsageHours(3600, "p", "bo", held=9),
    ]


def test_usage_of_projects_is_their_members_together(ledger: Ledger) -> None:
    """A month of a large site is many hours of many people: what is shown is added up where it is kept."""
    ledger.add_usage([UsageHours(0, "q", "ana", held=1), UsageHours(3600, "q", "ana", 1, 2, 3, 4)])
    ledger.add_usage([UsageHours(7200, "q", "bo", 0.5, 0.5, 0.5, 0.5), UsageHours(7200, "p", "bo", held=9)])
    assert list(ledger.usage_of_projects(since=3600, until=7201)) == [
        UsageHours(7200, "p", "", held=9),
        UsageHours(3600, "q", "", 1.5, 2.5, 3.5, 4.5),
    ]
    assert list(ledger.usage_of_projects(since=7201, until=9000)) == []


@pytest.mark.parametrize("wrong", [UsageHours(0, "p", "ana", math.nan), UsageHours(0, "p", "ana", computed=-1)])
def test_usage_that_is_none_is_refused(ledger: Ledger, wrong: UsageHours) -> None:
    """Nobody's hours are lowered or made nonsense."""
    with pytest.raises(ConflictError):
        ledger.add_usage([UsageHours(0, "p", "bo", held=1), wrong])
    assert list(ledger.usage(since=0, until=1)) == []


def test_brokers_that_race_keep_whole_commits(open_ledger: Opener) -> None:
    """Whoever is fenced off in the middle keeps nothing of that commit, and whoever heard of none lost none."""
    brokers = [open_ledger() for _ in range(4)]
    heard: dict[int, int] = {}

    def work(number: int) -> None:
        brokers[number].take_over(f"broker-{number}")
        for turn in range(20):
            lines = tuple(Entry(float(turn), Verb.GRANTED, f"{number}", by=str(turn)) for _ in range(3))
            try:
                brokers[number].commit(keep(a_lease(key="the-one"), audit=lines))
            except NotLeaderError:
                return
            heard[number] = turn + 1

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(4):
        lines = [each.entry.by for each in brokers[0].audit(where={"lease": str(number)})]
        assert lines == [str(turn) for turn in range(heard.get(number, 0)) for _ in range(3)]
    assert 20 in heard.values()
