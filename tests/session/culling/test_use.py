"""Since when nobody and nothing has used a server: what counts, what does not, and what is not enough to know."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.session.culling.touches import Touches
from tests.session.culling.conftest import LOG, SERVER_PID
from tests.session.idle.conftest import NOON, Clock, use_of

if TYPE_CHECKING:
    from tests.session.culling.conftest import Town

HOLDS = use_of("a")


async def test_an_idle_server_says_since_when(town: Town) -> None:
    """With a kernel that holds a GPU, one that does not, and time gone by, the server has been idle since noon."""
    town.start("a")
    town.start("b")
    await town.go(3600, HOLDS)
    idle_s = town.idle_s()
    assert idle_s is not None
    assert 3500 <= idle_s <= 3600


async def test_a_server_without_kernels_is_idle(town: Town) -> None:
    """Nothing runs: since its start, or since somebody last did something."""
    await town.go(600)
    assert town.idle_s() == pytest.approx(town.clock.now - NOON - 20, abs=25)
    town.touched = town.clock.now - 5
    await town.go(20)
    assert town.idle_s() == pytest.approx(25)


async def test_parked_is_idle(town: Town) -> None:
    """A parked kernel needs no reading of the GPU."""
    town.start("a")
    town.park("a")
    await town.go(600)
    assert town.idle_s() is not None
    town.held["a"] = 1
    await town.go(20)
    assert town.idle_s() is None


@pytest.mark.parametrize("status", ["asked", "parking", "waiting", "resuming"])
async def test_what_moves_is_in_use(town: Town, status: Any) -> None:
    """Somebody waits for it, or it is on its way."""
    town.start("a")
    town.park("a")
    town.parkings["a"].status = status
    await town.go(600)
    assert town.idle_s() is None


async def test_a_cell_is_use(town: Town) -> None:
    """However long it is silent, and wherever it computes."""
    town.start("a")
    town.start("b")
    await town.go(600, HOLDS)
    town.kernels.begin_cell("b")
    await town.go(9 * 3600, HOLDS, step_s=60)
    assert town.idle_s() is None
    town.kernels.end_cell("b")
    await town.go(100, HOLDS)
    assert town.idle_s() == pytest.approx(100, abs=40)


async def test_polls_are_no_use(town: Town) -> None:
    """A resource monitor that makes the kernel busy whenever we look does not keep a server for ever."""
    town.start("a")
    town.kernels.states["a"] = "busy"
    await town.go(600, HOLDS)
    assert town.idle_s() is not None


async def test_work_behind_the_cells_is_use(town: Town) -> None:
    """A thread that takes 3 % of a core; also where its owner allowed parking in spite of it, as more is at stake."""
    town.start("a")
    pid = town.kernels.pids["a"] or 0
    for _ in range(60):
        town.trees[pid][pid] += 60
        await town.go(20, HOLDS)
    assert town.idle_s() is None
    await town.go(300, HOLDS)
    assert town.idle_s() is not None


async def test_a_gpu_in_use_is_use(town: Town) -> None:
    """A kernel whose GPU is busy without a cell, and one of which nobody can say whether it is."""
    town.start("a")
    await town.go(600, use_of("a", percent=40))
    assert town.idle_s() is None
    await town.go(600, use_of("a", percent=None))
    assert town.idle_s() is None
    await town.go(600, HOLDS)
    assert town.idle_s() is not None


async def test_what_runs_outside_kernels_is_use(town: Town) -> None:
    """A terminal that computes, or another program that somebody started below the server, such as an editor."""
    town.start("a")
    town.trees[70] = {70: 0}
    for _ in range(30):
        town.trees[70][70] += 100
        await town.go(20, HOLDS)
    assert town.idle_s() is None
    await town.go(300, HOLDS)
    assert town.idle_s() is not None
    await town.go(300, HOLDS, use_of("t1", kind="terminal"))
    assert town.idle_s() is None, "a program outside kernels that holds a GPU"


async def test_the_servers_own_work_is_no_use(town: Town) -> None:
    """We measure, and Jupyter serves pages: that keeps nobody's server."""
    for _ in range(30):
        town.trees[SERVER_PID][SERVER_PID] += 500
        await town.go(20)
    assert town.idle_s() is not None


async def test_what_runs_elsewhere_is_not_known(town: Town) -> None:
    """A kernel behind a gateway has no process here: nothing says that it is idle."""
    town.start("a")
    town.kernels.pids["a"] = None
    await town.go(600)
    assert town.idle_s() is None


class FakeHandler:
    """A request that was answered."""

    def __init__(self, method: str, path: str, status: int = 200) -> None:
        self.request = SimpleNamespace(method=method, path=path)
        self._status = status

    def get_status(self) -> int:
        """As tornado's."""
        return self._status


@pytest.mark.parametrize(
    ("method", "path", "status", "is_touched"),
    [
        ("PUT", "/user/ana/api/contents/a.ipynb", 200, True),
        ("POST", "/api/sessions", 201, True),
        ("DELETE", "/api/terminals/1", 204, True),
        ("POST", "/gpushare/api/v1/keep", 200, True),
        ("GET", "/api/contents/a.ipynb", 200, False),
        ("GET", "/api/kernels", 200, False),
        ("POST", "/git/status", 200, False),  # an extension that polls
        ("POST", "/gpushare/api/v1/kernels/x/report", 200, False),  # a kernel, not a person
        ("PUT", "/api/contents/a.ipynb", 403, False),
    ],
)
def test_who_does_something_is_there(method: str, path: str, status: int, is_touched: bool) -> None:  # noqa: FBT001  # a row
    """What people do counts; what an open page asks by itself does not, and the server's own log goes on."""
    clock, logged = Clock(), list[Any]()
    settings: dict[str, Any] = {"log_function": logged.append}
    touches = Touches(settings, SimpleNamespace(add_listener=lambda **_: None), log=LOG, clock=clock)
    touches.install()
    clock.now += 100
    handler = FakeHandler(method, path, status)
    settings["log_function"](handler)
    assert (touches.last == NOON + 100) is is_touched
    assert logged == [handler]


async def test_saved_by_whatever_way(jp_serverapp: Any, until: Any) -> None:
    """A document that collaboration saves, without any request, is an event of the real contents manager."""
    clock = Clock()
    touches = Touches({}, jp_serverapp.event_logger, log=LOG, clock=clock)
    touches.install()
    clock.now += 100
    contents = jp_serverapp.contents_manager
    model = {"type": "file", "format": "text", "content": "hello"}
    saved = contents.save(model, "a.txt")
    await saved if asyncio.iscoroutine(saved) else None
    await until(lambda: touches.last == NOON + 100)
