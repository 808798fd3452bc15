"""Claims that a hub holds for servers to come: reserved, waited for, joined, let go; and never left behind."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.rules.invariants import violations
from jupyter_gpushare.rules.lease import Status
from tests.broker.service.bench import GIB, Bench, never, processes_of, until
from tests.broker.service.hub_town import HubTown, session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

KEY = "hub:ana%2F"
NAME = "hub:ana/"


@pytest.fixture(name="town")
def _town(bench: Bench) -> HubTown:
    """A hub's broker with one device."""
    return HubTown(bench)


def test_a_granted_claim_is_joined_by_its_server(town: HubTown, play: Play) -> None:
    """The server that says hello with the claim's key and token has that very lease, and parks like any other."""

    async def story(bench: Bench) -> None:
        answer = await town.start(KEY)
        assert answer.status == 201
        assert answer.claim.lease.status == "granted"
        assert answer.claim.hold is not None
        assert answer.claim.hold.is_starting
        holding = town.client(answer.claim.token).hold(session(NAME), processes_of(os.getpid()))
        lease = await asyncio.wait_for(holding.granted(), 60)
        assert lease.id == answer.claim.lease.id
        holding.did("running", lease.epoch)
        await holding.until(lambda each: each.status == "running")
        assert (await town.ask("GET", f"claims/{KEY}?person=ana")).claim.hold is None
        holding.want("parked", GIB)
        parking = await holding.until(lambda each: each.status == "parking")
        holding.did("released", parking.epoch)
        await holding.until(lambda each: each.status == "parked")
        await holding.close()

    play(story)


def test_the_same_claim_again_is_the_same_lease(town: HubTown, play: Play) -> None:
    """A hook that is tried again, or two at once, make one lease; the second answer has the token too."""

    async def story(bench: Bench) -> None:
        answers = await asyncio.gather(*(town.start(KEY) for _ in range(8)))
        assert {answer.status for answer in answers} <= {200, 201}
        assert len({answer.claim.lease.id for answer in answers}) == 1
        assert len({answer.claim.token for answer in answers}) == 1
        assert len(bench.broker.books.leases) == 1

    play(story)


def test_a_share_that_nobody_comes_for_is_free_again(town: HubTown, play: Play) -> None:
    """A server that never connects keeps its grant for `reserve_s`, and then the audit says why it ended."""

    async def story(bench: Bench) -> None:
        answer = await town.start(KEY, reserve_s=1)
        await until(lambda: not bench.broker.books.leases)
        lines = bench.broker._ledger.audit(where={"lease": answer.claim.lease.id, "verb": "ended"})  # type: ignore[union-attr]  # it is open
        assert [line.entry.reason for line in lines] == ["NOT_TAKEN_UP"]
        assert (await town.start(KEY)).status == 201

    play(story)


def test_without_room_and_without_waiting_nothing_is_left_and_nobody_yields(town: HubTown, play: Play) -> None:
    """A start that cannot have its share now says why, and the training that might have made room goes on."""

    async def story(bench: Bench) -> None:
        wish = session("job", kind="training", project="spare", share="1", grace_s=5.0)
        job = town.client("bo").hold(wish, processes_of(os.getpid()))
        lease = await asyncio.wait_for(job.granted(), 60)
        job.did("running", lease.epoch)
        await job.until(lambda each: each.status == "running")
        answer = await town.start(KEY)
        assert (answer.status, answer.code) == (409, "WAITING_FOR_CALL_BACK")
        assert [each.person for each in bench.broker.books.leases.values()] == ["bo"]
        assert bench.lease(lease.id).status is Status.RUNNING
        assert not bench.lease(lease.id).is_called
        waits = await town.put(KEY, wait=True)
        assert waits.status == 202
        await job.until(lambda each: each.status == "parking")
        await job.close()

    play(story)


def test_who_may_never_have_it_is_told_at_once(town: HubTown, play: Play) -> None:
    """Over quota, no member, no such share: refused whether or not somebody would wait."""

    async def story(bench: Bench) -> None:
        for words, code in (
            ({"share": "4x1"}, "EXCEEDS_PROJECT_QUOTA"),
            ({"project": "other"}, "NOT_A_MEMBER"),
            ({"project": "nobody's"}, "NO_SUCH_PROJECT"),
            ({"share": "1@h100"}, "NO_SUCH_DEVICE"),
            ({"pool": "none"}, "NO_SUCH_POOL"),
        ):
            for wait in (False, True):
                answer = await town.put(KEY, wait=wait, **words)
                assert (answer.status, answer.code) == (409, code)
        assert not bench.broker.books.leases

    play(story)


def test_a_claim_waits_as_long_as_somebody_looks(town: HubTown, play: Play) -> None:
    """Its place is told; kept alive it outlives its own patience, and when nobody looks any more it is free."""

    async def story(bench: Bench) -> None:
        await town.start("one", share="1")
        waiting = await town.put(KEY, who="ana", wait=True, for_s=2)
        assert (waiting.status, waiting.claim.lease.status, waiting.claim.lease.place) == (202, "queued", 1)
        assert waiting.claim.hold is not None
        first = waiting.claim.hold.until
        while bench.broker.clock.now() < first + 1:
            assert (await town.alive(KEY, who="ana", for_s=2)).status == 200
            await asyncio.sleep(0.2)
        assert (await town.ask("GET", f"claims/{KEY}", "ana")).claim.lease.status == "queued"
        await until(lambda: len(bench.broker.books.leases) == 1)
        assert (await town.alive(KEY, who="ana")).status == 404

    play(story)


def test_a_claim_that_waited_is_granted_and_then_confirmed(town: HubTown, play: Play) -> None:
    """The share that becomes free is kept for who waits; starting is what the hub says, and only then."""

    async def story(bench: Bench) -> None:
        await town.start("one", share="1")
        await town.put(KEY, who="ana", wait=True)
        # What is asked for again without waiting keeps its place in line.
        assert (await town.start(KEY)).code == "WAITING_FOR_DEVICE"
        assert (await town.ask("DELETE", "claims/one?person=ana")).status == 204
        await until(lambda: any(lease.status is Status.GRANTED for lease in bench.broker.books.leases.values()))
        granted = await town.ask("GET", f"claims/{KEY}", "ana")
        assert granted.claim.hold is not None
        assert not granted.claim.hold.is_starting
        confirmed = await town.start(KEY, reserve_s=500)
        assert (confirmed.status, confirmed.claim.lease.id) == (200, granted.claim.lease.id)
        assert confirmed.claim.hold is not None
        assert confirmed.claim.hold.is_starting
        # A wait page that is still open changes nothing about a server that starts.
        kept = await town.alive(KEY, who="ana", for_s=1)
        assert kept.claim.hold == confirmed.claim.hold

    play(story)


def test_a_grant_is_not_kept_for_ever_by_an_open_page(town: HubTown, play: Play) -> None:
    """However often somebody says that he looks: after `reserve_s` others have it."""

    async def story(bench: Bench) -> None:
        await town.put(KEY, who="ana", wait=True, reserve_s=2, for_s=60)

        async def look() -> bool:
            return (await town.alive(KEY, who="ana", for_s=60, reserve_s=2)).status == 404

        while not await look():  # noqa: ASYNC110  # it is a page that looks again and again
            await asyncio.sleep(0.1)
        assert not bench.broker.books.leases

    play(story)


def test_a_server_without_our_extension_keeps_its_share_by_the_hubs_word(town: HubTown, play: Play) -> None:
    """The hub sees it run: so long its grant is kept although it never says hello, and the hub's word ends it."""

    async def story(bench: Bench) -> None:
        await town.start(KEY, reserve_s=1)
        kept = await town.alive(KEY, is_running=True, for_s=3600)
        assert kept.claim.hold is not None
        assert kept.claim.hold.until > bench.broker.clock.now() + 3000
        await never(lambda: not bench.broker.books.leases, 2.0)
        await town.ask("DELETE", f"claims/{KEY}?person=ana")
        assert not bench.broker.books.leases

    play(story)


def test_another_share_takes_the_place_of_a_claim_that_is_only_held(town: HubTown, play: Play) -> None:
    """Who picks again before the server runs has the new share, and the old one is free."""

    async def story(bench: Bench) -> None:
        first = await town.put(KEY, wait=True, share="0.25")
        second = await town.start(KEY, share="1")
        assert (second.status, second.claim.lease.share) == (201, "1")
        assert first.claim.lease.id not in bench.broker.books.leases
        assert len(bench.broker.books.leases) == 1

    play(story)


def test_a_running_server_is_not_replaced(town: HubTown, play: Play) -> None:
    """Its claim again is its own lease; for another project or pick it is refused, and nothing is taken from it."""

    async def story(bench: Bench) -> None:
        token = (await town.start(KEY)).claim.token
        holding = town.client(token).hold(session(NAME), processes_of(os.getpid()))
        lease = await asyncio.wait_for(holding.granted(), 60)
        holding.did("running", lease.epoch)
        await holding.until(lambda each: each.status == "running")
        for again in (await town.start(KEY), await town.put(KEY, wait=True, share="0.25")):
            assert (again.status, again.claim.lease.id, again.claim.hold) == (200, lease.id, None)
        for other in (await town.start(KEY, project="other"), await town.start(KEY, share="0.25")):
            assert (other.status, other.code) == (409, "KEY_IN_USE")
        assert bench.lease(lease.id).status is Status.RUNNING
        await holding.close()

    play(story)


@pytest.mark.parametrize("is_there", [False, True])
def test_what_was_held_beforehand_is_not_what_was_picked(town: HubTown, play: Play, is_there: bool) -> None:  # noqa: FBT001
    """Whoever holds the hub's own key with a token of theirs gets no server with more than the hub lets them pick."""

    async def story(bench: Bench) -> None:
        if is_there:
            holding = town.client("ana").hold(session(NAME, share="1"), processes_of(os.getpid()))
            await asyncio.wait_for(holding.granted(), 60)
        else:
            assert (await town.put(KEY, "ana", share="1")).claim.lease.share == "1"
        answer = await town.start(KEY, share="0.25")
        if is_there:
            assert (answer.status, answer.code) == (409, "KEY_IN_USE")
            await holding.close()
        else:
            assert (answer.status, answer.claim.lease.share) == (201, "0.25")
        shares = {str(each.share) for each in bench.broker.books.leases.values()}
        assert shares == ({"1"} if is_there else {"0.25"})

    play(story)


def test_a_server_that_stopped_makes_room_for_the_next_of_its_name(town: HubTown, play: Play) -> None:
    """After its end the same name is claimed anew, as soon as the devices show that nothing of the old one is left."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        token = (await town.start(KEY)).claim.token
        holding = town.client(token).hold(session(NAME), processes_of(program.pid))
        lease = await asyncio.wait_for(holding.granted(), 60)
        program.run("buffer = cuda.allocate(1 << 28)")
        holding.did("running", lease.epoch)
        await holding.until(lambda each: each.status == "running")
        await holding.close()
        program.close()
        assert (await town.ask("DELETE", f"claims/{KEY}?person=ana")).status == 204
        again = await town.start(KEY)
        assert again.status == 201
        assert again.claim.lease.id != lease.id
        assert not violations(bench.broker.books)

    play(story)


def test_ending_what_is_not_there_is_no_error(town: HubTown, play: Play) -> None:
    """A hook that ends twice, or after somebody else did, hears that it is done."""

    async def story(bench: Bench) -> None:
        await town.start(KEY)
        for _ in range(3):
            assert (await town.ask("DELETE", f"claims/{KEY}?person=ana")).status == 204
        assert not bench.broker.books.leases
        assert (await town.ask("GET", f"claims/{KEY}?person=ana")).status == 404

    play(story)


def test_the_owner_may_end_a_claim_that_is_held(town: HubTown, play: Play) -> None:
    """By the lease's own route too: nobody is there who would have to let go of a device first."""

    async def story(bench: Bench) -> None:
        lease = (await town.start(KEY)).claim.lease
        assert (await town.ask("DELETE", f"leases/{lease.id}", "ana")).status == 202
        assert not bench.broker.books.leases

    play(story)


def test_all_claims_can_be_compared_with_a_hubs_servers(town: HubTown, play: Play) -> None:
    """The list has every key with its hold, and those of the prefix alone."""

    async def story(bench: Bench) -> None:
        await town.start(KEY)
        await town.put("hub:bo%2F", person="bo", wait=True, share="0.25")
        await town.put("another", person="bo", wait=True, share="0.25")
        claims = (await town.ask("GET", "claims?prefix=hub:")).of(hub_wire.ClaimsAnswer).claims
        assert [(each.key, each.person, each.hold and each.hold.is_starting) for each in claims] == [
            (NAME, "ana", True),
            ("hub:bo/", "bo", False),
        ]

    play(story)


def test_a_lease_token_that_is_over_makes_no_new_claim(town: HubTown, play: Play) -> None:
    """A server that is late by more than `reserve_s` is told so; it does not get its share back by its old token."""

    async def story(bench: Bench) -> None:
        token = (await town.start(KEY, reserve_s=1)).claim.token
        await until(lambda: not bench.broker.books.leases)
        holding = town.client(token).hold(session(NAME), processes_of(os.getpid()))
        await asyncio.wait_for(holding.over(), 60)
        assert holding.refusal is not None
        assert not bench.broker.books.leases
        await holding.close()

    play(story)
