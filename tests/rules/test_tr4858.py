"""NetApp TR-4858, section 4.8: the documented sequence that fills a cluster, and what rule 3 makes of it then.

Two hosts of eight GPUs; quotas team-a 4, team-b 2, team-c 2, team-d 8. What is expected after the end state was worked
out by hand from DESIGN 5; the figures behind each choice stand in the tests.
"""

from __future__ import annotations

import pytest

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.fair_share import fair_share
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.waiting_line import line
from tests.rules.builders import books, gpus, job, session
from tests.rules.story import Story

QUOTAS = {"team-a": "4", "team-b": "2", "team-c": "2", "team-d": "8"}
#: Name, GPUs, whether it is interactive, team, and what the team has then, as the document says.
SUBMISSIONS = (
    ("a-1-1-jupyter", "1", True, "team-a", "1"),
    ("a-1-g", "1", False, "team-a", "2"),
    ("a-2-gg", "2", False, "team-a", "4"),
    ("b-1-g06", "0.6", True, "team-b", "0.6"),
    ("b-2-g04", "0.4", True, "team-b", "1"),
    ("b-3-g", "1", False, "team-b", "2"),
    ("b-4-gg", "2", False, "team-b", "4"),
    ("c-1-g05", "0.5", True, "team-c", "0.5"),
    ("c-2-g03", "0.3", True, "team-c", "0.8"),
    ("c-3-g02", "0.2", True, "team-c", "1"),
    ("c-4-gg", "2", False, "team-c", "3"),
    ("c-5-g", "1", False, "team-c", "4"),
    ("d-1-gggg", "4", False, "team-d", "4"),
)
#: Longer than any minimum turn, and than any back-off of a job that lost one turn.
LONG = 1_000.0

#: Who yielded, why, and for whom.
Yielded = dict[str, tuple[Reason, str]]


class Cluster(Story):
    """The cluster after the submissions, with holders that do at once what they are asked."""

    def __init__(self, *, consolidation: bool = False) -> None:
        super().__init__(books(hosts=2, per_host=8, quotas=QUOTAS, consolidation=consolidation))
        for name, share, is_session, team, has in SUBMISSIONS:
            self.submit(name, share, team, is_session=is_session)
            self.settle()
            assert self.used(team) == gpus(has), f"{team} after {name}"

    def submit(self, name: str, share: str, team: str, *, is_session: bool = False, after: float = 1.0) -> None:
        made = (session if is_session else job)(name, share, team)
        self.then(Submitted(made.evolve(submitted=self.now)), after=after)

    def settle(self) -> Yielded:
        """Everybody does what is asked until nothing is; who yielded meanwhile to go on later, why, and for whom."""
        yielded: Yielded = {}
        while busy := sorted(self.snapshot.unsettled):
            for key in busy:
                lease = self.lease(key)
                if lease.status is Status.YIELDING and lease.target is Target.RUNNING:
                    assert lease.reason is not None
                    yielded[key] = (lease.reason, lease.because_of)
                self.obeys(key)
        return yielded

    def submit_and_settle(self, name: str, share: str, team: str, *, is_session: bool = False) -> Yielded:
        self.submit(name, share, team, is_session=is_session, after=LONG)
        yielded = self.settle()
        self.passes(LONG)
        assert not self.settle(), "back-off is over, and that displaces nobody"
        return yielded

    def used(self, team: str) -> Fraction:
        return self.snapshot.project_books[team].counted

    def fair(self, team: str) -> Fraction:
        return fair_share(self.snapshot)[team]

    def queue(self) -> list[str]:
        return line(self.snapshot)

    def where(self, key: str) -> list[str]:
        return list(self.lease(key).devices)

    def teams(self) -> str:
        return " ".join(str(self.used(team)) for team in QUOTAS)


@pytest.fixture
def cluster() -> Cluster:
    """The cluster as the document leaves it."""
    return Cluster()


def test_the_submissions_fill_the_cluster(cluster: Cluster) -> None:
    """The thirteen submissions end as the document says: 4/4, 4/2, 4/2, 4/8, all 16 GPUs in use, nobody waits."""
    assert cluster.teams() == "4 4 4 4"
    assert cluster.queue() == []
    assert {lease.status for lease in cluster.snapshot.leases.values()} == {Status.RUNNING}
    assert sum(each.held.millionths for each in cluster.snapshot.device_books.values()) == 16 * Fraction.PER_GPU
    assert [cluster.fair(team) for team in QUOTAS] == [gpus("4")] * 4


def test_fractions_and_whole_gpus_are_packed(cluster: Cluster) -> None:
    """Fractions of one team fill one GPU each, so that the last submission finds four empty GPUs on one host."""
    assert [cluster.where(key) for key in ("b-1-g06", "b-2-g04")] == [["h1-4"], ["h1-4"]]
    assert [cluster.where(key) for key in ("c-1-g05", "c-2-g03", "c-3-g02")] == [["h2-0"], ["h2-0"], ["h2-0"]]
    assert cluster.where("d-1-gggg") == ["h2-4", "h2-5", "h2-6", "h2-7"]


def test_one_gpu_four_times_in_a_row(cluster: Cluster) -> None:
    """Those furthest above their share yield GPU by GPU, and what a large job leaves over takes a small one back."""
    # d wants 5: 13 are deserved, 3 are left: b and c get 1.5 each on top of 2. Both are 0.5 above, and one GPU is enough:
    # b-3-g or c-5-g; c-5-g is newer.
    assert cluster.submit_and_settle("d-2-g", "1", "team-d") == {"c-5-g": (Reason.RECLAIMED, "d-2-g")}
    assert (cluster.fair("team-b"), cluster.fair("team-c")) == (gpus("3.5"), gpus("3.5"))
    assert (cluster.teams(), cluster.queue()) == ("4 4 3 5", ["c-5-g"])
    assert cluster.where("d-2-g") == ["h2-3"]

    # d wants 6: 2 are left, b and c get 3 each. Only b is above: the smallest of its jobs is b-3-g.
    assert cluster.submit_and_settle("d-3-g", "1", "team-d") == {"b-3-g": (Reason.RECLAIMED, "d-3-g")}
    assert (cluster.fair("team-b"), cluster.fair("team-c")) == (gpus("3"), gpus("3"))
    # Neither fits into what its team may have; both are 0 below it, so the older is first in line.
    assert (cluster.teams(), cluster.queue()) == ("4 3 3 6", ["b-3-g", "c-5-g"])
    assert cluster.where("d-3-g") == ["h1-5"]

    # d wants 7: b and c get 2.5 each, both are 0.5 above; only b-4-gg and c-4-gg are left to take; c-4-gg is newer. It
    # leaves c with 1 of its quota of 2, but c-5-g fits on the other of its GPUs and goes on.
    assert cluster.submit_and_settle("d-4-g", "1", "team-d") == {"c-4-gg": (Reason.RECLAIMED, "d-4-g")}
    assert (cluster.teams(), cluster.queue()) == ("4 3 2 7", ["c-4-gg", "b-3-g"])
    assert (cluster.where("c-5-g"), cluster.where("d-4-g")) == (["h2-1"], ["h2-2"])

    # d wants 8: nothing is left over, b gets its quota of 2 and has 3. b-4-gg goes, and b-3-g goes on.
    assert cluster.submit_and_settle("d-5-g", "1", "team-d") == {"b-4-gg": (Reason.RECLAIMED, "d-5-g")}
    assert (cluster.teams(), cluster.queue()) == ("4 2 2 8", ["b-4-gg", "c-4-gg"])
    assert (cluster.where("b-3-g"), cluster.where("d-5-g")) == (["h1-6"], ["h1-7"])

    # Everybody has its quota: a fifth is above team-d's fair share and takes nothing from anybody.
    assert cluster.submit_and_settle("d-6-g", "1", "team-d") == {}
    assert (cluster.teams(), cluster.lease("d-6-g").reason) == ("4 2 2 8", Reason.WAITING_FOR_QUOTA)
    assert cluster.queue() == ["b-4-gg", "c-4-gg", "d-6-g"]


def test_four_gpus_without_consolidation(cluster: Cluster) -> None:
    """Four GPUs at once are team-d's due, but no host has four that may be taken: it waits, and nobody yields for it."""
    # d wants 8: b and c are 2 above their quotas. On h1 only b's three job GPUs can go, on h2 only c's three.
    assert cluster.submit_and_settle("d-2-gggg", "4", "team-d") == {}
    assert cluster.lease("d-2-gggg").reason is Reason.BLOCKED_BY_FRAGMENTATION
    assert (cluster.teams(), cluster.queue()) == ("4 4 4 4", ["d-2-gggg"])


def test_four_gpus_with_consolidation() -> None:
    """With consolidation two jobs above fair share yield, and one of team-a goes on where one of them was."""
    cluster = Cluster(consolidation=True)
    # b may lose 2 and c may lose 2, and 4 are needed: b-4-gg (h1) and c-4-gg (h2) is the only pair. Two more GPUs of h1
    # must go to h2: a-2-gg is one lease that does it.
    assert cluster.submit_and_settle("d-2-gggg", "4", "team-d") == {
        "b-4-gg": (Reason.RECLAIMED, "d-2-gggg"),
        "c-4-gg": (Reason.RECLAIMED, "d-2-gggg"),
        "a-2-gg": (Reason.MOVED, "d-2-gggg"),
    }
    assert cluster.where("d-2-gggg") == ["h1-2", "h1-3", "h1-6", "h1-7"]
    assert cluster.where("a-2-gg") == ["h2-1", "h2-2"]
    assert (cluster.teams(), cluster.queue()) == ("4 2 2 8", ["b-4-gg", "c-4-gg"])


def test_consolidation_keeps_the_way_clear_in_whatever_order_they_leave() -> None:
    """Whoever leaves last: nobody slips into the room that is made, neither the claim's nor the moved job's."""
    for order in (("c-4-gg", "b-4-gg", "a-2-gg"), ("a-2-gg", "c-4-gg", "b-4-gg"), ("b-4-gg", "a-2-gg", "c-4-gg")):
        cluster = Cluster(consolidation=True)
        cluster.submit("d-2-gggg", "4", "team-d", after=LONG)
        for key in order:
            cluster.obeys(key)
            cluster.passes(LONG)
        assert cluster.settle() == {}
        assert cluster.where("d-2-gggg") == ["h1-2", "h1-3", "h1-6", "h1-7"]
        assert (cluster.where("a-2-gg"), cluster.queue()) == (["h2-1", "h2-2"], ["b-4-gg", "c-4-gg"])


def test_a_whole_gpu_notebook_is_not_kept_waiting_by_its_own_team(cluster: Cluster) -> None:
    """A notebook within team-b's quota gets the GPU of team-b's own smallest job above its fair share."""
    # b wants 5: 4 are left over quota, c takes 2 of it and b 2: b's fair share is 4. With the notebook it has 5.
    assert cluster.submit_and_settle("b-5-jupyter", "1", "team-b", is_session=True) == {
        "b-3-g": (Reason.RECLAIMED, "b-5-jupyter")
    }
    assert (cluster.where("b-5-jupyter"), cluster.teams()) == (["h1-5"], "4 4 4 4")
    assert (cluster.queue(), cluster.lease("b-3-g").reason) == (["b-3-g"], Reason.WAITING_FOR_QUOTA)


def test_a_notebook_over_quota_is_refused(cluster: Cluster) -> None:
    """Notebooks never go over quota: team-b's third GPU for notebooks is refused at once, and nobody yields for it."""
    cluster.submit_and_settle("b-5-jupyter", "1", "team-b", is_session=True)
    cluster.submit("b-6-jupyter", "1", "team-b", is_session=True)
    refused = cluster.change.leases["b-6-jupyter"]
    assert (refused.status, refused.reason) == (Status.FAILED, Reason.EXCEEDS_PROJECT_QUOTA)
    assert not cluster.snapshot.unsettled


def test_within_their_minimum_turn_jobs_are_left_alone(cluster: Cluster) -> None:
    """Team-d's claim waits until a minimum turn is over, and is served then without anybody asking again."""
    began = cluster.lease("c-5-g").turn_began
    cluster.submit("d-2-g", "1", "team-d")
    assert (cluster.lease("d-2-g").reason, cluster.settle()) == (Reason.WAITING_FOR_MINIMUM_TURN, {})
    yielded: Yielded = {}
    while not yielded and cluster.now < began + LONG:
        assert cluster.look_again is not None, "time brings it on"
        cluster.passes(cluster.look_again - cluster.now)
        yielded = cluster.settle()
    # b-3-g got its turn before c-5-g, and its is over first.
    assert yielded == {"b-3-g": (Reason.RECLAIMED, "d-2-g")}
    assert cluster.status("d-2-g") == ["running"]


def test_a_team_that_wants_less_gives_the_gpu_back_to_those_that_wait(cluster: Cluster) -> None:
    """When team-d's job ends, who waits furthest below its fair share goes on; nobody else moves."""
    cluster.submit_and_settle("d-2-g", "1", "team-d")
    cluster.wants("d-2-g", Target.ENDED)
    assert cluster.settle() == {}
    assert (cluster.teams(), cluster.queue()) == ("4 4 4 4", [])
