"""The hub's hooks and the real service: whatever a user sends, nobody holds what they may not, and nothing is left."""

from __future__ import annotations

import asyncio
import html
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from jupyterhub.spawner import LocalProcessSpawner  # type: ignore[import-untyped]
from tornado.web import HTTPError
from traitlets.config import Config

from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.hub import setup_gpushare
from jupyter_gpushare.quantity import Fraction, Memory

from .service.bench import HUB_TOKEN, ServiceBench
from .spawners import make, start, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

SMALL = DeviceSpec(total=Memory(2_000_000_000))
POLICY = """
[projects.team-a]
quota = 2
person_limit = 1
members = ["ada", "@team-a"]

[projects.team-b]
quota = 1
members = ["bo", "@team-b"]

[projects.crowd]
quota = 128
members = ["@crowd"]
"""
HTML = '"><script>alert(1)</script>{{7*7}}'


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is no broker that is away."""
    for deadline in ("_CLAIM_S", "_END_S", "_LOOK_S"):
        monkeypatch.setattr(f"jupyter_gpushare.hub.broker_link.{deadline}", 150.0)


class Whole:
    """A hub's hooks with the real service beside them.

    Attributes:
        c: the hub's configuration.
        bench: the service.
    """

    def __init__(self, bench: ServiceBench) -> None:
        self.bench = bench
        self.c = Config()
        state = bench.directory / "hub"
        state.mkdir(mode=0o700)
        (state / "hub.token").write_text(HUB_TOKEN)
        (state / "hub.token").chmod(0o600)
        port = int(bench.origin.rpartition(":")[2])
        setup_gpushare(
            self.c, state=state, port=port, config=None, shares=["0.25", "0.5", "1"], custom="2", kinds=["a100"]
        )

    def spawner(self, name: str = "ada", server: str = "", groups: tuple[str, ...] = ()) -> Any:
        """A spawner of *name*."""
        orm = SimpleNamespace(name=server, state=None, server=None)
        return make(LocalProcessSpawner, self.c, name=name, groups=groups, orm_spawner=orm)

    @property
    def held(self) -> list[tuple[str, str, str]]:
        """Person, project and share of every lease."""
        leases = self.bench.service.broker.books.leases.values()
        return sorted((each.person, each.project, str(each.share)) for each in leases if not each.is_over)

    async def refused(self, spawner: Any, options: Any) -> HTTPError:
        """A start that is refused, with what follows it in the hub."""
        with pytest.raises(HTTPError) as caught:
            await start(spawner, options)
        await stop(spawner)
        return caught.value


@pytest.fixture(name="told")
def _told() -> Iterator[Callable[..., None]]:
    """Tell a story of a hub on a machine with *devices* GPUs."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))

    async def whole(story: Callable[[Whole], Coroutine[Any, Any, None]], devices: int) -> None:
        bench = ServiceBench(directory)
        bench.policy = POLICY
        bench.machine.close()
        bench.machine = Machine.create(directory / "more", (SMALL,) * devices)
        try:
            await bench.start()
            await story(Whole(bench))
        finally:
            await bench.close()

    yield lambda story, devices=2: asyncio.run(whole(story, devices))
    shutil.rmtree(directory)


class SpawnPage:
    """The page from which somebody starts a server: what its form says, and who sends it."""

    def __init__(self, name: str, share: str) -> None:
        self.current_user = SimpleNamespace(name=name)
        self.request = SimpleNamespace(
            method="POST", path="/hub/spawn", files={}, body_arguments={"share": [share.encode()]}, query_arguments={}
        )


def test_person_in_hundreds_of_groups(told: Callable[..., None]) -> None:
    """A campus's directory gives everybody hundreds of groups: picker, project and wait page come out all the same."""
    groups = ("team-a", *(f"university-of-somewhere-department-{each:03}" for each in range(300)))

    async def story(hub: Whole) -> None:
        eve = hub.spawner("eve", groups=groups)
        form = str(await eve.get_options_form())
        assert "team-a" in form
        assert "cannot be shown now" not in form
        (live,) = re.findall(r'data-live="([^"]+)"', form)
        answer = await hub.bench.fetch("GET", html.unescape(live), {})
        assert (answer.status, answer.json()["project"]) == (200, "team-a"), "the open page is told the same"
        assert (await start(eve, {"share": "1"}))["GPUSHARE_PROJECT"] == "team-a"

        gus = hub.spawner("gus", groups=groups)
        gus.handler = SpawnPage("gus", "1")
        assert (await hub.refused(gus, {"share": "1"})).status_code == 303, "there is no room, and a page to wait on"

    told(story, 1)


CRAFTED: list[Any] = [
    {"share": "0.75; rm -rf /", "share_project": "team-a"},
    {"share": "3", "share_project": "team-a"},
    {"share": "1" * 10_000},
    {"share": HTML},
    {"share": ["0.5"]},
    {"share": {"request": 0.5}},
    {"share": 0.5},
    {"share": True},
    {"share": -1},
    {"share": "0.5\x00"},
    {"share": "\ud800"},
    {"share": "0.5@h100"},
    {"share": "1e3"},
    {"share": "0.5", "share_project": ["team-a"]},
    {"share": "0.5", "share_project": {"$ne": ""}},
    {"share": "0.5", "share_project": "x" * 100_000},
    {"share": "0.5", "share_project": "team-a\n"},
    {"share": "0.5", "share_project": "\ud800"},
    {"share": "0.5", "share_project": 7},
]


@pytest.mark.parametrize("options", CRAFTED, ids=lambda options: repr(options)[:40])
def test_crafted_options_hold_nothing(told: Callable[..., None], options: Any) -> None:
    """Any options are answered as the user's own mistake, in a short sentence, and leave the books as they were."""

    async def story(hub: Whole) -> None:
        error = await hub.refused(hub.spawner(), options)
        assert 400 <= error.status_code < 500
        assert 0 < len(error.jupyterhub_message) < 600  # type: ignore[attr-defined]
        assert hub.held == []

    told(story)


@pytest.mark.parametrize("options", [{"share": "0.5", "extra": HTML}, {"SHARE": "1"}, {"share_custom": "2"}, {}])
def test_options_of_others_are_none_of_ours(told: Callable[..., None], options: Any) -> None:
    """What is not ours gets nobody a larger share: the default is what one gets."""

    async def story(hub: Whole) -> None:
        await start(hub.spawner(), options)
        assert hub.held == [("ada", "team-a", options.get("share", "0.25"))]

    told(story)


@pytest.mark.parametrize("project", ["team-b", "crowd", "default", HTML, "*", "@team-a", "../team-a"])
def test_project_of_somebody_else(told: Callable[..., None], project: str) -> None:
    """Another team's quota is not to be had by naming it, and nothing about it is told."""

    async def story(hub: Whole) -> None:
        error = await hub.refused(hub.spawner(), {"share": "0.5", "share_project": project})
        assert (error.status_code, error.reason) in {(422, "NOT_A_MEMBER"), (422, "NO_SUCH_PROJECT")}
        assert "<script>" not in getattr(error, "jupyterhub_html_message", "")
        assert hub.held == []

    told(story)


def test_names_with_html_and_more(told: Callable[..., None]) -> None:
    """A user or server may be called anything that the hub allows: the lease is theirs, and ends with them."""

    async def story(hub: Whole) -> None:
        for name, server in [
            (HTML.replace("/", ""), "x"),
            ("root", ""),
            ("日本", "実験 1"),
            ("@team-a", "%2e%2e"),
            ("a:b", "?#"),
        ]:
            spawner = hub.spawner(name, server, ("team-a",))
            await start(spawner, {"share": "0.25", "share_project": "team-a"})
            assert hub.held == [(name, "team-a", "0.25")]
            await stop(spawner)
            assert hub.held == []

    told(story)


def test_user_of_two_teams(told: Callable[..., None]) -> None:
    """Each server counts for the team that was picked for it."""

    async def story(hub: Whole) -> None:
        groups = ("team-a", "team-b")
        await start(hub.spawner("eve", "one", groups), {"share": "0.5", "share_project": "team-a"})
        await start(hub.spawner("eve", "two", groups), {"share": "1", "share_project": "team-b"})
        assert hub.held == [("eve", "team-a", "0.5"), ("eve", "team-b", "1")]

    told(story)


def test_group_that_somebody_has_left(told: Callable[..., None]) -> None:
    """Groups count as they are when a server starts: what runs goes on, and the next start is the new group's."""

    async def story(hub: Whole) -> None:
        await start(hub.spawner("eve", "one", ("team-a",)), {"share": "0.5", "share_project": "team-a"})
        error = await hub.refused(hub.spawner("eve", "two", ("team-b",)), {"share": "0.5", "share_project": "team-a"})
        assert error.reason == "NOT_A_MEMBER"
        assert hub.held == [("eve", "team-a", "0.5")]
        told = await start(hub.spawner("eve", "two", ("team-b",)), {"share": "0.5"})
        assert told["GPUSHARE_PROJECT"] == "team-b", "nobody said which: the one that she is in now"

    told(story)


def test_limits_hold_over_all_servers_of_a_person(told: Callable[..., None]) -> None:
    """A second named server does not double what one person may have; the refusal says what to do."""

    async def story(hub: Whole) -> None:
        await start(hub.spawner("ada", "one"), {"share": "1", "share_project": "team-a"})
        error = await hub.refused(hub.spawner("ada", "two"), {"share": "0.25", "share_project": "team-a"})
        assert error.reason == "EXCEEDS_PERSON_LIMIT"
        assert "Stop another server of yours" in error.jupyterhub_message  # type: ignore[attr-defined]
        assert hub.held == [("ada", "team-a", "1")]

    told(story)


def test_same_server_started_again(told: Callable[..., None]) -> None:
    """A start that is repeated, even with another share, holds one lease: the last one's."""

    async def story(hub: Whole) -> None:
        first = await start(hub.spawner(), {"share": "0.5", "share_project": "team-a"})
        again = await start(hub.spawner(), {"share": "0.5", "share_project": "team-a"})
        assert hub.held == [("ada", "team-a", "0.5")]
        assert first["GPUSHARE_CLAIM"] == again["GPUSHARE_CLAIM"]
        await start(hub.spawner(), {"share": "0.25", "share_project": "team-a"})
        assert hub.held == [("ada", "team-a", "0.25")]

    told(story)


def test_form_of_the_real_service(told: Callable[..., None]) -> None:
    """The spawn page shows what the broker says, for this person."""

    async def story(hub: Whole) -> None:
        await start(hub.spawner("bo"), {"share": "0.5", "share_project": "team-b"})
        form = str(await hub.spawner("bo").get_options_form())
        for said in (
            "team-b · 0.5 of 1 GPUs in use by your team",
            "1 free now",
            "over quota",
            "SIMULATED",
            "data-live=",
        ):
            assert said in form
        stranger = str(await hub.spawner("mallory").get_options_form())
        assert "You are in no project that may use GPUs." in stranger
        assert "team-b" not in stranger

    told(story)


def test_two_hundred_starts_at_once(told: Callable[..., None]) -> None:
    """Sixteen GPUs hold thirty-two halves: so many start, everybody else is told to wait, and nothing is left behind."""

    async def story(hub: Whole) -> None:
        spawners = [hub.spawner(f"user-{number}", groups=("crowd",)) for number in range(200)]
        options = {"share": "0.5", "share_project": "crowd"}
        began = time.monotonic()
        outcomes = await asyncio.gather(*(start(each, options) for each in spawners), return_exceptions=True)
        sys.stdout.write(f"200 starts at once: {time.monotonic() - began:.2f} s\n")
        granted = [each for each in outcomes if isinstance(each, dict)]
        refused = [each for each in outcomes if isinstance(each, HTTPError)]
        assert (len(granted), len(refused)) == (32, 168)
        assert {(each.status_code, each.reason) for each in refused} == {(409, "WAITING_FOR_DEVICE")}
        assert len(hub.held) == 32
        books = hub.bench.service.broker.books
        assert all(each.held <= Fraction.ONE for each in books.device_books.values())
        await asyncio.gather(*map(stop, spawners))
        assert hub.held == []

    told(story, devices=16)
