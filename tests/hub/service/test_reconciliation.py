"""After a hub died in the middle of something: what has no server is ended, what has one is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.service.hub_rest import HubAwayError
from tests.broker.service.bench import until

from .bench import HUB_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]


async def rest(bench: ServiceBench) -> None:
    """Nothing is compared but when the test says so."""
    await bench.service.reconciliation.stop()


async def starts(bench: ServiceBench, person: str, server: str = "", share: str = "0.25", **more: Any) -> str:
    """The hub's hook has a share granted for a server that starts; its lease."""
    body = {"share": share, "project": "team-a", "person": person, "is_starting": True, "groups": [], **more}
    answer = await bench.ask("PUT", f"claims/{quote(claim_key(person, server), safe='')}", HUB_TOKEN, body)
    assert answer.status == 201, answer.text
    lease: str = answer.json()["lease"]["id"]
    return lease


def older(bench: ServiceBench) -> None:
    """Let a minute pass for the comparison, and for nothing else."""
    now = bench.service.broker.clock.now
    bench.service.reconciliation._now = lambda: now() + 60


async def compare(bench: ServiceBench) -> tuple[set[str], set[str]]:
    """What a comparison ends, and what it keeps."""
    outcome = await bench.service.reconciliation.compare()
    return set(outcome.ended), set(outcome.kept)


def test_what_has_no_server_is_ended_and_what_has_one_is_not(play: Play) -> None:
    """Servers that start, run, stop: all have one. A lease whose server the hub does not know goes."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        lost = await starts(bench, "ana")
        other = await starts(bench, "ana", "old")
        kept = {await starts(bench, "ben", name) for name in ("", "starting", "stopping")}
        bench.hub.user("ana").serves("another")
        bench.hub.user("ben").serves()
        bench.hub.user("ben").serves("starting", ready=False, pending="spawn")
        bench.hub.user("ben").serves("stopping", pending="stop")
        assert await compare(bench) == (set(), set()), "too young to be sure"
        older(bench)
        ended, _ = await compare(bench)
        assert ended == {lost, other}
        await until(lambda: lost not in bench.service.broker.books.leases)
        assert kept <= bench.service.broker.books.leases.keys()

    play(story)


def test_all_pages_of_the_hubs_list_are_read(bench: ServiceBench, play: Play) -> None:
    """Somebody on the third page has a server too."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        for number in range(6):
            bench.hub.user(f"user-{number}").serves()
        bench.hub.user("ana").serves()
        await starts(bench, "ana")
        older(bench)
        assert (await compare(bench))[0] == set()
        assert sum("users?" in path for path in bench.hub.asked) == 4

    play(story)


def test_a_hub_that_cannot_be_asked_ends_nothing(play: Play) -> None:
    """Away, broken, or in the middle of its list: what is not certain stays."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        lease = await starts(bench, "ana")
        older(bench)
        bench.hub.is_broken = True
        with pytest.raises(HubAwayError):
            await compare(bench)
        await bench.hub.stop()
        with pytest.raises(HubAwayError):
            await compare(bench)
        assert lease in bench.service.broker.books.leases

    play(story)


def test_a_server_that_appears_while_one_looks_is_seen(play: Play) -> None:
    """The list was made a moment too early: the user is asked for once more before anything is ended."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        await starts(bench, "ana")
        older(bench)
        hub = bench.service.hub
        listed = hub.users

        async def early() -> Any:
            async for user in listed():
                yield user
            bench.hub.user("ana").serves(ready=False, pending="spawn")

        object.__setattr__(bench.service.reconciliation, "_hub", _Early(early, hub.user))
        assert (await compare(bench))[0] == set()

    play(story)


class _Early:
    """A hub whose list is older than what it says of one user."""

    def __init__(self, users: Any, user: Any) -> None:
        self.users = users
        self.user = user


def test_who_waits_on_a_page_is_left_in_line(play: Play) -> None:
    """There is no server yet, and there is to be none: the page has its own time."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        await bench.browser("ana").get(bench.wait_link())
        older(bench)
        assert (await compare(bench))[0] == set()
        assert len(bench.service.broker.books.leases) == 1

    play(story)


def test_a_server_that_never_says_hello_keeps_its_share(play: Play) -> None:
    """One without our extension runs on what it was granted: the time to say hello does not end that."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        lease = await starts(bench, "ana", reserve_s=5)
        bench.hub.user("ana").serves()
        older(bench)
        before = bench.service.broker.books.leases[lease].hold
        ended, kept = await compare(bench)
        assert (ended, kept) == (set(), {lease})
        after = bench.service.broker.books.leases[lease].hold
        assert before is not None
        assert after is not None
        assert after.until > before.until + 60

    play(story)


def test_a_lease_whose_holder_is_there_is_ended_only_at_the_second_time(play: Play) -> None:
    """A hub that has just begun may not know all of its servers yet."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        lease = await bench.running("ana", "team-a", claim_key("ana", ""))
        older(bench)
        assert (await compare(bench))[0] == set()
        bench.hub.user("ana").serves()
        assert (await compare(bench))[0] == set(), "it was there after all"
        bench.hub.users["ana"].servers.clear()
        assert (await compare(bench))[0] == set()
        assert (await compare(bench))[0] == {lease.id}

    play(story)


def test_leases_that_are_not_the_hubs_are_none_of_its_business(play: Play) -> None:
    """Jobs, and servers that took a share later by themselves, have no server at the hub under that name."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        await bench.running("ana", "team-a", "lab")
        older(bench)
        assert (await compare(bench))[0] == set()
        assert bench.hub.asked.count("/hub/api/users?state=active&limit=200") == 0

    play(story)


def test_it_compares_at_the_start_and_tries_again_until_the_hub_answers(bench: ServiceBench, play: Play) -> None:
    """The hub starts its services before it answers them: the first comparison fails, and the next one does not."""
    bench.hub.is_broken = True

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        lease = await starts(bench, "ana")
        older(bench)
        bench.service.reconciliation.start()
        await until(lambda: any("users?" in path for path in bench.hub.asked))
        bench.hub.is_broken = False
        await until(lambda: lease not in bench.service.broker.books.leases)

    play(story)
