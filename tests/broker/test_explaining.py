"""What people read about a lease is true of the machine as it is, and of who did it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.broker.models import View
from jupyter_gpushare.rules.event import Drained, Reclaimed, Submitted
from tests.rules.builders import NOW, books, device, gpus, job, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.broker.wire import MessageModel
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot


def reason_of(snapshot: Snapshot, lease: Lease) -> MessageModel:
    """What is told about *lease*."""
    reason = View(snapshot, NOW).lease(snapshot.leases[lease.id]).reason
    assert reason is not None
    return reason


def read(snapshot: Snapshot, lease: Lease) -> str:
    """The sentence about *lease*."""
    return reason_of(snapshot, lease).text


def test_who_waits_on_a_drained_machine_reads_of_the_drain() -> None:
    """It is not others who need less that such a job waits for."""
    story, mine = Story(books(hosts=2, per_host=2)), job("mine", "1")
    story.then(Drained(host="h1", device="", by="root"), Drained(host="h2", device="", by="root"))
    story.then(Submitted(mine))
    assert read(story.snapshot, mine) == (
        "team-a uses its fair share of what can be used now; an admin empties 4 GPU that could hold it."
    )


def test_who_waits_for_others_beside_a_small_foreign_use_reads_of_the_others() -> None:
    """What is foreign is named only where it is in the way."""
    here = [device("h1-0", foreign=gpus("0.25"))]
    theirs, mine = running(job("theirs", "0.75"), "h1-0"), job("mine", "0.5")
    story = Story(books(theirs, devices=here))
    story.then(Submitted(mine))
    assert "programs" not in read(story.snapshot, mine)


def test_who_waits_where_others_filled_the_gpu_reads_of_them() -> None:
    """A device that programs of nobody's share fill is named, and the fair share is not blamed for it."""
    story, mine = Story(books(devices=[device("h1-0", foreign=gpus("0.9"))])), job("mine", "0.5")
    story.then(Submitted(mine))
    text = read(story.snapshot, mine)
    assert "Programs that take part in no share" in text or "programs that take part in no share" in text
    assert "when others need less" not in text


def test_what_the_sentence_names_is_what_the_code_says() -> None:
    """Scripts that go by the constant must not take a drain, or programs of others, for a quota that is used."""
    here = [device("h1-0"), device("h1-1", foreign=gpus("0.9"))]
    story, mine = Story(books(running(job("theirs", "1"), "h1-0"), devices=here)), job("mine", "0.5")
    story.then(Submitted(mine))
    assert reason_of(story.snapshot, mine).code == "BLOCKED_BY_FOREIGN_MEMORY"
    story.then(Drained(host="", device="h1-0", by="root"))
    assert reason_of(story.snapshot, mine).code == "BLOCKED_BY_DRAIN"
    story.then(Drained(host="", device="h1-0", by="root", undo=True))
    assert reason_of(story.snapshot, mine).code == "BLOCKED_BY_FOREIGN_MEMORY"


def test_a_session_on_a_drained_machine_reads_of_the_drain_too() -> None:
    """Notebooks wait under another reason, and for the same cause."""
    story, mine = Story(books()), session("mine")
    story.then(Drained(host="", device="h1-0", by="root"))
    story.then(Submitted(mine))
    assert read(story.snapshot, mine).endswith("an admin empties 1 GPU that could hold it.")


def test_a_job_that_an_admin_reclaims_reads_that_an_admin_did() -> None:
    """No project below its fair share is blamed for it, neither while it leaves nor while it waits."""
    story = Story(books(running(job("mine", "1"), "h1-0")))
    story.then(Reclaimed("mine", by="root"))
    leaving = read(story.snapshot, story.lease("mine"))
    assert leaving == "An admin reclaimed the GPU; the job goes on by itself when there is room."


def test_a_job_that_the_rules_reclaim_reads_for_what() -> None:
    """Where another project is below its fair share, that is what its owner reads."""
    over = running(job("over", "1", "team-b"), "h1-0")
    story, claim = Story(books(over, quotas={"team-a": "1", "team-b": "0"})), job("claim", "1", "team-a")
    story.then(Submitted(claim))
    assert read(story.snapshot, over) == "A project below its fair share needs the GPU."
