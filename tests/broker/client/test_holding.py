"""One lease held through whatever happens to the connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.client import BrokerAway, BrokerError
from jupyter_gpushare.broker.wire import (
    CouldNotMessage,
    DidMessage,
    ProcessesMessage,
    ProcessModel,
    RefusedMessage,
    WantMessage,
)
from tests.broker.client.conftest import CLAIM, PROCESS, Bench, until
from tests.broker.client.scripted_broker import granted, lease_of, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]


def test_the_claim_becomes_a_lease_that_is_granted(play: Play) -> None:
    """A holder says who it is first, and `granted` waits for its devices, not merely for an answer."""

    async def story(bench: Bench) -> None:
        holding = await bench.held()
        assert bench.broker.hellos[0].claim == CLAIM
        assert bench.broker.hellos[0].processes == [PROCESS]
        waiting = asyncio.ensure_future(holding.granted())
        bench.broker.tell(place=1)
        await until(lambda: bench.leases[-1].place == 1)
        assert not waiting.done()
        bench.broker.tell(**granted())
        assert (await waiting).grants[0].device == "GPU-0"

    play(story)


def test_a_lost_connection_is_made_again_with_what_is_remembered(play: Play) -> None:
    """After a reconnect the broker hears which lease and epoch this was, with its token, and whether memory is held."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="running", epoch=3))
        holding = await bench.held(is_resident=lambda: True)
        bench.broker.drop()
        await until(lambda: len(bench.broker.hellos) == 2)
        again = bench.broker.hellos[1]
        assert (again.lease.id if again.lease else None, again.epoch, again.is_resident) == ("L1", 3, True)
        assert again.token == "token-of-L1"
        await until(lambda: holding.connected)

    play(story)


def test_what_was_wanted_while_the_broker_was_away_is_said_when_it_is_back(play: Play) -> None:
    """A wish made while nobody hears is not lost, and one that the lease shows is not said again."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="running"))
        holding = await bench.held()
        bench.broker.stop()
        await until(lambda: not holding.connected)
        holding.want("parked", 1 << 30)
        bench.broker.start()
        await until(lambda: WantMessage("parked", 1 << 30) in bench.broker.heard)
        bench.broker.tell(target="parked", status="parking")
        await until(lambda: bench.leases[-1].status == "parking")
        said = len(bench.broker.heard)
        bench.broker.drop()
        await until(lambda: len(bench.broker.hellos) == 3 and holding.connected)
        assert bench.broker.heard[said:] == bench.broker.hellos[-1:]

    play(story)


def test_what_was_done_is_said_again_until_the_lease_shows_it(play: Play) -> None:
    """A release that the broker may not have heard is repeated with its own epoch, but not after a newer one."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="parking", epoch=4, target="parked"))
        holding = await bench.held()
        holding.did("released", 4)
        await until(lambda: DidMessage("released", 4) in bench.broker.heard)
        bench.broker.drop()
        await until(lambda: bench.broker.heard.count(DidMessage("released", 4)) == 2)
        bench.broker.tell(status="resuming", epoch=5, target="running")
        await until(lambda: bench.leases[-1].epoch == 5)
        bench.broker.drop()
        await until(lambda: len(bench.broker.hellos) == 3 and holding.connected)
        assert bench.broker.heard.count(DidMessage("released", 4)) == 2

    play(story)


def test_what_was_done_with_another_lease_is_not_said_of_this_one(play: Play) -> None:
    """After a lease that the broker gave up comes a new one, with the same first epoch: nothing was done with that."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="granted", epoch=1))
        holding = await bench.held()
        holding.did("running", 1)
        await until(lambda: DidMessage("running", 1) in bench.broker.heard)
        bench.broker.lease = lease_of(**granted(id="L2", status="granted", epoch=1))
        bench.broker.drop()
        await until(lambda: bench.leases[-1].id == "L2")
        bench.broker.drop()
        await until(lambda: len(bench.broker.hellos) == 3 and holding.connected)
        assert bench.broker.heard.count(DidMessage("running", 1)) == 1

    play(story)


def test_a_failure_replaces_what_was_said_to_be_done(play: Play) -> None:
    """Only the last word about a step is repeated: never both that it was done and that it could not be."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="parking", epoch=4, target="parked"))
        holding = await bench.held()
        holding.did("released", 4)
        holding.could_not(4, "PARK_FAILED", "The driver refused.")
        bench.broker.drop()
        await until(lambda: len(bench.broker.hellos) == 2 and holding.connected)
        await until(lambda: len(bench.broker.heard) > bench.broker.heard.index(bench.broker.hellos[1]) + 1)
        after = bench.broker.heard[bench.broker.heard.index(bench.broker.hellos[1]) + 1 :]
        assert after == [CouldNotMessage(4, "PARK_FAILED", "The driver refused.")]

    play(story)


@pytest.mark.parametrize("status", ["granted", "resuming", "parking"])
def test_what_was_given_up_stays_given_up_until_the_lease_moves(play: Play, status: str) -> None:
    """A step that the broker undoes as soon as it hears so must not be made after all, however often it is told."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status=status, epoch=4))
        holding = await bench.held()
        assert not holding.has_given_up
        holding.could_not(4, "NOT_PARKABLE", "A thread runs.")
        bench.broker.drop()
        await until(lambda: bench.broker.heard.count(CouldNotMessage(4, "NOT_PARKABLE", "A thread runs.")) > 1)
        bench.broker.tell(deadline=9e9)
        await until(lambda: bench.leases[-1].deadline == 9e9)
        assert holding.has_given_up
        holding.did("released", 4)
        assert holding.has_given_up
        bench.broker.tell(status="parking", epoch=5)
        await until(lambda: bench.leases[-1].epoch == 5)
        assert not holding.has_given_up

    play(story)


def test_what_was_given_up_is_over_when_the_lease_asks_for_something_else(play: Play) -> None:
    """A broker that undid the park without a new epoch, and asks for it again later, is obeyed."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="parking", epoch=4))
        holding = await bench.held()
        holding.could_not(4, "NOT_PARKABLE", "A thread runs.")
        bench.broker.tell(status="running")
        bench.broker.tell(status="parking")
        await until(lambda: [lease.status for lease in bench.leases[-2:]] == ["running", "parking"])
        assert not holding.has_given_up

    play(story)


def test_an_older_epoch_changes_nothing(play: Play) -> None:
    """A reordered message of the past must not call a holder back to what is over."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="resuming", epoch=7))
        holding = await bench.held()
        bench.broker.tell(status="parked", epoch=6)
        bench.broker.tell(status="running", epoch=7)
        await until(lambda: holding.lease and holding.lease.status == "running")
        assert [lease.epoch for lease in bench.leases] == [7, 7]

    play(story)


def test_a_refused_claim_is_not_tried_again(play: Play) -> None:
    """A final no ends the attempts, and whoever waits for the grant hears the reason."""

    async def story(bench: Bench) -> None:
        bench.broker.refuses = RefusedMessage(sentence("NO_SUCH_PROJECT", "There is no project x."), is_final=True)
        holding = bench.hold()
        with pytest.raises(BrokerError, match="There is no project x") as refused:
            await holding.granted()
        assert refused.value.code == "NO_SUCH_PROJECT"
        await until(lambda: holding.is_over)
        assert bench.broker.connections == 1

    play(story)


def test_a_share_changes_live_or_the_reason_is_heard(play: Play) -> None:
    """Whoever asks for another share gets the lease that has it, or the broker's reason, and nobody else does."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="running"))
        holding = await bench.held()
        larger = holding.want_share("0.8")
        await until(lambda: WantMessage(share="0.8") in bench.broker.heard)
        bench.broker.tell(share="0.8")
        assert (await larger).share == "0.8"
        refused = holding.want_share("1")
        await until(lambda: WantMessage(share="1") in bench.broker.heard)
        bench.broker.say(RefusedMessage(sentence("EXCEEDS_PROJECT_QUOTA"), is_final=False))
        with pytest.raises(BrokerError, match="Because"):
            await refused
        assert bench.refusals == []
        bench.broker.drop()
        await until(lambda: len(bench.broker.hellos) == 2)
        assert bench.broker.hellos[1].claim.share == "0.8"

    play(story)


def test_a_share_is_not_asked_for_while_nobody_hears(play: Play) -> None:
    """A change that would come at some later moment surprises: the asker is told at once."""

    async def story(bench: Bench) -> None:
        holding = await bench.held()
        asked = holding.want_share("0.8")
        bench.broker.stop()
        with pytest.raises(BrokerAway):
            await asked
        with pytest.raises(BrokerAway):
            await holding.want_share("0.8")

    play(story)


def test_a_wish_that_is_refused_is_told_once(play: Play) -> None:
    """A refused park is heard by the holder, and not asked for again after a reconnect."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="running"))
        holding = await bench.held()
        holding.want("parked", 5)
        await until(lambda: WantMessage("parked", 5) in bench.broker.heard)
        bench.broker.say(RefusedMessage(sentence("NO_HOST_MEMORY"), is_final=False))
        assert (await until(lambda: bench.refusals))[0].code == "NO_HOST_MEMORY"
        bench.broker.drop()
        await until(lambda: len(bench.broker.hellos) == 2 and holding.connected)
        assert bench.broker.heard[-1] == bench.broker.hellos[1]

    play(story)


def test_computing_is_counted_while_the_broker_is_away(play: Play) -> None:
    """GPU-seconds that nobody could be told are in the next report, so that none are lost or counted twice."""

    async def story(bench: Bench) -> None:
        holding = await bench.held()
        holding.report(100, 1.5)
        await until(lambda: bench.broker.usage)
        bench.broker.stop()
        await until(lambda: not holding.connected)
        holding.report(100, 2.0)
        holding.report(100, 3.0)
        bench.broker.start()
        await until(lambda: holding.connected)
        holding.report(None, 0.5)
        await until(lambda: len(bench.broker.usage) == 2)
        assert [(each.memory, each.computed_s) for each in bench.broker.usage] == [(100, 1.5), (None, 5.5)]

    play(story)


def test_new_processes_are_told_once(play: Play) -> None:
    """The broker hears of a process that came, and nothing while they are the same."""

    async def story(bench: Bench) -> None:
        holding = await bench.held()
        more = [PROCESS, ProcessModel(4712, 9)]
        holding.set_processes(more)
        holding.set_processes(more)
        holding.report(1, None)
        await until(lambda: bench.broker.usage)
        assert bench.broker.heard[1:] == [ProcessesMessage(more)]

    play(story)


@pytest.mark.parametrize("said", ["", "{", '{"type":"lease"}', '{"type":"hello"}', "\u0000", '"x"'])
def test_nonsense_ends_the_connection_and_not_the_holding(play: Play, said: str) -> None:
    """A broker that makes no sense is connected to anew; what was known stays."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="running"))
        holding = await bench.held()
        bench.broker.say_text(said)
        await until(lambda: len(bench.broker.hellos) == 2 and holding.connected)
        assert holding.lease is not None
        assert holding.lease.status == "running"

    play(story)


def test_a_silent_broker_counts_as_away(play: Play) -> None:
    """One that accepts and never welcomes must not make its holders believe that they are heard."""

    async def story(bench: Bench) -> None:
        bench.broker.is_silent = True
        holding = bench.hold()
        await until(lambda: bench.broker.hellos)
        assert not holding.connected
        assert holding.lease is None

    play(story)


def test_ending_waits_until_the_broker_has_heard(play: Play) -> None:
    """A holder that ends says so before it lets go, and does not hang where nobody answers."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="running"))
        holding = await bench.held()
        ending = asyncio.ensure_future(holding.end())
        await until(lambda: WantMessage("ended") in bench.broker.heard)
        assert not ending.done()
        bench.broker.tell(target="ended", status="yielding")
        await ending
        assert holding.is_over
        other = await bench.held()
        await other.end(0.05)
        assert other.is_over

    play(story)


def test_a_lease_that_is_over_is_not_claimed_again(play: Play) -> None:
    """The end of a lease ends its holding: a reconnect would claim a new one that nobody asked for."""

    async def story(bench: Bench) -> None:
        bench.broker.lease = lease_of(**granted(status="running"))
        holding = await bench.held()
        bench.broker.tell(status="failed", grants=[], reason=sentence("TOO_MANY_RECLAIMS", "Too often."))
        await until(lambda: holding.is_over)
        with pytest.raises(BrokerError, match="Too often"):
            await holding.granted()
        assert len(bench.broker.hellos) == 1

    play(story)


@pytest.mark.parametrize(("status", "is_final"), [(403, True), (503, False)])
def test_a_refused_connection_is_final_and_a_restarting_broker_is_not(
    play: Play, status: int, *, is_final: bool
) -> None:
    """Whoever may not hold anything hears why; a proxy whose broker restarts is asked again."""

    async def story(bench: Bench) -> None:
        bench.broker.turns_away = status
        holding = bench.hold()
        await until(lambda: len(bench.broker.asked) > (0 if is_final else 2))
        if is_final:
            await until(lambda: holding.refusal)
        assert (holding.refusal is not None) == is_final
        bench.broker.turns_away = None
        if not is_final:
            await until(lambda: holding.lease)

    play(story)
