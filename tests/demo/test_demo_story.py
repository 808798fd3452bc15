"""What the tour makes of stories: which it chooses, what it tells of them, and that it tidies up after them."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from rich.console import Console

from jupyter_gpushare.demo import tour
from jupyter_gpushare.demo.story import Story, expect, step, tell

if TYPE_CHECKING:
    from collections.abc import Mapping


class Loaf(Story):
    """A story without processes: knead, then bake."""

    name: ClassVar[str] = "loaf"
    title: ClassVar[str] = "bread is made"
    cleaned: ClassVar[int] = 0

    @step("knead", "dough is made", sabotage="without flour")
    async def _knead(self, *, broken: bool) -> str:
        self.dough = None if broken else "dough"
        expect(self.dough is not None, "there is no dough")
        return "dough"

    @step("bake", "it is baked", sabotage="the oven explodes")
    async def _bake(self, *, broken: bool) -> str:
        return str(1 // (0 if broken else 1))

    def clean_up(self) -> None:
        Loaf.cleaned += 1


class Moonbread(Loaf):
    """A story that cannot run here."""

    name: ClassVar[str] = "moonbread"
    requires: ClassVar[Mapping[str, str]] = {"a_module_from_the_moon": "moon"}


class Overslept(Loaf):
    """A story whose step never ends by itself."""

    @step("wait", "nothing happens", sabotage="nothing happens either")
    async def _wait(self, *, broken: bool) -> str:  # noqa: ARG002
        self.waiting.set()
        await asyncio.Event().wait()
        return ""

    waiting: asyncio.Event


@pytest.fixture(autouse=True)
def stories(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tour knows these stories instead of the real ones."""
    monkeypatch.setattr(tour, "STORIES", (Loaf, Moonbread))
    Loaf.cleaned = 0


def _run(name: str, **options: Any) -> tuple[bool, str]:
    printed = io.StringIO()
    console = Console(file=printed, width=160)
    went_well = asyncio.run(tour.run(console, name, deadline_s=60, **options))
    return went_well, printed.getvalue()


def test_a_story_that_goes_well_is_told_step_by_step_and_passes() -> None:
    """Success is reported only with every step in the table, in order."""
    went_well, printed = _run("loaf")
    assert went_well
    assert printed.index("knead") < printed.index("bake") < printed.index("2 steps, all as they should be")


def test_a_failed_check_fails_the_tour_at_its_step_and_stops_there() -> None:
    """A broken step is named with what was seen, and nothing is told of steps that never ran."""
    went_well, printed = _run("loaf", broken="knead")
    assert not went_well
    assert "there is no dough" in printed
    assert "Failed: loaf at knead." in printed
    assert "it is baked" not in printed


def test_an_exception_in_a_step_is_that_steps_failure() -> None:
    """An accident inside a step is told in the timeline instead of ending the tour with a traceback."""
    went_well, printed = _run("loaf", broken="bake")
    assert not went_well
    assert "ZeroDivisionError" in printed
    assert "Failed: loaf at bake." in printed


@pytest.mark.parametrize("broken", [None, "knead", "bake"])
def test_every_story_is_tidied_up_once_however_it_went(broken: str | None) -> None:
    """A failed story must not leave its processes behind, and a good one neither."""
    asyncio.run(tell(Loaf(1), broken=broken, begin=lambda _: None))
    assert Loaf.cleaned == 1


def test_a_story_interrupted_in_a_step_is_tidied_up() -> None:
    """Ctrl-C in the middle of a wait still ends everything that the story started."""

    async def interrupt() -> None:
        story = Overslept(1)
        story.waiting = asyncio.Event()
        telling = asyncio.create_task(tell(story, broken=None, begin=lambda _: None))
        await story.waiting.wait()
        telling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await telling

    asyncio.run(interrupt())
    assert Loaf.cleaned == 1


def test_a_bare_tour_runs_what_it_can_and_lists_what_it_left_out_with_the_remedy() -> None:
    """A story whose extra is not installed is named with the command that installs it, and is no failure."""
    went_well, printed = _run(tour.ALL)
    assert went_well
    assert "Left out: moonbread, which needs a_module_from_the_moon: pip install 'jupyter_gpushare[moon]'" in printed


def test_asking_for_a_story_that_cannot_run_is_an_error() -> None:
    """A story that was asked for by name is never quietly skipped."""
    with pytest.raises(tour.TourError, match="moon"):
        tour.choose("moonbread", None)


def test_a_tour_of_nothing_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """When no story could run at all, the tour has shown nothing and must not pass."""
    monkeypatch.setattr(tour, "STORIES", (Moonbread,))
    went_well, printed = _run(tour.ALL)
    assert not went_well
    assert "No story could run" in printed


@pytest.mark.parametrize(("name", "broken"), [("cake", None), ("loaf", "freeze"), (tour.ALL, "freeze")])
def test_unknown_stories_and_steps_are_named_with_those_that_exist(name: str, broken: str | None) -> None:
    """A slip in a name gets the right names as an answer."""
    with pytest.raises(tour.TourError, match=r"'(cake|freeze)'.*(loaf|knead)"):
        tour.choose(name, broken)


def test_json_holds_the_timeline_and_the_verdict() -> None:
    """A program that runs the tour can read what failed and where."""
    went_well, printed = _run("loaf", broken="bake", as_json=True)
    told = json.loads(printed)
    assert told["ok"] is went_well is False
    assert [(entry["step"], entry["ok"]) for entry in told["stories"]["loaf"]] == [("knead", True), ("bake", False)]


def test_what_was_seen_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that came over the wire is printed without its control characters."""

    class Hostile(Loaf):
        @step("shout", "something comes back", sabotage="silence")
        async def _shout(self, *, broken: bool) -> str:  # noqa: ARG002
            return "\x1b[2Jgone"

    monkeypatch.setattr(tour, "STORIES", (Hostile,))
    _, printed = _run("loaf")
    assert "\x1b[2J" not in printed
    assert "[2Jgone" in printed


def test_what_a_step_measured_is_told_with_that_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reads the tour finds each measured time where it was measured."""

    class Timed(Loaf):
        @step("time", "it is timed", sabotage="the clock stands")
        async def _time(self, *, broken: bool) -> str:  # noqa: ARG002
            self.figures["oven_s"] = 1.5
            return "timed"

        @step("eat", "it is eaten", sabotage="it is burnt")
        async def _eat(self, *, broken: bool) -> str:  # noqa: ARG002
            return "eaten"

    monkeypatch.setattr(tour, "STORIES", (Timed,))
    told = json.loads(_run("loaf", as_json=True)[1])["stories"]["loaf"]
    assert {entry["step"]: entry["figures"] for entry in told} == {"time": {"oven_s": 1.5}, "eat": {}}


@pytest.mark.parametrize("broken", [None, "bake"])
def test_a_storys_summary_is_shown_below_its_timeline(broken: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a story sums up is seen, also when it failed half-way: there it helps most."""

    class Summed(Loaf):
        knead, bake = Loaf.steps()

        def summary(self) -> str:
            return "one loaf in all"

    monkeypatch.setattr(tour, "STORIES", (Summed,))
    _, printed = _run("loaf", broken=broken)
    assert printed.index("it is baked") < printed.index("one loaf in all")
