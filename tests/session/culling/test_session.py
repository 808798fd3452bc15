"""What a session does about culling: it testifies, warns, keeps, and ends what the admin wants ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.client import BrokerAway, BrokerError
from jupyter_gpushare.broker.pool_policy import PoolPolicy
from jupyter_gpushare.broker.wire import MessageModel
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.culling.assembly import _parks_at, without_share
from jupyter_gpushare.session.culling.bounded import Bounded
from jupyter_gpushare.session.errors import PublicError
from jupyter_gpushare.session.idle.evidence import Activity
from jupyter_gpushare.session.idle.policy import Active, Idle, Kept
from jupyter_gpushare.session.lease.agreement import NoBroker
from tests.session.idle.conftest import use_of

if TYPE_CHECKING:
    from tests.session.culling.conftest import Town

HOLDS = use_of("a")


def wants(town: Town, **words: Any) -> None:
    """The admin wants that from now on."""
    town.service.outlook = msgspec.structs.replace(town.service.outlook, **words)


async def test_a_kernel_that_holds_a_gpu_too_long_is_warned_of_and_ended(town: Town) -> None:
    """Announced, in the audit without its name, ended, and told, in that order; the other kernel lives."""
    wants(town, end_kernels_after_s=3600.0)
    town.start("a")
    town.start("cpu")
    await town.go(3200, HOLDS)
    assert town.messages() == []
    await town.go(200, HOLDS)
    assert town.messages() == ["KERNEL_ENDS"]
    view = town.culling.view()
    assert view is not None
    assert (view.warnings[0].kernel_id, view.warnings[0].can_keep) == ("a", True)
    assert view.warnings[0].at - town.clock.now == pytest.approx(220, abs=30)
    assert town.ended == []
    await town.go(300, HOLDS)
    assert town.ended == ["a"]
    assert [kind for kind, _ in town.said] == ["announced", "audit", "told"]
    assert town.said[0][1][:2] == (Loss.KERNEL_ENDED_WHILE_IDLE, ("a",))
    assert "a.ipynb" not in str(town.said[1])
    assert "a.ipynb" in town.told()[0].text
    await town.go(9 * 3600, step_s=60)
    assert town.ended == ["a"]


async def test_it_says_when_its_share_is_parked(town: Town) -> None:
    """A notebook may have a time of its own, or never be parked; where that is not known nothing is said of it."""
    for parks_at, said in ((town.clock.now + 90.0, 90.0), (town.clock.now - 5.0, 0.0), (None, None)):
        town.parks_at = parks_at
        await town.culling.turn()
        assert town.service.heard[-1].parks_s == said
    town.parks_at = msgspec.UNSET
    await town.culling.turn()
    assert b"parks_s" not in msgspec.json.encode(town.service.heard[-1])


def test_a_share_is_parked_with_the_last_of_its_kernels() -> None:
    """One that is used, kept, or never parked by itself keeps it; those that hold nothing do not count."""
    soon, later, never = Idle(0.0, 100.0, 50.0), Idle(0.0, 900.0, 850.0), Idle(0.0)
    assert _parks_at([soon, None, later]) == 900.0
    for other in (never, Kept(500.0), Active(Activity.CELL_RUNNING)):
        assert _parks_at([soon, other, None]) is None
    assert _parks_at([None, None]) is msgspec.UNSET


async def test_nothing_is_ended_unless_the_admin_says_so(town: Town) -> None:
    """Off by default: idle for days, parked for days, and nothing happens."""
    town.start("a")
    town.start("b")
    town.park("b")
    await town.go(3 * 86400, HOLDS, step_s=600)
    assert (town.ended, town.messages(), town.said) == ([], [], [])


async def test_a_parked_kernel_has_its_own_longer_limit(town: Town) -> None:
    """Who parks what they hold is not ended for it as soon as who does not."""
    wants(town, end_kernels_after_s=3600.0, end_parked_after_s=7200.0)
    town.start("a")
    await town.go(1800, HOLDS)
    town.park("a")
    await town.go(7000)
    assert town.messages() == ["KERNEL_ENDS"]
    assert town.ended == []
    await town.go(300)
    assert town.ended == ["a"]


async def test_a_cell_puts_it_off(town: Town) -> None:
    """The countdown ends with the first cell, and the whole time begins anew after it."""
    wants(town, end_kernels_after_s=3600.0)
    town.start("a")
    await town.go(3500, HOLDS)
    assert town.messages() == ["KERNEL_ENDS"]
    town.kernels.begin_cell("a")
    await town.go(20, HOLDS)
    assert town.messages() == []
    town.kernels.end_cell("a")
    await town.go(3500, HOLDS)
    assert town.ended == []


async def test_a_busy_moment_is_not_the_moment(town: Town) -> None:
    """What Jupyter says is busy just now is not ended now."""
    wants(town, end_kernels_after_s=3600.0)
    town.start("a")
    town.kernels.states["a"] = "busy"
    await town.go(4000, HOLDS)
    assert town.ended == []
    town.kernels.states["a"] = "idle"
    await town.go(20, HOLDS)
    assert town.ended == ["a"]


async def test_nobody_gets_less_than_the_whole_warning(town: Town) -> None:
    """A limit that is set, or shortened, while a kernel has been idle for hours: it is warned of from then on."""
    town.start("a")
    await town.go(5 * 3600, HOLDS, step_s=60)
    wants(town, end_kernels_after_s=3600.0)
    await town.go(20, HOLDS)
    assert town.messages() == ["KERNEL_ENDS"]
    await town.go(260, HOLDS)
    assert town.ended == []
    await town.go(60, HOLDS)
    assert town.ended == ["a"]


async def test_keep_puts_it_off_and_the_hub_hears_it_at_once(town: Town) -> None:
    """For as long as the owner says; then there is another warning."""
    wants(town, end_kernels_after_s=3600.0)
    town.start("a")
    await town.go(3500, HOLDS)
    answer = await town.culling.keep(3600, None)
    assert answer.message.code == "KEPT_FROM_CULLING"
    assert town.service.heard[-1].kept_s == pytest.approx(3600)
    assert town.messages() == []
    await town.go(3590, HOLDS)
    assert town.messages() == []
    await town.go(200, HOLDS)
    assert (town.messages(), town.ended) == (["KERNEL_ENDS"], [])
    await town.go(200, HOLDS)
    assert town.ended == ["a"]


async def test_one_kernel_may_be_kept(town: Town) -> None:
    """The other one ends; and the server, which is needed for the first, is kept with it."""
    wants(town, end_kernels_after_s=3600.0)
    town.start("a")
    town.start("b")
    await town.go(3500, HOLDS, use_of("b"))
    await town.culling.keep(7200, "a")
    await town.go(300, HOLDS, use_of("b"))
    assert town.ended == ["b"]
    assert town.service.heard[-1].kept_s is not None


async def test_keep_against_parking_keeps_from_worse(town: Town) -> None:
    """Who locks a notebook against being parked needs it: nothing of it ends, and the server is not stopped."""
    wants(town, end_kernels_after_s=3600.0)
    town.start("a")
    town.parking_keeps.keep(7000, "a")
    await town.go(5000, HOLDS)
    assert (town.messages(), town.ended) == ([], [])
    assert town.service.heard[-1].kept_s is not None


async def test_keep_has_its_bound_and_its_end(town: Town) -> None:
    """No longer than the admin allows; 0 takes it away."""
    wants(town, end_kernels_after_s=3600.0)
    await town.go(20)
    answer = await town.culling.keep(7 * 86400, None)
    assert answer.kept_until == town.clock.now + 8 * 3600
    assert (await town.culling.keep(0, None)).message.code == "KEPT_NO_LONGER"
    with pytest.raises(PublicError) as caught:
        await town.culling.keep(60, "not-there")
    assert caught.value.status == 404


async def test_keep_says_when_the_hub_did_not_hear_it(town: Town) -> None:
    """A person must not believe that a server is safe which the hub may stop."""
    town.start("a")
    await town.go(40, HOLDS)
    town.service.trouble = BrokerError("X", "no")
    answer = await town.culling.keep(3600, None)
    assert answer.message.code == "KEPT_NOT_TOLD"
    assert answer.kept_until is not None


async def test_the_servers_stop_is_shown_when_it_is_near(town: Town) -> None:
    """With its reason, until it is put off; one for its age cannot be."""
    town.start("a")
    wants(town, stops_in_s=4000.0, why="IDLE")
    await town.go(40, HOLDS)
    assert town.messages() == []
    wants(town, stops_in_s=250.0, why="PARKED_TOO_LONG")
    await town.go(20, HOLDS)
    assert town.messages() == ["SERVER_STOPS_PARKED_TOO_LONG"]
    wants(town, stops_in_s=250.0, why="TOO_OLD")
    await town.go(20, HOLDS)
    view = town.culling.view()
    assert view is not None
    assert [warning.can_keep for warning in view.warnings] == [False]
    wants(town, stops_in_s=None, why="")
    await town.go(20, HOLDS)
    assert town.messages() == []


async def test_while_the_hub_is_away_nothing_ends(town: Town) -> None:
    """What cannot stand in the audit does not happen; when the hub is back, the warning begins anew."""
    wants(town, end_kernels_after_s=3600.0)
    town.start("a")
    await town.go(3500, HOLDS)
    town.service.trouble = BrokerAway("away")
    await town.go(3600, HOLDS)
    assert (town.ended, town.culling.view(), town.culling.park_after_s) == ([], None, None)
    town.service.trouble = None
    await town.go(20, HOLDS)
    assert town.messages() == ["KERNEL_ENDS"]
    await town.go(240, HOLDS)
    assert town.ended == []


def refusal(what: str) -> BrokerError:
    """404 as the service says it."""
    message = Message("NOT_FOUND", "There is no {what} {name}.", {"what": what, "name": "x"})
    return BrokerError.of(MessageModel.of(message), status=404)


@pytest.mark.parametrize(("what", "pause_s"), [("route", 600), ("lease", 30)])
async def test_an_older_service_culls_nothing(town: Town, what: str, pause_s: float) -> None:
    """One that does not know the route is asked seldom; one that does not know the lease yet, soon."""
    town.service.trouble = refusal(what)
    assert await town.culling.turn() == pause_s
    assert town.culling.view() is None
    with pytest.raises(PublicError) as caught:
        await town.culling.keep(60, None)
    assert (caught.value.status, caught.value.message.code) == (409, "NOTHING_IS_CULLED")


async def test_nobody_measures_what_nobody_wants_to_know(town: Town) -> None:
    """Where no limit is set, no process is read, and the service is still asked now and then."""
    wants(town, is_wanted=False, park_after_s=900.0)
    town.start("a")
    reads = list[Any]()

    def read_cpu(pids: Any) -> Any:
        reads.append(pids)
        return {}

    town.use._at = replace(town.use._at, read_cpu=read_cpu)
    await town.go(600, HOLDS)
    assert reads == []
    assert town.idle_s() is None
    assert town.culling.park_after_s == 900


async def test_a_kernel_that_does_not_end_holds_up_nobody(town: Town) -> None:
    """The next one is looked after, and people are not told of a loss that did not happen."""
    wants(town, end_kernels_after_s=3600.0)
    town.start("a")
    town.end_fails = True
    await town.go(4000, HOLDS)
    assert (town.ended, town.told()) == ([], [])


async def test_a_cell_in_the_last_seconds_is_told_at_once(town: Town, until: Any) -> None:
    """The hub's next look may come any moment: what people do is not kept until the next testimony."""
    town.start("a")
    wants(town, stops_in_s=200.0, why="IDLE", again_s=15.0)
    await town.go(60, HOLDS)
    town.culling.start()
    try:
        before = len(town.service.heard)
        await until(lambda: len(town.service.heard) > before)  # its first turn
        town.kernels.begin_cell("a")
        town.culling.look()
        await until(lambda: town.idle_s() is None)
    finally:
        await town.culling.stop()


async def test_a_server_that_got_its_share_is_heard_of_at_once(town: Town, until: Any) -> None:
    """It does not wait for the next look; one whose service refused does not ask at every change."""
    town.service.trouble = BrokerAway("not yet")
    town.culling.start()
    try:
        await until(lambda: town.culling._task is not None)
        town.culling.look()
        town.service.trouble = None
        town.culling.look()
        await until(lambda: town.service.heard)
    finally:
        await town.culling.stop()
    town.service.trouble = refusal("route")
    await town.culling.turn()
    town.culling._stir.clear()
    town.culling.look()
    assert not town.culling._stir.is_set()
    town.clock.now += 601
    town.culling.look()
    assert town.culling._stir.is_set()


async def test_a_fault_of_ours_ends_nothing(town: Town, until: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever fails, it is logged, nothing is about to end, and it is tried again."""
    town.start("a")
    wants(town, stops_in_s=200.0, why="IDLE")
    await town.go(40, HOLDS)
    town.service.trouble = RuntimeError("a fault")
    town.culling.start()
    try:
        await until(lambda: town.culling.view() is None)
    finally:
        await town.culling.stop()
    assert "a fault" in caplog.text


@pytest.mark.parametrize(
    ("said_s", "pool_s", "timeout_s"),
    [(None, None, None), (900, None, 900), (900, 600, 600), (300, 600, 300), (None, 600, 600)],
)
async def test_the_shorter_timeout_parks(said_s: float | None, pool_s: float | None, timeout_s: float | None) -> None:
    """Parking is culling's first step: its timeout and the pool's bound each other, and all else is the share's own."""

    class Books(NoBroker):
        def policy(self) -> PoolPolicy | None:
            return None if pool_s is None else PoolPolicy("class", parking="observe", idle_timeout_s=pool_s)

    agreement = Bounded(Books(), lambda: said_s, lambda: "default")
    policy = agreement.policy()
    assert (None if policy is None else policy.idle_timeout_s) == timeout_s
    if pool_s is not None:
        assert policy is not None
        assert policy.parking == "observe"
    assert await agreement.foreign() is None
    assert agreement.clause() is None


CPU_SERVER = {
    "GPUSHARE_CLAIM": "hub:ana/",
    "GPUSHARE_BROKER": "http://127.0.0.1:10203/services/gpushare",
    "JUPYTERHUB_API_TOKEN": "its-own",
}


@pytest.mark.parametrize("changed", [{}, *({name: ""} for name in CPU_SERVER), {"GPUSHARE_BROKER": "unix:/run/b.sock"}])
def test_a_hubs_server_without_a_share_speaks_for_itself(changed: dict[str, str]) -> None:
    """With the hub's name for it and its own token; a server that no hub started has nobody to speak to."""
    found = without_share(CPU_SERVER | changed)
    assert (found is not None) is (changed == {})
    if found is not None:
        assert (found.lease, found.server, found.client.endpoint.token) == ("", "hub:ana/", "its-own")
