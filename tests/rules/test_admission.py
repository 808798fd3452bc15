"""What is refused at once, and what may wait (DESIGN 5, rules 1 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.admission import values_of
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import PolicySet, Submitted
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.reason import Reason, explain
from tests.rules.builders import books, device, gpus, job, on_loan, parked, project, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.rules.snapshot import Snapshot

_TEAM = project("team-a", "2", limit="3", person_limit=gpus("1"), members=frozenset({"ada", "bob", "eve"}))


def _submit(snapshot: Snapshot, *leases: Lease) -> Story:
    story = Story(snapshot)
    story.then(*(Submitted(lease) for lease in leases))
    return story


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        pytest.param(session("n", "0.5", "team-x"), Reason.NO_SUCH_PROJECT, id="no such project"),
        pytest.param(session("n", "0.5", person="mallory"), Reason.NOT_A_MEMBER, id="not a member"),
        pytest.param(job("n", "0.5", pool="gold"), Reason.NO_SUCH_POOL, id="no such pool"),
        pytest.param(job("n", "0.5@h100"), Reason.NO_SUCH_DEVICE, id="no such kind of GPU"),
        pytest.param(job("n", "100GiB"), Reason.NO_SUCH_DEVICE, id="more memory than any GPU has"),
        pytest.param(job("n", "5x0.5"), Reason.NO_SUCH_DEVICE, id="more GPUs than any host has"),
        pytest.param(job("n", "4"), Reason.EXCEEDS_PROJECT_LIMIT, id="a job above its project's limit"),
        pytest.param(session("n", "2x0.75"), Reason.EXCEEDS_PERSON_LIMIT, id="a notebook above its person's limit"),
        pytest.param(session("n", "3"), Reason.EXCEEDS_PROJECT_QUOTA, id="a notebook above its project's quota"),
    ],
)
def test_what_can_never_be_is_refused_at_once(claim: Lease, reason: Reason) -> None:
    """A claim that waiting would not help fails with its reason, and the audit says so; the sentence has its values."""
    story = _submit(books(per_host=4, projects=[_TEAM]), claim)
    lease = story.lease("n")
    assert (lease.status, lease.reason) == (Status.FAILED, reason)
    assert "n" not in story.snapshot.leases
    assert story.verbs("n") == [Verb.SUBMITTED, Verb.REFUSED]
    assert explain(reason, **values_of(story.snapshot, lease)).text


def test_jobs_go_over_quota_and_wait() -> None:
    """A job is not refused for quota: it takes what is free, and above that it waits."""
    story = _submit(books(per_host=2, quotas={"team-a": "1"}), *(job(f"j{n}", "1") for n in range(3)))
    assert story.status("j0", "j1", "j2") == ["granted", "granted", "queued"]
    assert story.lease("j2").reason is Reason.WAITING_FOR_QUOTA


def test_notebooks_that_wait_count_too() -> None:
    """Two notebooks that fit the quota only one at a time are not both admitted while both wait for a GPU."""
    busy = running(job("j", "1", "team-b"), "h1-0")
    story = _submit(
        books(busy, quotas={"team-a": "1", "team-b": "0"}),
        session("s1", "0.75"),
        session("s2", "0.5"),
        session("s3", "0.25"),
    )
    assert story.status("s1", "s2", "s3") == ["queued", "failed", "queued"]
    assert story.lease("s2").reason is Reason.EXCEEDS_PROJECT_QUOTA


def _said(story: Story, lease_id: str) -> str:
    """The sentence with which it was refused."""
    lease = story.lease(lease_id)
    assert lease.reason is not None
    return explain(lease.reason, **values_of(story.snapshot, lease)).text


def test_a_refusal_names_what_those_in_line_ask_for() -> None:
    """A half that is refused while four of twelve are taken: the other eight are asked for already, and it says so."""
    mine, others = (
        running(session("mine", "4"), *(f"h1-{n}" for n in range(4))),
        running(job("j", "4", "team-b"), *(f"h1-{n}" for n in range(4, 8))),
    )
    town = books(mine, others, per_host=8, quotas={"team-a": "12", "team-b": "4"})
    story = _submit(town, session("first", "4"), session("second", "4"), session("late", "0.5"))
    assert story.status("first", "second", "late") == ["queued", "queued", "failed"]
    assert _said(story, "late") == (
        "team-a has 12 GPU for notebooks, and 12 is taken or asked for by those in line; ask for less, or later."
    )
    # Nobody in line stands in the way of who stands there, too: it waits for what is taken alone.
    first = story.lease("first").evolve(reason=Reason.EXCEEDS_PROJECT_QUOTA)
    assert values_of(story.snapshot, first)["used"] == "4"


def test_a_persons_refusal_names_what_the_person_waits_for() -> None:
    """Somebody at the own limit by what has not come yet reads that, and what others wait for is not counted."""
    busy = running(job("j", "1", "team-b"), "h1-0")
    team = Project("team-a", gpus("4"), person_limit=gpus("1"))
    ours = [session("s1", "0.75"), session("other", "1", person="bob"), session("s2", "0.5")]
    story = _submit(books(busy, projects=[team, project("team-b", "1")]), *ours)
    assert story.status("s1", "other", "s2") == ["queued", "queued", "failed"]
    assert _said(story, "s2") == "One person of team-a may have 1 GPU for notebooks; you have or wait for 0.75."


def test_what_waits_in_gib_is_named_by_what_it_could_cost() -> None:
    """Also where many ask for the same: 16GiB are all of the smallest GPU that could hold them."""
    devices = [device("h1-0", usable=device("x-0").usable.parse("16GiB"))]
    busy = running(job("j", "1", "team-b"), "h1-0")
    ours = [*(session(f"s{n}", "16GiB", person=f"p{n}") for n in range(3)), session("late", "0.5")]
    story = _submit(books(busy, devices=devices, quotas={"team-a": "3", "team-b": "1"}), *ours)
    assert values_of(story.snapshot, story.lease("late"))["used"] == "3"


def test_parked_notebooks_count() -> None:
    """Parking frees nothing of one's quota: what is promised stays counted."""
    story = _submit(
        books(parked(session("s1", "1"), "h1-0"), per_host=2, quotas={"team-a": "1"}), session("s2", "0.25")
    )
    assert story.lease("s2").reason is Reason.EXCEEDS_PROJECT_QUOTA


def test_jobs_do_not_take_up_the_quota_of_notebooks() -> None:
    """A team's jobs never cause its notebooks to be refused."""
    story = _submit(books(running(job("j", "1"), "h1-0"), per_host=2, quotas={"team-a": "1"}), session("s", "1"))
    assert story.status("s") == ["granted"]


def test_whoever_was_admitted_once_waits_instead() -> None:
    """A job that ran and yielded is not failed for a policy that changed meanwhile: it waits, and says for what."""
    again = job("j", "0.5", epoch=3, reason=Reason.RECLAIMED)
    story = _submit(books(running(session("s", "1"), "h1-0"), again))
    story.then(PolicySet((project("team-b", "1"),), (Pool("main"),)))
    assert (story.status("j"), story.lease("j").reason) == (["queued"], Reason.NO_SUCH_PROJECT)


def test_a_restarted_server_gets_what_its_last_one_gives_back() -> None:
    """A new notebook server is not refused because the old one of the same quota is still on its way out."""
    story = Story(books(running(session("old", "1"), "h1-0"), quotas={"team-a": "1"}))
    story.wants("old", Target.ENDED)
    story.then(Submitted(session("new", "1")))
    assert story.status("new") == ["queued"]
    story.obeys("old")
    assert story.status("new") == ["granted"]


def test_lowered_quota_lets_nobody_in_and_throws_nobody_out() -> None:
    """Whoever waits when the quota falls below what is used goes on waiting, and begins when it fits."""
    first, second = running(session("s1", "0.75"), "h1-0"), session("s2", "0.5")
    story = Story(books(first, second, quotas={"team-a": "2"}))
    story.passes(1)
    story.then(PolicySet((project("team-a", "1"),), (Pool("main"),)))
    assert (story.status("s1", "s2"), story.lease("s2").reason) == (["running", "queued"], Reason.EXCEEDS_PROJECT_QUOTA)
    story.wants("s1", Target.ENDED)
    story.obeys("s1")
    assert story.status("s2") == ["granted"]


def test_the_limit_counts_loans() -> None:
    """A project at its limit gets nothing more, not even what is lent."""
    lender = parked(session("s", "1", "team-b"), "h1-0")
    borrower = on_loan(job("j1", "0.5"), ("s", "h1-0", "0.5"))
    limited = [project("team-a", "0", limit="0.75"), project("team-b", "1")]
    story = _submit(books(lender, borrower, projects=limited), job("j2", "0.5"), job("j3", "0.25"))
    assert story.status("j2", "j3") == ["queued", "granted"]
    assert story.lease("j2").reason is Reason.EXCEEDS_PROJECT_LIMIT


def test_a_person_at_its_limit_does_not_stand_in_the_way_of_others() -> None:
    """A person's waiting notebook that only its limit holds back keeps no colleague's like it waiting."""
    team = Project("team-a", gpus("4"), person_limit=gpus("0.5"))
    mine, waiting = running(session("s1", "0.5"), "h1-0"), session("s2", "0.5", reason=Reason.WAITING_FOR_DEVICE)
    story = _submit(books(mine, waiting, per_host=2, projects=[team]), session("s3", "0.5", person="bob"))
    assert story.status("s2", "s3") == ["queued", "granted"]
    assert story.lease("s2").reason is Reason.EXCEEDS_PERSON_LIMIT


def test_before_the_devices_are_known_everybody_waits() -> None:
    """A broker that has just started refuses nobody for GPUs that it has not seen yet, or that are gone for now."""
    for devices in ([], [device("h1-0", condition="gone")]):
        story = _submit(books(devices=devices, quotas={"team-a": "1"}), session("s", "0.5"))
        assert (story.status("s"), story.lease("s").reason) == (["queued"], Reason.WAITING_FOR_DEVICE)


def test_a_share_in_gib_costs_its_part_of_the_smallest_gpu_while_it_waits() -> None:
    """16GiB are all of a 16 GiB GPU and a fifth of an 80 GiB one: while it is open which, the larger part counts."""
    devices = [device("h1-0"), device("h1-1", usable=device("x-0").usable.parse("16GiB"), kind="t4")]
    story = _submit(
        books(devices=devices, quotas={"team-a": "0.5"}), session("s1", "16GiB"), session("s2", "16GiB@a100")
    )
    assert story.lease("s1").reason is Reason.EXCEEDS_PROJECT_QUOTA
    assert (story.status("s2"), story.lease("s2").amount) == (["granted"], Fraction.parse("0.2"))
