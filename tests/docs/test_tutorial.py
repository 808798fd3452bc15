"""docs/hub-tutorial.md, gone through from its first line to its last on a real JupyterHub."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.hub.visitor import Form, Visitor
from jupyter_gpushare.hub.reference_words import FILES
from tests.kernel_ports.sitecustomize import next_port

from .guide import DOCS, Block, Guide, shows
from .terminals import DEADLINE_S, Terminal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

pytestmark = [pytest.mark.hub, pytest.mark.timeout(600)]

_ROOT: Final = DOCS.parent
_SERVICE: Final = "/services/gpushare/"
#: It fetches what this environment has already been set up with.
_FETCHES: Final = "scripts/prepare demo\n"
_PASSWORD: Final = re.compile(r"password \*\*([\w-]+)\*\*")


class _Reader:
    """Who follows the page: one machine with free ports in place of the usual ones, terminals, browsers, notebooks."""

    def __init__(self, directory: Path, guide: Guide) -> None:
        self.directory = directory
        self.guide = guide
        port, hub_port, proxy_port, service_port = (next_port("127.0.0.1") for _ in range(4))
        self.url = f"http://127.0.0.1:{port}"
        self.found = _PASSWORD.search(guide.text)
        assert self.found is not None
        # The page names the ports that everybody has; here others may have them, and the machine may be busy.
        ours = (
            f'c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub_port}"',
            f'c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"',
            f"c.Spawner.start_timeout = c.Spawner.http_timeout = {DEADLINE_S:.0f}",
            f"setup_gpushare(c, port={service_port}, ",
        )
        self._here = {
            "http://127.0.0.1:8000": self.url,
            "setup_gpushare(c, ": "\n".join(ours),
            "$PWD/.venv/bin": str(Path(sys.executable).parent),
            "$PWD/tests/": f"{_ROOT}/tests/",
        }
        self.terminals: dict[str, Terminal] = {}
        self.visitors: dict[str, Visitor] = {}
        self.notebooks: dict[str, Cells] = {}
        self._path = os.environ["PATH"]
        self._printed = ""
        self._spoke = ""

    async def follow(self, section: Guide) -> None:
        """Do what the blocks of *section* say, and see what they say one sees."""
        for block in section.blocks():
            text = block.text
            for usual, here in self._here.items():
                text = text.replace(usual, here)
            await self._follow(Block(block.language, block.place, text))

    async def _follow(self, block: Block) -> None:
        match block.language:
            case "toml":
                (self.directory / "first-hub" / block.place).write_text(block.text)
            case "python" if block.place.endswith(".py"):
                (self.directory / "first-hub" / block.place).write_text(block.text)
            case "python":
                await self._run_cell(block)
            case "sh":
                await self._run_commands(block)
            case "text":
                await self._look(block)
            case other:
                raise AssertionError(f"{other}: nobody follows such a block")

    async def _run_cell(self, block: Block) -> None:
        if block.place not in self.notebooks:
            front_end = self.visitors[block.place].front_end()
            self.notebooks[block.place] = await Cells.open(front_end, "first.ipynb")
        outcome = await self.notebooks[block.place].run(block.text)
        assert not outcome.error, f"{block.text}\n{outcome.error}"
        self._printed, self._spoke = outcome.text, ""

    async def _run_commands(self, block: Block) -> None:
        terminal = self._terminal(block.place)
        self._spoke = block.place or "own"
        goes_on = bool(block.place) and self._is_last_to_go_on(block)
        await asyncio.to_thread(terminal.begin if goes_on else terminal.run, block.text)

    def _is_last_to_go_on(self, block: Block) -> bool:
        return block.text.split()[-1] == "jupyterhub" or "jupyter gpushare run" in block.text

    def _terminal(self, place: str) -> Terminal:
        name = place or "own"
        if name not in self.terminals:
            inside = name in self.visitors
            environment = _environment_of(name, self.terminals["hub"]) if inside else _environment()
            directory = Path(environment["HOME"]) if inside else self.directory
            log = self.directory / f"{name}.log"
            self.terminals[name] = Terminal(directory, environment, log)
            if name == "hub":  # it was opened beside the first one, with the same path, in the same directory
                path = f"{Path(sys.executable).parent}:{_ROOT}/tests/hub/node_modules/.bin:$PATH"
                self.terminals[name].run(f'cd first-hub\nexport PATH="{path}"')
        return self.terminals[name]

    async def _look(self, block: Block) -> None:
        source = block.place or self._spoke
        if source:
            await asyncio.to_thread(self.terminals[source].expect, block.text)
        else:
            assert not (missing := shows(self._printed, block.text)), f"{missing!r} is not in\n{self._printed}"

    async def sign_in(self, name: str) -> Visitor:
        """Open a browser in which *name* has signed in."""
        assert self.found is not None
        visitor = self.visitors[name] = await Visitor.sign_in(self.url, name, self.found[1], DEADLINE_S)
        return visitor

    async def close(self) -> None:
        """Close everything that was opened."""
        for cells in self.notebooks.values():
            cells.close()
        for visitor in self.visitors.values():
            await visitor.close()
        for terminal in reversed(self.terminals.values()):
            await asyncio.to_thread(terminal.close)


def _environment() -> dict[str, str]:
    """Of somebody who has nothing to do with Jupyter yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "GPUSHARE"))}
    return kept | {"PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ["PYTHONPATH"]]), "COLUMNS": "120"}


def _environment_of(name: str, hub: Terminal) -> dict[str, str]:
    """Of a terminal in *name*'s Lab: what its server has, of the hub that runs in *hub*."""
    for process in hub.processes():
        try:
            environment: dict[str, str] = process.environ()
            if environment.get("JUPYTERHUB_USER") == name and "singleuser" in " ".join(process.cmdline()):
                return environment | {"COLUMNS": "120"}
        except psutil.Error:
            continue
    raise AssertionError(f"{name} has no server")


def _cards(page: str) -> dict[str, str]:
    """Each card of the spawn page: its title, and its badge."""
    found = re.findall(r"<label[^>]*>(.*?)</label>.*?data-badge>(.*?)</span>", page, re.DOTALL)
    return {re.sub(r"<[^>]+>", "", title): badge for title, badge in found}


async def _see_cards(visitor: Visitor, section: Guide, wanted: Mapping[str, str]) -> None:
    """The spawn page says of each share what the tutorial says it does."""
    cards = _cards((await visitor.page("/hub/spawn")).text)
    for share, badge in wanted.items():
        assert f"**{share}**" in section.prose()
        assert f"**{badge}**" in section.prose()
        assert cards[share] == badge


async def _pick(reader: _Reader, section: Guide) -> None:
    """4: ana sees what is free and picks half a GPU."""
    ana = await reader.sign_in("ana")
    assert "How much GPU?" in (await ana.spawn_page()).text
    await _see_cards(ana, section, {"¼ GPU": "2 free now", "½ GPU": "1 free now", "1 GPU": "over quota"})
    await ana.spawn("0.5")
    await ana.until_ready()


async def _start_without(reader: _Reader, section: Guide) -> None:
    """5: bo sees less free, and starts without a GPU."""
    bo = await reader.sign_in("bo")
    await _see_cards(bo, section, {"½ GPU": "1 free now"})
    assert "**No GPU**" in section.prose()
    await bo.spawn("none")
    await bo.until_ready()


async def _see_who(reader: _Reader, section: Guide) -> None:
    """5, afterwards: the overview tells bo of half a GPU, and not whose it is."""
    del section
    text = Form((await reader.visitors["bo"].page(f"{_SERVICE}overview")).text).text
    assert "1 other project 0.5 / 0.5" in text
    assert "ana" not in re.findall(r"\w+", text)


async def _see_parked(reader: _Reader, section: Guide) -> None:
    """6, afterwards: her own page says that her notebook is parked."""
    assert "**Parked**" in section.prose()
    ana = reader.visitors["ana"]

    async def parked() -> bool:
        return "Parked: 9.0 GB safe in host memory" in Form((await ana.page(f"{_SERVICE}sessions")).text).text

    await ana.until("the page to say so", parked)


async def _stop(reader: _Reader, section: Guide) -> None:
    """9: Ctrl-C ends the hub, its proxy, its service and everybody's server; what they kept is what the reference says."""
    assert "Ctrl-C" in section.prose()
    kept = {file.name for file in (reader.directory / "first-hub" / "gpushare-state").iterdir()}
    assert {name.removesuffix("-wal").removesuffix("-shm") for name in kept} <= set(FILES)
    for name in ("bo", "hub"):
        await asyncio.to_thread(reader.terminals[name].interrupt)


_BEFORE: Final[dict[str, Callable[[_Reader, Guide], Awaitable[None]]]] = {"4": _pick, "5": _start_without, "9": _stop}
_AFTER: Final[dict[str, Callable[[_Reader, Guide], Awaitable[None]]]] = {"5": _see_who, "6": _see_parked}


async def test_the_tutorial_is_true(tmp_path: Path) -> None:
    """Whoever does what the page says sees what the page says, and at the end nothing is left."""
    guide = Guide(Guide.read("hub-tutorial.md").text.replace(_FETCHES, ""))
    reader = _Reader(tmp_path, guide)
    try:
        for heading, section in guide.sections().items():
            number = heading.split(".")[0]
            if number in _BEFORE:
                await _BEFORE[number](reader, section)
            await reader.follow(section)
            if number in _AFTER:
                await _AFTER[number](reader, section)
            sys.stdout.write(f"{heading}\n")
    finally:
        await reader.close()
    assert not (tmp_path / "first-hub").exists()


def test_only_the_set_up_is_left_out() -> None:
    """All that the test above does not run is one line, and that line is what sets this environment up."""
    assert Guide.read("hub-tutorial.md").text.count(_FETCHES) == 1
    assert "    demo) hub_proxy ;;" in (_ROOT / "scripts" / "prepare").read_text(encoding="utf-8")
