"""A story: named steps that happen in order for real. Each can be sabotaged, to prove that its check sees it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from jupyter_gpushare.demo.processes import undisturbed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from rich.console import RenderableType

__all__ = ["Entry", "Step", "StepError", "Story", "expect", "step", "tell"]


class StepError(RuntimeError):
    """What a step waited for did not happen. The message says what was seen instead."""


def expect(happened: bool, otherwise: str) -> None:  # noqa: FBT001  # reads as the sentence that it is
    """Fail the step with *otherwise* unless it *happened*."""
    if not happened:
        raise StepError(otherwise)


class Act(Protocol):
    """A story's method that does one step: told whether to sabotage itself, returns what was seen."""

    def __call__(self, story: Any, /, *, broken: bool) -> Awaitable[str]: ...


@dataclass(frozen=True)
class Step:
    """One step of a story.

    Attributes:
        name: what ``--break`` takes.
        title: what happens.
        sabotage: what ``--break`` does to reality in this step; the step's check stays as it is.
        run: does it and returns what was seen.
    """

    name: str
    title: str
    sabotage: str
    run: Act


def step(name: str, title: str, *, sabotage: str) -> Callable[[Act], Step]:
    """Make a step of a story's method."""

    def make(run: Act) -> Step:
        return Step(name, title, sabotage, run)

    return make


class Story(ABC):
    """A story on a simulated machine of its own. Steps are its `step` methods, in the order of the class.

    Attributes:
        requires: for each module that it needs, the extra of this package that brings it.
        figures: what its steps have measured, for programs that read the tour.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    requires: ClassVar[Mapping[str, str]] = {}

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.figures: dict[str, Any] = {}

    @classmethod
    def steps(cls) -> tuple[Step, ...]:
        """The steps in order."""
        return tuple(member for member in vars(cls).values() if isinstance(member, Step))

    @classmethod
    def missing(cls) -> dict[str, str]:
        """The required modules that are not installed, with the extra that brings each."""
        return {module: extra for module, extra in cls.requires.items() if find_spec(module) is None}

    def summary(self) -> RenderableType | None:
        """What is shown below the timeline, None for nothing."""
        return None

    @abstractmethod
    def clean_up(self) -> None:
        """End every process and remove every file of the story, wherever it stopped. Does not wait for events."""


@dataclass(frozen=True)
class Entry:
    """One line of a timeline: when a step began (seconds since the story did), how long it took, what was seen.

    *figures* are what it measured, by name; times in seconds.
    """

    step: str
    title: str
    at_s: float
    took_s: float
    seen: str
    ok: bool
    figures: Mapping[str, Any] = field(default_factory=dict)


async def tell(story: Story, *, broken: str | None, begin: Callable[[Step], None]) -> list[Entry]:
    """Run *story* up to its end or its first failed step, and clean up after it.

    Args:
        story: the story.
        broken: the name of the step to sabotage, None for the true story.
        begin: called before each step.
    """
    started = time.monotonic()
    entries: list[Entry] = []
    try:
        for each in story.steps():
            begin(each)
            entries.append(await _take(story, each, sabotage=each.name == broken, started=started))
            if not entries[-1].ok:
                break
    finally:
        with undisturbed():
            story.clean_up()
    return entries


async def _take(story: Story, each: Step, *, sabotage: bool, started: float) -> Entry:
    began = time.monotonic()
    story.figures = {}
    try:
        seen, ok = await each.run(story, broken=sabotage), True
    except StepError as failure:
        seen, ok = str(failure), False
    except Exception as error:  # noqa: BLE001  # whatever goes wrong in a step is that step's failure, told as such
        seen, ok = f"{type(error).__name__}: {error}", False
    return Entry(each.name, each.title, began - started, time.monotonic() - began, seen, ok, story.figures)
