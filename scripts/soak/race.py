"""Cells and parks at the same moment: nothing may ever run while the GPU state is away, and no cell may be lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from scripts.soak.bound import upper_bound
from scripts.soak.clients import CellFailed, Client, Page, ServerSide, Subshell
from scripts.soak.harness import MIB, Ended, Notebook, Site
from scripts.soak.leftovers import left_after_all, left_while_running
from scripts.soak.log import errors_in_log

if TYPE_CHECKING:
    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "ROUNDS", "closing", "done", "run"]

NAME: Final = "race"
GOAL: Final = 5000
ROUNDS: Final = 500
_KERNELS: Final = 3
_SPREAD_S: Final = 0.02
_LATE: Final = 0.25
_WHOLE_PARK_S: Final = 0.3
_SHORT_CELL_S: Final = 0.01
_LONG_CELL_S: Final = 0.4
_FEW: Final = 20
_TOO_MANY: Final = 5
_RAN_WHILE_PARKED: Final = "ran while parked"


@dataclass
class _Racer:
    """One kernel with all its clients, and what each has sent."""

    notebook: Notebook
    clients: dict[str, Client]
    pages: list[Page]
    sent: Counter[str] = field(default_factory=Counter)


async def run(block: Block, *, rounds: int = ROUNDS, kernels: int = _KERNELS) -> None:
    """*rounds* races, on *kernels* kernels at the same time."""
    async with Site.open(interval_s=0.05, background_interval_s=0.2) as site:
        racers = [await _start(site, f"race-{number}", block.seed + number) for number in range(kernels)]
        shares = [rounds // kernels + (number < rounds % kernels) for number in range(kernels)]
        chosen = [random.Random(f"{NAME} {block.seed} {number}") for number in range(kernels)]  # noqa: S311  # repeats
        await asyncio.gather(*map(_race, [block] * kernels, racers, shares, chosen))
        for racer in racers:
            await _settle(block, racer)
        for left in await left_while_running(site):
            block.violated(left)
        for error in errors_in_log(site):
            block.violated(error)
        await site.stop_server()
        for left in await left_after_all(site):
            block.violated(left)
    block.require(rounds < _FEW or block.counts["park PARKED"] > rounds // 10, "hardly any park won its race")


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["rounds"]


def closing(counts: Counter[str]) -> list[str]:
    """What the counts mean."""
    hits, cells = counts[_RAN_WHILE_PARKED], counts["cells"]
    lines = []
    for what, tries in (("rounds", counts["rounds"]), ("parks", counts["parks"]), ("cells", cells)):
        if tries:
            bound = upper_bound(hits, tries)
            lines.append(f"{hits} ran while parked in {tries} {what}: below {bound:.2e} each, with 95 % confidence")
    return lines


async def _start(site: Site, name: str, seed: int) -> _Racer:
    notebook = await site.start_kernel(name)
    await notebook.begin([4096, MIB, 2 * MIB + 1], seed)
    page, tab = notebook.page, await site.open_page(notebook.id, legacy=True)
    clients: dict[str, Client] = {
        "page": page,
        "tab": tab,
        "console": site.open_console(notebook.id),
        "server": ServerSide(site.server, notebook.id),
        "subshell": Subshell(page, await page.open_subshell()),
    }
    return _Racer(notebook, clients, [page, tab])


async def _race(block: Block, racer: _Racer, rounds: int, choose: random.Random) -> None:
    for _ in range(rounds):
        if len(block.violations) >= _TOO_MANY:
            return
        try:
            await _round(block, racer, choose)
        except (CellFailed, TimeoutError) as trouble:
            block.violated(f"kernel {racer.notebook.id}: {trouble}")


async def _round(block: Block, racer: _Racer, choose: random.Random) -> None:
    """A park, and one to three cells up to 20 ms before or after it; now and then at any moment of the park."""
    names = choose.sample(sorted(racer.clients), choose.randint(1, 3))
    latest_s = _WHOLE_PARK_S if choose.random() < _LATE else 2 * _SPREAD_S
    cells = [_cell(block, racer, name, choose.uniform(0, latest_s), choose) for name in names]
    parking = asyncio.ensure_future(_park(racer.notebook))
    await asyncio.gather(*cells)
    ended = await parking
    block.counts["rounds"] += 1
    block.counts[f"park {ended.code}"] += 1
    block.counts["parks"] += ended.is_parked
    if await racer.notebook.status() != "running":
        # Parked before or after all the cells: one more brings it back, so that the next race is one.
        await _cell(block, racer, choose.choice(sorted(racer.clients)), 0, choose)
        await racer.notebook.until_status("running")


async def _park(notebook: Notebook) -> Ended:
    await asyncio.sleep(_SPREAD_S)
    return await notebook.park()


async def _cell(block: Block, racer: _Racer, name: str, after_s: float, choose: random.Random) -> None:
    number, linger_s = (
        racer.sent[name],
        choose.choice([0.0, choose.uniform(0, _SHORT_CELL_S), choose.uniform(0, _LONG_CELL_S)]),
    )
    racer.sent[name] += 1
    await asyncio.sleep(after_s)
    try:
        await racer.clients[name].run(f"inside.cell({name!r}, {number}, {linger_s})")
    except CellFailed as trouble:
        block.counts[f"lost by {name}"] += 1
        block.violated(f"kernel {racer.notebook.id}, cell {number} of {name}: {trouble}")
    block.counts["cells"] += 1
    block.counts[f"cells by {name}"] += 1


async def _settle(block: Block, racer: _Racer) -> None:
    """What the kernel saw, against what was sent."""
    name = f"kernel {racer.notebook.id}"
    try:
        told = await racer.notebook.told()
    except (CellFailed, TimeoutError) as trouble:
        block.violated(f"{name} does not tell what it saw: {trouble}")
        return
    hits = told["began_away"] + told["locked_under"]
    block.counts[_RAN_WHILE_PARKED] += hits
    block.counts["locks"] += told["locks"]
    block.require(
        not hits, f"{name}: {told['began_away']} began while parked, {told['locked_under']} were parked under"
    )
    block.require(not told["damaged"], f"{name}: {told['damaged']} buffers have changed")
    for client, sent in racer.sent.items():
        ran = [number for who, number in told["seen"] if who == client]
        block.require(
            ran == list(range(sent)), f"{name}: {client} sent {sent} cells, and these ran: {_gaps(ran, sent)}"
        )
    for page in racer.pages:
        replied = Counter(page.replied)
        twice = [each for each, count in replied.items() if count > 1]
        block.require(not twice, f"{name}: {len(twice)} cells had more than one reply")


def _gaps(ran: list[int], sent: int) -> str:
    missing, more = Counter(range(sent)) - Counter(ran), Counter(ran) - Counter(range(sent))
    return f"not {sorted(missing)}, too often {sorted(more)}, in order: {ran == sorted(ran)}"
