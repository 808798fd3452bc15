"""The tour: runs the stories without a browser and prints what happened as a table."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from jupyter_gpushare.demo.figures import printable
from jupyter_gpushare.demo.stories import STORIES
from jupyter_gpushare.demo.story import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from jupyter_gpushare.demo.story import Entry, Story

__all__ = ["ALL", "TourError", "choose", "list_steps", "run"]

#: What a bare ``--tour`` asks for.
ALL = "all"


class TourError(ValueError):
    """A story or step that cannot be run; the message names it and what can."""


def choose(name: str, broken: str | None) -> tuple[list[type[Story]], dict[str, str]]:
    """The stories that *name* asks for, and for each one left out the reason.

    Raises:
        TourError: there is no such story or step, or the one asked for needs what is not installed.
    """
    names = [story.name for story in STORIES]
    if name not in (ALL, *names):
        raise TourError(f"There is no story {name!r}. Stories: {', '.join(names)}; --tour alone runs all of them.")
    wanted = [story for story in STORIES if name in (ALL, story.name)]
    if broken is not None:
        wanted = _with_step(wanted, broken)
    left_out = {story.name: _remedy(story) for story in wanted if story.missing()}
    if left_out and (name != ALL or broken is not None):
        raise TourError("; ".join(f"The story {story!r} {reason}" for story, reason in left_out.items()))
    return [story for story in wanted if not story.missing()], left_out


def _with_step(stories: Sequence[type[Story]], broken: str) -> list[type[Story]]:
    having = [story for story in stories if broken in [each.name for each in story.steps()]]
    if not having:
        known = ", ".join(dict.fromkeys(each.name for story in stories for each in story.steps()))
        raise TourError(f"There is no step {broken!r} to break. Steps: {known}.")
    return having


def _remedy(story: type[Story]) -> str:
    missing = story.missing()
    extras = ",".join(sorted(set(missing.values())))
    return f"needs {', '.join(missing)}: pip install 'jupyter_gpushare[{extras}]'"


async def run(
    console: Console, name: str, *, broken: str | None = None, deadline_s: float, as_json: bool = False
) -> bool:
    """Run the stories that *name* asks for and print them; whether all went well.

    Raises:
        TourError: as `choose`.
    """
    stories, left_out = choose(name, broken)
    told: dict[str, list[Entry]] = {}
    for story in (each(deadline_s) for each in stories):
        told[story.name] = await _tell(console, story, broken=broken, quiet=as_json)
        if not as_json:
            _show(console, story, told[story.name])
    went_well = bool(told) and all(entry.ok for entries in told.values() for entry in entries)
    if as_json:
        console.out(_json(told, left_out, went_well=went_well), highlight=False)
        return went_well
    for left, reason in left_out.items():
        console.print(f"Left out: {left}, which {reason}", markup=False, highlight=False)
    console.print(_verdict(told), highlight=False)
    return went_well


def list_steps(console: Console) -> None:
    """Print every story's steps, with what ``--break`` does in each."""
    for story in STORIES:
        table = Table(
            "step", "what happens", "with --break", title=f"{story.name}: {story.title}", title_justify="left"
        )
        for each in story.steps():
            table.add_row(each.name, each.title, each.sabotage)
        console.print(table)


async def _tell(console: Console, story: Story, *, broken: str | None, quiet: bool) -> list[Entry]:
    with console.status(story.title) as status:
        if quiet:
            status.stop()
        return await tell(story, broken=broken, begin=lambda step: status.update(f"{step.name}: {step.title}"))


def _show(console: Console, story: Story, entries: Sequence[Entry]) -> None:
    console.print(_table(story, entries))
    summary = story.summary()
    if summary is not None:
        console.print(summary)


def _table(story: Story, entries: Sequence[Entry]) -> Table:
    table = Table(title=f"{story.name}: {story.title} (simulated devices)", title_justify="left")
    for heading in ("at", "took", "step", "what happened", "what was seen", ""):
        table.add_column(heading, justify="right" if heading in ("at", "took") else "left", overflow="fold")
    for entry in entries:
        verdict = Text("✓ ok") if entry.ok else Text("✗ failed", "bold red")
        times = f"{entry.at_s:.1f} s", f"{entry.took_s:.1f} s"
        table.add_row(*times, entry.step, entry.title, Text(_lines(entry.seen)), verdict)
    return table


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())


def _verdict(told: dict[str, list[Entry]]) -> Text:
    failed = [f"{story} at {entry.step}" for story, entries in told.items() for entry in entries if not entry.ok]
    steps = sum(len(entries) for entries in told.values())
    if failed:
        return Text(f"Failed: {', '.join(failed)}.", "bold red")
    if not told:
        return Text("No story could run.", "bold red")
    return Text(f"{len(told)} {'story' if len(told) == 1 else 'stories'}, {steps} steps, all as they should be.")


def _json(told: dict[str, list[Entry]], left_out: dict[str, str], *, went_well: bool) -> str:
    stories = {name: [asdict(entry) for entry in entries] for name, entries in told.items()}
    return json.dumps({"ok": went_well, "stories": stories, "left_out": left_out}, indent=2)
