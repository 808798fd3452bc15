"""How much of what anybody says is remembered, and of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.culling.heard import MOST_IN_ALL, MOST_OF_ONE, Heard, Voices
from jupyter_gpushare.hub.culling.witnesses import is_own

if TYPE_CHECKING:
    from .culling_town import CullingTown

NAMES = ("ana", "an", "a" * 96 + "b", "a" * 96 + "c", "a" * 130 + "b", "a" * 130 + "c", "a" * 255)
SERVERS = ("", "second", "x" * 150, "x" * 255)


def heard(at: float) -> Heard:
    """A server that spoke then."""
    return Heard(at, None, None, None)


def test_a_key_is_its_persons_alone() -> None:
    """However much of their names two people share, and however long their servers' names are."""
    for person in NAMES:
        for server in SERVERS:
            key = claim_key(person, server)
            assert len(key) <= 200
            assert [each for each in NAMES if is_own(each, key)] == [person], key


def test_who_names_many_servers_is_remembered_by_the_last() -> None:
    """What one says too much of costs nobody else anything, and a server that goes on speaking stays."""
    kept = Voices()
    kept.put("bo", "hub:bo/", heard(0))
    for number in range(3 * MOST_OF_ONE):
        kept.put("ana", f"hub:ana/{number}", heard(number))
        kept.put("ana", "hub:ana/", heard(number))
    assert len(kept) == len(list(kept)) == 1 + MOST_OF_ONE
    assert kept.get("bo", "hub:bo/") == heard(0)
    assert kept.get("ana", "hub:ana/") == heard(3 * MOST_OF_ONE - 1)
    assert kept.get("ana", "hub:ana/0") is None


def test_whoever_has_the_most_makes_room() -> None:
    """In all no more than so many are remembered; who has one server stays, however many others come."""
    kept = Voices()
    kept.put("bo", "hub:bo/", heard(0))
    for number in range(2 * MOST_IN_ALL // MOST_OF_ONE):
        for server in range(MOST_OF_ONE):
            kept.put(f"p{number}", f"hub:p{number}/{server}", heard(1))
    assert len(kept) == len(list(kept)) == MOST_IN_ALL
    assert kept.get("bo", "hub:bo/") == heard(0)


def test_the_silent_are_forgotten() -> None:
    """And leave nothing behind."""
    kept = Voices()
    kept.put("ana", "hub:ana/", heard(1))
    kept.put("bo", "hub:bo/", heard(5))
    kept.forget_before(5)
    assert list(kept) == [(("bo", "hub:bo/"), heard(5))]
    kept.forget_before(6)
    assert (len(kept), list(kept), kept._of) == (0, [], {})


def test_servers_that_do_not_exist_do_not_fill_the_evidence(play: Any) -> None:
    """Who testifies for hundreds of them is taken at the word for the last; a share is always in the evidence."""

    async def story(town: CullingTown) -> None:
        await town.serve("hub:bo/", "bo")
        for number in range(MOST_OF_ONE + 50):
            await town.outlook("ana", server=f"hub:ana/{number}", idle_s=1.0)
        shares = (await town.evidence()).shares
        assert len(shares) == MOST_OF_ONE + 1
        assert shares["hub:bo/"].person == "bo"
        assert f"hub:ana/{MOST_OF_ONE + 49}" in shares

    play(story)


def test_who_shares_most_of_a_name_speaks_for_nobody_else(play: Any) -> None:
    """The server of one whose name begins alike stays its own: 404, and nothing is known of it."""

    async def story(town: CullingTown) -> None:
        person, twin = "a" * 96 + "b", "a" * 96 + "c"
        key = claim_key(person, "")
        assert (await town.testify(twin, server=key, idle_s=36_000.0)).status == 404
        assert (await town.evidence()).shares == {}
        await town.outlook(person, server=key, idle_s=36_000.0)
        assert (await town.evidence()).shares[key].person == person

    play(story)
