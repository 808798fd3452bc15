"""What a picker says of each share: when it could be had, what it comes to, and what else to do."""

from __future__ import annotations

import asyncio
import os
import pwd
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer, AvailabilityModel
from jupyter_gpushare.broker.wire import MessageModel
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from jupyter_gpushare.hub.picker_link import PickerLink
from jupyter_gpushare.hub.picker_live import Asked, picture_now
from jupyter_gpushare.hub.picture_words import about, in_line, picture_of
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.reason import Reason
from tests.broker.service.bench import SESSION, Bench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.hub.picture import CardPicture

GB = 1_000_000_000
PROJECTS = """
[projects.team-a]
quota = 1
members = ["ada"]

[projects.team-b]
quota = 0.5
members = ["@team-b", "ada", "{me}"]

[projects.closed]
quota = 4
members = ["nobody"]
"""


def card(model: AvailabilityModel, **said: Any) -> CardPicture:
    """The card of *model*, in a team of which *said* is known."""
    usual = {"project": "team-a", "in_use": "1.5", "quota": "4", "left": "2.5"}
    (found,) = picture_of(AvailabilityAnswer([model], **{**usual, **said}), ["team-a"]).cards
    return found


def refused(reason: Reason, text: str = "The rules' own sentence.") -> AvailabilityModel:
    """A share that waiting would not bring."""
    message = MessageModel(reason.value, text, {}, text)
    return AvailabilityModel("4", fits_now=False, estimate_s=None, reason=message, is_refused=True)


def waiting(place: int | None, estimate_s: float | None) -> AvailabilityModel:
    """A share that others have now."""
    message = MessageModel("WAITING_FOR_DEVICE", "Waits for a GPU.", {}, "Waits for a GPU.")
    return AvailabilityModel("1", fits_now=False, estimate_s=estimate_s, reason=message, place=place)


@pytest.mark.parametrize(
    ("model", "standing", "badge"),
    [
        (AvailabilityModel("1", fits_now=True, estimate_s=None, reason=None, free=5), "now", "5 free now"),
        (AvailabilityModel("1", fits_now=True, estimate_s=None, reason=None), "now", "free now"),
        (waiting(1, 28.0), "soon", "about 30 s"),
        (waiting(2, 250.0), "soon", "2nd in line, about 4 min"),
        (waiting(3, None), "soon", "3rd in line"),
        (waiting(1, None), "soon", "in line"),
        (refused(Reason.EXCEEDS_PROJECT_QUOTA), "never", "over quota"),
        (refused(Reason.EXCEEDS_PERSON_LIMIT), "never", "over your limit"),
        (refused(Reason.NO_SUCH_DEVICE), "never", "no such GPU"),
        (refused(Reason.NO_SUCH_POOL), "never", "not available"),
    ],
)
def test_badge_says_when(model: AvailabilityModel, standing: str, badge: str) -> None:
    """Now, after a wait that is no more exact than it can be, or not for you."""
    found = card(model)
    assert (found.standing, found.badge) == (standing, badge)


def test_way_out_is_the_persons_own() -> None:
    """Whoever cannot have it reads what is left, whom to ask, and what else there is."""
    assert card(refused(Reason.EXCEEDS_PROJECT_QUOTA)).way_out == (
        "Your team's quota leaves 2.5. Ask the owner of team-a, or run it as a training job."
    )
    assert card(refused(Reason.NO_SUCH_POOL)).way_out == "The rules' own sentence."
    assert card(waiting(1, None)).way_out == "Waits for a GPU."
    assert card(AvailabilityModel("1", fits_now=True, estimate_s=None, reason=None)).way_out == ""


@pytest.mark.parametrize("reason", [each for each in Reason if each.name.startswith(("EXCEEDS", "NO_SUCH", "NOT_A"))])
def test_no_refusal_is_without_words(reason: Reason) -> None:
    """Every "no" that a picker can meet has a badge and a sentence, and no template is left unfilled."""
    found = card(refused(reason))
    assert found.badge
    assert found.way_out
    assert "{" not in found.way_out


def had(memory: int, burst: int, *kinds: str) -> AvailabilityModel:
    """A share that can be had now."""
    return AvailabilityModel(
        "0.5", fits_now=True, estimate_s=None, reason=None, memory=memory, burst=burst, kinds=[*kinds]
    )


def test_meaning_says_what_it_comes_to() -> None:
    """Memory on which GPU; where kinds differ, no more than the smallest gives."""
    assert card(had(20 * GB, 40 * GB, "a100")).meaning == "20 GB guaranteed of an A100"
    assert card(had(5_500_000_000, 5_500_000_000, "t4", "v100")).meaning == "at least 5.5 GB guaranteed (T4, V100)"
    assert card(waiting(1, None)).meaning == "", "no device could hold it"


def test_meaning_says_what_can_be_parked() -> None:
    """Never more than the host's memory takes, and nothing where nobody is parked."""
    model = had(20 * GB, 40 * GB, "a100")
    assert card(model, is_parking=True).meaning == "20 GB guaranteed of an A100 · parks up to 40 GB"
    assert card(model, is_parking=True, parks_up_to=12 * GB).meaning.endswith("parks up to 12 GB")
    on_two = msgspec.structs.replace(model, share="2x0.5")
    assert card(on_two, is_parking=True).meaning.endswith("parks up to 80 GB"), "what is on both devices is parked"
    assert card(model, is_parking=True, parks_up_to=0).meaning.endswith("no host memory left to park into")
    assert "park" not in card(model, is_parking=False, parks_up_to=12 * GB).meaning
    timed = picture_of(AvailabilityAnswer([model], is_parking=True, project="x"), [], idle_timeout_s=600.0)
    assert timed.cards[0].meaning.endswith("parks up to 40 GB when idle for 10 min")


def test_headline_says_how_the_team_stands() -> None:
    """In use and quota as people read them; a team without a bound has none."""
    assert picture_of(AvailabilityAnswer([], "team-a", "1.5", "4", "2.5"), []).headline == (
        "team-a · 1.5 of 4 GPUs in use by your team"
    )
    assert picture_of(AvailabilityAnswer([], "x", "0.333333", "unlimited", "unlimited"), []).headline == (
        "x · 0.33 GPUs in use by your team"
    )


def test_numbers_in_line() -> None:
    """English, where it is odd."""
    assert [in_line(place) for place in (1, 2, 3, 4, 11, 22, 113)] == [
        "1st in line", "2nd in line", "3rd in line", "4th in line", "11th in line", "22nd in line", "113th in line",
    ]  # fmt: skip
    assert [about(seconds) for seconds in (0, 26, 60, 250, 7300)] == [
        "about 5 s", "about 30 s", "about 1 min", "about 4 min", "about 2 h",
    ]  # fmt: skip


def link(person: str, *groups: str, shares: tuple[str, ...] = ("0.25", "0.5", "1"), project: str = "") -> PickerLink:
    """What the page of *person* shows."""
    return PickerLink(person, list(groups), list(shares), 0.0, project, most="1", kinds=["a100", "t4"])


@pytest.fixture(name="told")
def _told(tmp_path: Path) -> Callable[[Callable[[Bench], Any]], None]:
    """Tell a story of a broker with two teams and one GPU."""

    async def whole(story: Callable[[Bench], Any]) -> None:
        bench = Bench(tmp_path, DeviceSpec(total=Memory(8 * GB), kind="a100"))
        file = tmp_path / "gpushare.toml"
        # The broker takes the test's own user for the holder: it is a member too.
        file.write_text(PROJECTS.replace("{me}", pwd.getpwuid(os.getuid()).pw_name))
        bench.settings = replace(bench.settings, configuration=file)
        try:
            await bench.start()
            await story(bench)
        finally:
            await bench.close()

    return lambda story: asyncio.run(whole(story))


def test_picture_of_a_real_broker(told: Callable[[Callable[[Bench], Any]], None]) -> None:
    """Each team sees its own standing; who is in two may choose, and a group of the hub's is a membership."""

    async def story(bench: Bench) -> None:
        ada = picture_now(bench.broker, link("ada"))
        assert (ada.project, ada.projects) == ("team-a", ["team-a", "team-b"])
        assert ada.headline == "team-a · 0 of 1 GPUs in use by your team"
        assert ada.is_simulated
        assert [each.badge for each in ada.cards] == ["4 free now", "2 free now", "1 free now"]
        assert all("of an A100" in each.meaning for each in ada.cards)
        other = picture_now(bench.broker, link("ada"), Asked(project="team-b"))
        assert other.project == "team-b"
        assert [each.standing for each in other.cards] == ["now", "now", "never"]
        assert other.cards[2].way_out.startswith("Your team's quota leaves 0.5.")
        bo = picture_now(bench.broker, link("bo", "team-b"))
        assert bo.projects == ["team-b"]
        assert [each.badge for each in bo.cards] == ["2 free now", "1 free now", "over quota"]

    told(story)


def test_project_that_somebody_else_is_in(told: Callable[[Callable[[Bench], Any]], None]) -> None:
    """A crafted project changes nothing: one sees only one's own; who is in none reads whom to ask."""

    async def story(bench: Bench) -> None:
        assert picture_now(bench.broker, link("ada"), Asked(project="closed")).project == "team-a"
        stranger = picture_now(bench.broker, link("@team-b"), Asked(project="closed"))
        assert stranger.project == ""
        assert {each.standing for each in stranger.cards} == {"never"}
        assert "no project" in stranger.cards[0].way_out

    told(story)


def test_picture_follows_the_books(told: Callable[[Callable[[Bench], Any]], None]) -> None:
    """What somebody takes is gone from everybody's next look."""

    async def story(bench: Bench) -> None:
        await bench.running(msgspec.structs.replace(SESSION, project="team-b", share="0.25"))
        quarter, half = picture_now(bench.broker, link("bo", "team-b", shares=("0.25", "0.5"))).cards
        assert (quarter.badge, half.badge) == ("1 free now", "over quota")
        assert picture_now(bench.broker, link("ada", shares=("0.25",))).cards[0].badge == "3 free now"

    told(story)


def test_own_share_while_it_is_written(told: Callable[[Callable[[Bench], Any]], None]) -> None:
    """It is told as any other; one that is not finished is told what is wrong, and nothing worse happens."""

    async def story(bench: Bench) -> None:
        def own(text: str, kind: str = "") -> CardPicture:
            return picture_now(bench.broker, link("ada", shares=()), Asked(own=text, kind=kind)).cards[-1]

        assert own("0.3..0.8").badge == "3 free now"
        assert own("0.3..").meaning == "limit: no amount is written; write for example 0.25..0.8"
        assert own("0.5", "t4").badge == "no such GPU"
        assert own("2").badge == "not offered"
        assert own("0.5@h100").badge == "not offered"
        for crafted in ("<script>", "x" * 10_000, "\x00", "{{7*7}}", "99999999999999999999"):
            assert own(crafted).standing == "unknown"
            assert own("0.5", crafted).standing == "now", "a kind that is not offered is none"

    told(story)
