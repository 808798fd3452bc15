"""A hub's servers without our extension: nobody names their programs, which say themselves whose they are."""

from __future__ import annotations

import asyncio
import os
import pwd
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.inherited_claims import CLAIM, InheritedClaims
from jupyter_gpushare.broker.roster import Roster
from jupyter_gpushare.broker.sighting import Sighting
from jupyter_gpushare.devices.device import Driver, DriverState
from jupyter_gpushare.devices.environment import Word
from jupyter_gpushare.devices.identity import identify, myself
from jupyter_gpushare.hub import admission
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.lease import Grant, Hold, Kind, Lease, Status
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.session.lease import session as lease_session
from jupyter_gpushare.share import Share
from tests.broker.service.bench import GIB, Bench, never, processes_of, until
from tests.broker.service.hub_town import HubTown, session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from jupyter_gpushare.devices.identity import Identity
    from tests.devices.simulated.conftest import Program

    Play = Callable[[Callable[[Bench], Coroutine[object, object, None]]], None]

KEY = "hub:ana%2F"
NAME = "hub:ana/"


@pytest.fixture(name="town")
def _town(bench: Bench) -> HubTown:
    """A hub's broker with one device."""
    return HubTown(bench)


def allocating(bench: Bench, **environ: str) -> Program:
    """A program that holds a GiB."""
    program = bench.program(**environ)
    assert program.run("buffer = cuda.allocate(1 << 30)") == "None"
    return program


async def foreign_and_held(bench: Bench, lease: str) -> tuple[int, int]:
    """Bytes of nobody, and of *lease*, on the first device; what the books call foreign is no less than that."""
    seen = await bench.broker.evidence.look()
    foreign = seen.foreign[bench.device]
    await until(lambda: bool(bench.broker.reconciler.snapshot.devices[bench.device].foreign) is bool(foreign))
    return foreign, seen.held.get(lease, {}).get(bench.device) or 0


def test_programs_of_a_server_without_us_are_its_leases(town: HubTown, play: Play) -> None:
    """Each that is started there counts for the grant, whichever comes first; and it is counted once."""

    async def story(bench: Bench) -> None:
        lease = (await town.start(KEY)).claim.lease.id
        allocating(bench, **{CLAIM: NAME})
        foreign, first = await foreign_and_held(bench, lease)
        assert (foreign, first >= GIB) == (0, True)
        allocating(bench, **{CLAIM: NAME})
        foreign, both = await foreign_and_held(bench, lease)
        assert (foreign, both) == (0, 2 * first)
        figures = (await town.ask("GET", "metrics", "admin")).body.decode().splitlines()
        assert [line for line in figures if "gpushare_devices_over_committed" in line][-1].endswith(" 0.0")
        assert any("gpushare_gpus" in line and 'use="foreign"' in line and line.endswith(" 0.0") for line in figures)

    play(story)


def test_the_end_of_a_program_is_not_the_end_of_its_server(town: HubTown, play: Play) -> None:
    """The hub's word keeps the share; a new program, and one that a new broker finds, count for it as well."""

    async def story(bench: Bench) -> None:
        lease = (await town.start(KEY, reserve_s=600)).claim.lease.id
        program = allocating(bench, **{CLAIM: NAME})
        assert (await foreign_and_held(bench, lease))[0] == 0
        program.kill()
        await bench.broker.evidence.look()
        assert bench.broker.desk.roster.is_dead(lease)
        await never(lambda: bench.lease(lease) is None, 2.0)
        await bench.stop()
        allocating(bench, **{CLAIM: NAME})
        await bench.start()
        foreign, held = await foreign_and_held(bench, lease)
        assert (foreign, held >= GIB) == (0, True)
        assert (await town.ask("DELETE", f"claims/{KEY}?person=ana")).status == 204
        await bench.broker.evidence.look()
        foreign = await until(lambda: bench.broker.books.devices[bench.device].foreign)
        assert foreign.gpus > 0.25, "what it leaves behind is nobody's"

    play(story)


@pytest.mark.parametrize("environ", [{}, {CLAIM: "hub:bo/"}, {CLAIM: ""}, {CLAIM: f"{NAME}more"}])
def test_who_names_no_claim_of_the_hubs_is_foreign(town: HubTown, play: Play, environ: dict[str, str]) -> None:
    """Without the variable, or with a key that no lease has, it is nobody's, as it was."""

    async def story(bench: Bench) -> None:
        lease = (await town.start(KEY)).claim.lease.id
        allocating(bench, **environ)
        foreign, held = await foreign_and_held(bench, lease)
        assert (foreign >= GIB, held) == (True, 0)

    play(story)


def test_another_users_process_is_not_counted(bench: Bench, play: Play) -> None:
    """Where people are users of the machine, a process that names another's claim under its own user is foreign."""
    other = next(each.pw_name for each in pwd.getpwall() if each.pw_uid not in (0, os.getuid()))
    town = HubTown(bench, f'[projects.team]\nquota = "2"\nmembers = ["{other}"]\n')
    bench.settings = replace(bench.settings, unix_users=True)

    async def story(bench: Bench) -> None:
        lease = (await town.start(f"hub:{other}%2F", person=other)).claim.lease.id
        allocating(bench, **{CLAIM: f"hub:{other}/"})
        foreign, held = await foreign_and_held(bench, lease)
        assert (foreign >= GIB, held) == (True, 0)

    play(story)


def test_a_claim_that_the_hub_did_not_make_takes_nobody(town: HubTown, play: Play) -> None:
    """Whoever holds a key like the hub's with a token of theirs has nothing counted there that names it."""

    async def story(bench: Bench) -> None:
        lease = (await town.put(KEY, "ana")).claim.lease.id
        allocating(bench, **{CLAIM: NAME})
        foreign, held = await foreign_and_held(bench, lease)
        assert (foreign >= GIB, held) == (True, 0)

    play(story)


def test_a_holder_says_itself_whose_its_processes_are(town: HubTown, play: Play) -> None:
    """From its first hello on environments say nothing; what they have said stays true of processes that live."""

    async def story(bench: Bench) -> None:
        claim = (await town.start(KEY)).claim
        allocating(bench, **{CLAIM: NAME})
        foreign, first = await foreign_and_held(bench, claim.lease.id)
        assert (foreign, first >= GIB) == (0, True)
        server = bench.program()
        holding = town.client(claim.token).hold(session(NAME), processes_of(server.pid))
        granted = await asyncio.wait_for(holding.granted(), 60)
        assert granted.id == claim.lease.id
        assert set(bench.broker.desk.roster.roots()) == {identify(server.pid)}
        allocating(bench, **{CLAIM: NAME})
        assert await foreign_and_held(bench, granted.id) == (first, first)
        await holding.close()

    play(story)


def test_it_is_the_variable_that_the_hub_sets() -> None:
    """The hub's hook, a server of ours and the broker mean the same one."""
    assert {CLAIM} == {admission.CLAIM, lease_session.CLAIM}


def lease_of(person: str) -> Lease:
    """A granted claim of the hub's."""
    return Lease(
        id=f"lease-of-{person}",
        kind=Kind.INTERACTIVE,
        project="team",
        person=person,
        name="server",
        share=Share.parse("0.5"),
        submitted=1.0,
        since=1.0,
        key=f"hub:{person}/",
        status=Status.GRANTED,
        grants=(Grant("GPU-1", Fraction.ONE),),
        hold=Hold(9e9, is_starting=True),
    )


BOOKS = Snapshot.of(leases=[lease_of("ana"), lease_of("root")])


def sight(*strangers: Identity) -> Sighting:
    """A look that shows these of no lease."""
    return Sighting(1.0, Driver("simulated", DriverState.READY), strangers={"GPU-1": frozenset(strangers)})


def test_each_stranger_is_asked_once_while_it_is_there() -> None:
    """A look costs nothing more once all are known; who is gone is forgotten, and a hundred at most are read at once."""
    claims, me = InheritedClaims(Roster(), lambda _: None), myself()
    other = me._replace(start=me.start + 1)
    assert claims.unread(sight(me, other), Snapshot.of()) == []
    assert set(claims.unread(sight(me, other), BOOKS)) == {me, other}
    assert not claims.take({me: Word("", os.geteuid()), other: Word("hub:bo/", os.geteuid())}, BOOKS)
    assert claims.unread(sight(me, other), BOOKS) == []
    assert claims.unread(sight(me), BOOKS) == []
    assert claims.unread(sight(me, other), BOOKS) == [other]
    assert len(claims.unread(sight(*(me._replace(pid=pid) for pid in range(1, 1000))), BOOKS)) == 100


def test_the_superusers_lease_takes_only_the_superusers_processes() -> None:
    """Root may speak for everybody; a process that names root's claim is not root."""
    roster, me = Roster(), myself()
    claims = InheritedClaims(roster, lambda person: 0 if person == "root" else None)
    claims.unread(sight(me), BOOKS)
    assert not claims.take({me: Word("hub:root/", 4711)}, BOOKS)
    assert not roster.roots()


def test_what_is_a_lease_s_already_is_no_others() -> None:
    """A process that a holder named stays its lease's, whatever its environment says."""
    roster, me = Roster(), myself()
    roster.put("job", [me])
    claims = InheritedClaims(roster, lambda _: None)
    assert not claims.take({me: Word(NAME, os.geteuid())}, BOOKS)
    assert roster.roots() == {me: "job"}


def test_those_of_a_holder_that_are_looked_for_are_not_lost() -> None:
    """A holder in a container has just named its own: a search for them goes on, and only its word counts."""
    roster, me = Roster(), myself()
    roster.put("lease-of-ana", [me], namespace=1)
    claims = InheritedClaims(roster, lambda _: None)
    assert not claims.take({me: Word(NAME, os.geteuid())}, BOOKS)
    assert roster.unfound()
    assert not roster.roots()


def test_the_dead_are_not_kept_beside_the_living(bench: Bench) -> None:
    """A server that starts programs for weeks has no list that grows for weeks."""
    roster, programs = Roster(), [bench.program() for _ in range(3)]
    found = [identify(each.pid) for each in programs]
    for program, who in zip(programs, found, strict=True):
        assert who is not None
        assert roster.join("lease-of-ana", [who])
        assert not roster.join("lease-of-ana", [who])
        if who is not found[-1]:
            program.kill()
    assert list(roster.roots()) == found[-1:]
    asyncio.run(bench.close())
