"""Culling inside a hub's service: what sessions testify, what they hear, who may ask, and what stands in the audit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.access import Role
from jupyter_gpushare.broker.cull_policy import CullPolicy
from jupyter_gpushare.hub.culling import arbiter
from jupyter_gpushare.hub.culling.__main__ import CullingApp
from jupyter_gpushare.hub.culling.evidence_link import EvidenceLink
from jupyter_gpushare.hub.culling.handlers import ACCESS
from jupyter_gpushare.hub.culling.hub_servers import HubServers
from jupyter_gpushare.hub.culling.rounds import Rounds
from jupyter_gpushare.hub.culling.verdict import Why
from jupyter_gpushare.hub.culling.wire import Stop
from jupyter_gpushare.hub.service.calling import caller_of
from jupyter_gpushare.hub.service.hub_rest import Identified
from jupyter_gpushare.hub.service.standing import standing_of
from jupyter_gpushare.session.culling import messages
from tests.broker.service.bench import until
from tests.broker.service.hub_town import session

from .culling_town import HOUR, POLICY, Watched
from .small_hub import TOKEN, SmallHub

if TYPE_CHECKING:
    from .culling_town import CullingTown


def test_a_session_hears_what_will_become_of_it(play: Any) -> None:
    """Each limit of the admin's file reaches it, and the stop only once it is idle."""

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        heard = await town.outlook(claim.token)
        assert (heard.park_after_s, heard.end_kernels_after_s, heard.warning_s) == (900, 2 * HOUR, 600)
        assert heard.is_wanted
        assert heard.stops_in_s is None
        heard = await town.outlook(claim.token, idle_s=600.0)
        assert heard.stops_in_s == pytest.approx(3000, abs=5)
        assert (heard.why, heard.again_s) == ("IDLE", 60)

    play(story)


def test_nobody_is_stopped_without_the_whole_warning(play: Any) -> None:
    """What is overdue all at once, as after a restart of the service, is warned of from then on, and stopped after."""

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        stop = Stop("ana", "", Why.IDLE)
        heard = await town.outlook(claim.token, idle_s=9 * HOUR)
        assert heard.stops_in_s == pytest.approx(600, abs=5)
        assert heard.again_s == 15
        assert await town.announce(stop) == {"ana": "WARNING"}
        town.clock.ahead_s = 599 - 5
        await town.outlook(claim.token, idle_s=9 * HOUR)
        assert await town.announce(stop) == {"ana": "WARNING"}
        town.clock.ahead_s = 606
        await town.outlook(claim.token, idle_s=9 * HOUR)
        assert await town.announce(stop) == {}

    play(story)


def test_keep_and_use_put_it_off(play: Any) -> None:
    """A lock, a cell or silence since the evidence was gathered is noticed when the stop is announced."""

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        stop = Stop("ana", "", Why.IDLE)
        await town.outlook(claim.token, idle_s=9 * HOUR)
        town.clock.ahead_s = 700
        heard = await town.outlook(claim.token, idle_s=9 * HOUR, kept_s=HOUR)
        assert heard.stops_in_s == pytest.approx(HOUR + 600, abs=5)
        assert await town.announce(stop) == {"ana": "NOT_YET"}
        await town.outlook(claim.token)
        assert await town.announce(stop) == {"ana": "IN_USE"}
        await town.outlook(claim.token, idle_s=9 * HOUR)
        town.clock.ahead_s += 700
        assert await town.announce(stop) == {"ana": "IN_USE"}, "what it said last is too old to be evidence"

    play(story)


def test_whose_share_is_kept_is_known_until_then(play: Any) -> None:
    """By what its server said last, and of no other server: news tell nobody that it will be parked."""

    async def story(town: CullingTown) -> None:
        claim, other = await town.serve(), await town.serve("hub:bo/", "bo")
        leases, witnesses = town.bench.broker.books.leases, town.culling.witnesses
        assert not witnesses.is_kept(leases[claim.lease.id])
        await town.outlook(claim.token, idle_s=60.0, kept_s=HOUR)
        await town.outlook(other.token, idle_s=60.0)
        assert [witnesses.is_kept(leases[each.lease.id]) for each in (claim, other)] == [True, False]
        town.clock.ahead_s = HOUR + 1
        assert not witnesses.is_kept(leases[claim.lease.id])

    play(story)


def test_when_a_share_is_parked_its_server_knows(play: Any) -> None:
    """By what it said last: a time, or never; an older server says nothing of it, and a silent one nothing of now."""

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        lease, witnesses = town.bench.broker.books.leases[claim.lease.id], town.culling.witnesses
        assert witnesses.parks_at(lease) is msgspec.UNSET
        await town.outlook(claim.token, idle_s=60.0, parks_s=90)
        assert witnesses.parks_at(lease) == pytest.approx(town.clock.now() + 90, abs=5)
        await town.outlook(claim.token, idle_s=60.0, parks_s=None)
        assert witnesses.parks_at(lease) is None
        town.clock.ahead_s = 300
        assert witnesses.parks_at(lease) is msgspec.UNSET
        await town.outlook(claim.token, idle_s=60.0)
        assert witnesses.parks_at(lease) is msgspec.UNSET

    play(story)


def test_a_stop_is_in_the_audit_before_it_happens(play: Any) -> None:
    """The lease's line names the loss, the reason and who did it; the figures count it; others read no name in it."""

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        await town.outlook(claim.token, idle_s=9 * HOUR)
        town.clock.ahead_s = 700
        await town.outlook(claim.token, idle_s=9 * HOUR)
        assert await town.announce(Stop("ana", "", Why.IDLE), Stop("zoe", "", Why.TOO_OLD)) == {}
        audit = await town.ask("GET", f"audit?verb=loss&lease={claim.lease.id}", "admin")
        assert b'"loss":"server_stopped_while_idle"' in audit.body
        assert b'"by":"culler"' in audit.body
        figures = (await town.ask("GET", "metrics", "admin")).body
        assert b'gpushare_culled_servers_total{why="IDLE"} 1.0' in figures
        assert b'gpushare_culled_servers_total{why="TOO_OLD"} 1.0' in figures

    play(story)


def test_what_is_no_reason_stops_nobody(play: Any) -> None:
    """A culler that names a reason to go on, or one that is none, is refused."""

    async def story(town: CullingTown) -> None:
        assert await town.announce(Stop("zoe", "", Why.NOT_YET)) == {"zoe": "NOT_YET is no reason to stop a server"}
        answer = await town.ask(
            "POST", "culling/losses", "culler", {"stops": [{"person": "zoe", "server": "", "why": "X"}]}
        )
        assert answer.status == 400
        assert (await town.ask("POST", "culling/losses", "culler", {"stops": []})).status == 400

    play(story)


def test_evidence_of_every_server_with_a_share(play: Any) -> None:
    """A culler learns the policy, and of each share whose it is, how it stands and what it testified."""

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        await town.serve("hub:bo/second", "bo")
        await town.outlook(claim.token, idle_s=600.0, kept_s=60.0)
        known = await town.evidence()
        assert known.policy.base == POLICY.base
        assert set(known.shares) == {"hub:ana/", "hub:bo/second"}
        ana, bo = known.shares["hub:ana/"], known.shares["hub:bo/second"]
        assert (ana.person, ana.profile, ana.pool, ana.sight.status) == ("ana", "0.5", "default", "running")
        assert ana.sight.speaks
        assert ana.sight.idle_since == pytest.approx(known.at - 600, abs=5)
        assert ana.sight.kept_until == pytest.approx(known.at + 60, abs=5)
        assert not bo.sight.speaks

    play(story)


def test_another_cullers_timeout_is_warned_of(play: Any) -> None:
    """Where the admin's file sets no limit, the idle culler's own is what people are told, as long as it asks."""

    async def story(town: CullingTown) -> None:
        town.policy = CullPolicy()
        claim = await town.serve()
        assert not (await town.outlook(claim.token, idle_s=60.0)).is_wanted
        await town.ask("GET", "culling/evidence?stop_after=7200", "culler")
        heard = await town.outlook(claim.token, idle_s=60.0)
        assert heard.stops_in_s == pytest.approx(7140, abs=5)
        town.clock.ahead_s = 5 * HOUR
        assert (await town.outlook(claim.token, idle_s=60.0)).stops_in_s is None

    play(story)


@pytest.mark.parametrize("text", ["soon", "0", "-5", "nan", "inf", "1e99"])
def test_a_timeout_that_is_none_is_refused(play: Any, text: str) -> None:
    """The refusal names the field, and nothing is expected of that culler."""

    async def story(town: CullingTown) -> None:
        answer = await town.ask("GET", f"culling/evidence?stop_after={text}", "culler")
        assert answer.status == 400
        assert b'"field":"stop_after"' in answer.body

    play(story)


def test_who_may_do_what(play: Any) -> None:
    """Every route for everybody: a session speaks for its own lease alone, and only cullers see and stop."""
    # route, verb, body; then nobody, the lease, its owner, another person, the hub, an admin, a culler, a reader.
    testimony, losses = {"idle_s": 5.0}, {"stops": [Stop("zoe", "", Why.IDLE)]}
    table: list[tuple[str, str, Any, list[int]]] = [
        ("culling/testimony", "PUT", testimony, [401, 200, 404, 404, 403, 404, 403, 403]),
        ("culling/testimony", "PUT", testimony | {"lease": "{lease}"}, [401, 200, 200, 404, 403, 404, 403, 403]),
        ("culling/testimony", "PUT", testimony | {"lease": "L-1"}, [401, 404, 404, 404, 403, 404, 403, 403]),
        ("culling/evidence", "GET", None, [401, 403, 403, 403, 200, 200, 200, 403]),
        ("culling/evidence?stop_after=60", "GET", None, [401, 403, 403, 403, 200, 200, 200, 403]),
        ("culling/losses", "POST", losses, [401, 403, 403, 403, 200, 200, 200, 403]),
        ("culling/losses", "GET", None, [405] * 8),
        ("culling/testimony", "GET", None, [405] * 8),
    ]

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        callers = ["", claim.token, "ana", "bo", "hub", "admin", "culler", "reader"]
        for path, verb, body, expected in table:
            said = body
            if isinstance(body, dict) and body.get("lease") == "{lease}":
                said = body | {"lease": claim.lease.id}
            seen = [(await town.ask(verb, path, who, said)).status for who in callers]
            assert seen == expected, (path, verb)

    play(story)
    assert set(ACCESS) == {(row[0].partition("?")[0], row[1]) for row in table if row[3] != [405] * 8}
    assert Role.NOBODY not in frozenset().union(*ACCESS.values())


@pytest.mark.parametrize(
    ("scope", "expected"),
    [("custom:gpushare:read", 403), ("custom:gpushare:write", 403), ("custom:gpushare:admin", 200)],
)
def test_a_culler_needs_the_scope_that_every_page_names(play: Any, scope: str, expected: int) -> None:
    """What the hub says of a service's token decides; who reads names, or stops servers, is an admin's choice."""
    standing = standing_of(Identified("other", "service", scopes=[scope]), "gpushare", (), is_browser=False)

    async def story(town: CullingTown) -> None:
        town.services["other"] = caller_of(standing)
        stops = {"stops": [Stop("zoe", "", Why.IDLE)]}
        asked = (("GET", "culling/evidence", None), ("POST", "culling/losses", stops))
        assert [(await town.ask(verb, path, "other", body)).status for verb, path, body in asked] == [expected] * 2

    play(story)


def test_every_page_names_the_scope_of_a_culler() -> None:
    """The admin reads the same in the docs, in the hook's own words and in ``--help``."""
    docs = Path(__file__).parents[3] / "docs"
    pages = [(docs / name).read_text() for name in ("culling.md", "hub-how-to.md")]
    for text in (*pages, str(arbiter.__doc__), str(CullingApp.__doc__)):
        assert "custom:gpushare:admin" in text
        assert "custom:gpushare:write" not in text


CRAFTED = [
    b"", b"[]", b"{", b"\xff", b'{"idle_s": -1}', b'{"idle_s": 1e300}', b'{"idle_s": "long"}', b'{"kept_s": NaN}',
    b'{"lease": 5}', b'{"age_s": true}', b'{"lease": "' + b"x" * 5000 + b'"}',
]  # fmt: skip


def test_crafted_testimony_changes_nothing(play: Any) -> None:
    """What cannot be read is refused with its field; an empty one is a testimony of nothing."""

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        for body in CRAFTED:
            answer = await town.ask("PUT", "culling/testimony", claim.token, body)
            assert answer.status == (200 if body == b"" else 400), body
        assert (await town.evidence()).shares["hub:ana/"].sight.idle_since is None

    play(story)


def test_a_key_that_names_anothers_server_is_ignored(play: Any) -> None:
    """Ana's session claims under the name of Bo's server: nothing that she testifies concerns him."""

    async def story(town: CullingTown) -> None:
        holding = town.client("ana").hold(session("hub:bo/"), [])
        town.bench._holdings.append(holding)
        lease = await asyncio.wait_for(holding.granted(), 60)
        await town.outlook(holding.token, idle_s=9 * HOUR)
        assert lease.person == "ana"
        assert (await town.evidence()).shares == {}

    play(story)


def test_a_culler_of_its_own_process_goes_the_whole_way(play: Any) -> None:
    """Evidence, announcement and stop, over HTTP alone, as on another machine."""

    async def story(town: CullingTown) -> None:
        claim, hub = await town.serve(), SmallHub()
        await town.outlook(claim.token, idle_s=9 * HOUR)
        town.clock.ahead_s = 700
        await town.outlook(claim.token, idle_s=9 * HOUR)
        now = town.clock.now()
        hub.add("ana", active=now, started=now - 10 * HOUR)
        hub.add("zoe", active=now - 2 * HOUR, started=now - 10 * HOUR)
        environ = {"GPUSHARE_BROKER": f"{town.url}/services/gpushare", "GPUSHARE_BROKER_TOKEN": "culler"}
        with hub.serving():
            seen = await Rounds(HubServers(hub.url, TOKEN), EvidenceLink.of(environ)).once()
            assert set(hub.stopped) == {"ana/", "zoe/"}, seen
            hub.stopped.clear()
            environ["GPUSHARE_BROKER_TOKEN"] = "reader"
            seen = await Rounds(HubServers(hub.url, TOKEN), EvidenceLink.of(environ)).once()
        assert (hub.stopped, seen.stopped, seen.went_on) == ([], [], []), "who may only look is told of nobody's server"

    play(story)


def test_the_service_takes_rounds_itself(play: Any) -> None:
    """Where the admin wants it, from the moment on when they do; inside the service only the hub is asked."""

    async def story(town: CullingTown) -> None:
        hub, now = SmallHub(), town.clock.now()
        hub.add("zoe", active=now - 2 * HOUR, started=now - 10 * HOUR)
        with hub.serving():
            town.hub, town.policy = hub, replace(town.policy, has_rounds=False)
            await town.bench.stop()
            await town.bench.start()
            seen = Watched(town.culling.announcer)
            town.culling._rounds._source = seen  # type: ignore[union-attr]  # there is a hub
            town.culling.start()
            await until(lambda: seen.asked >= 3)
            assert hub.asked == 0
            town.policy = replace(town.policy, has_rounds=True)
            await until(lambda: hub.stopped)
            await town.culling.stop()

    play(story)


def test_the_admins_file_decides(play: Any) -> None:
    """What stands in gpushare.toml holds, and what stands there after it was changed and read again."""

    async def story(town: CullingTown) -> None:
        assert town.in_the_file() == CullPolicy()
        town.file.write_text(town.file.read_text() + '[culling]\nstop_after = "3h"\n')
        await town.bench.broker.reload()
        assert town.in_the_file().base.stop_after_s == 3 * HOUR

    play(story)


def test_both_sides_say_the_same() -> None:
    """The session's own types, which know nothing of a hub, have the fields and the route of the service's."""
    from jupyter_gpushare.hub.culling import wire

    assert messages.TESTIMONY == wire.TESTIMONY
    for name in ("Testimony", "Outlook"):
        assert getattr(messages, name).__struct_fields__ == getattr(wire, name).__struct_fields__


def test_a_server_without_a_share_is_warned_too(play: Any) -> None:
    """It speaks for itself by the hub's name for it, is stopped by its own word, and nobody speaks for another's."""

    async def story(town: CullingTown) -> None:
        assert (await town.testify("ana", server="hub:bo/", idle_s=5.0)).status == 404
        heard = await town.outlook("ana", server="hub:ana/second", idle_s=9 * HOUR)
        assert heard.stops_in_s == pytest.approx(600, abs=5)
        known = (await town.evidence()).shares["hub:ana/second"]
        assert (known.person, known.profile, known.sight.status) == ("ana", "none", "none")
        stop = Stop("ana", "second", Why.IDLE)
        assert await town.announce(stop) == {"ana": "WARNING"}
        town.clock.ahead_s = 700
        await town.outlook("ana", server="hub:ana/second", idle_s=9 * HOUR, kept_s=60.0)
        assert await town.announce(stop) == {"ana": "NOT_YET"}
        town.clock.ahead_s = 1500
        await town.outlook("ana", server="hub:ana/second", idle_s=9 * HOUR)
        town.clock.ahead_s = 2200
        await town.outlook("ana", server="hub:ana/second", idle_s=9 * HOUR)
        assert await town.announce(stop) == {}
        town.clock.ahead_s = 9000
        assert (await town.evidence()).shares == {}, "what has been silent for long is gone"

    play(story)
