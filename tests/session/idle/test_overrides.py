"""Who decides when a kernel is parked by itself, and what becomes of wrong values."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from jupyter_gpushare.broker.pool_policy import PoolPolicy
from jupyter_gpushare.session.idle.notebook_metadata import NotebookMetadata
from jupyter_gpushare.session.idle.overrides import Defaults, Overrides, kernel_spec_metadata
from jupyter_gpushare.session.idle.wish import read_wish
from jupyter_gpushare.session.requests import PolicyRequest
from jupyter_gpushare.session.wire import PolicyModel
from tests.session.idle.conftest import LOG, Clock, FakeContents

if TYPE_CHECKING:
    from pathlib import Path

DEFAULTS = Defaults(600.0)


def notebook(metadata: Any, stamp: int = 1, size: int = 100) -> dict[str, Any]:
    """A notebook's model with that metadata under ``gpushare``."""
    content = json.dumps({"cells": [], "metadata": {"gpushare": metadata}, "nbformat": 4})
    return {"last_modified": stamp, "size": size, "content": content}


class Place:
    """Overrides with a notebook and a kernel spec that a test writes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.contents = FakeContents()
        self.spec: Any = {}
        notebooks = NotebookMetadata(self.contents, log=LOG, every_s=30, deadline_s=0.2, clock=clock)
        self.pool: PoolPolicy | None = None
        self.overrides = Overrides(
            DEFAULTS, kernel_spec=self._spec, notebooks=notebooks, log=LOG, pool=lambda: self.pool
        )

    def _spec(self, _: str) -> Any:
        if isinstance(self.spec, Exception):
            raise self.spec
        return self.spec

    async def refresh(self, path: str | None = "a.ipynb") -> PolicyModel:
        self.clock.now += 31
        await self.overrides.refresh("k", path)
        return self.overrides.of("k")


@pytest.fixture(name="place")
def _place(clock: Clock) -> Place:
    return Place(clock)


async def test_the_stronger_place_decides(place: Place) -> None:
    """Configuration, kernel spec, notebook, owner: each later one overrides, and says that it decided."""
    assert place.overrides.of("k") == PolicyModel(600.0, "configuration")
    place.spec = {"gpushare": {"idle_timeout": "1h", "allow_background_work": True}}
    assert await place.refresh() == PolicyModel(3600.0, "kernel_spec", allow_background_work=True)
    place.contents.files["a.ipynb"] = notebook({"idle_timeout": 90})
    assert await place.refresh() == PolicyModel(90.0, "notebook", allow_background_work=True)
    place.overrides.set_owner("k", PolicyRequest(idle_timeout_s=None, allow_background_work=False))
    assert await place.refresh() == PolicyModel(None, "owner", allow_background_work=False)


async def test_a_pool_is_a_default_and_a_bound(place: Place) -> None:
    """Nobody's word reaches beyond the pool's timeout; a shorter one holds, and people see that the pool decided."""
    place.pool = PoolPolicy("class", idle_timeout_s=1200.0)
    assert place.overrides.of("k") == PolicyModel(1200.0, "pool", pool="class")
    place.contents.files["a.ipynb"] = notebook({"idle_timeout": "never"})
    assert await place.refresh() == PolicyModel(1200.0, "pool", pool="class")
    place.contents.files["a.ipynb"] = notebook({"idle_timeout": 90}, stamp=2)
    assert await place.refresh() == PolicyModel(90.0, "notebook")
    place.pool = None
    place.contents.files["a.ipynb"] = notebook({"idle_timeout": "2h"}, stamp=3)
    assert await place.refresh() == PolicyModel(7200.0, "notebook")


async def test_a_pool_does_not_loosen_what_the_server_was_told(place: Place) -> None:
    """A timeout that an admin configured for the server stays where the pool's is longer."""
    place.overrides._defaults = Defaults(600.0, is_said=True)
    place.pool = PoolPolicy("class", idle_timeout_s=1200.0)
    assert place.overrides.of("k") == PolicyModel(600.0, "configuration")


async def test_what_the_owner_leaves_out_stays(place: Place) -> None:
    """One field is set at a time, and a reset goes back to what the others say."""
    place.overrides.set_owner("k", PolicyRequest(idle_timeout_s=60.0))
    policy = place.overrides.set_owner("k", PolicyRequest(allow_foreign=True))
    assert policy == PolicyModel(60.0, "owner", allow_foreign=True)
    assert place.overrides.set_owner("k", PolicyRequest(reset=True)) == PolicyModel(600.0, "configuration")


@pytest.mark.parametrize(
    ("spec", "in_notebook", "timeout_s"),
    [
        ({"park": False}, {}, None),
        ({"park": False, "idle_timeout": "1h"}, {}, None),
        ({"idle_timeout": "never"}, {"park": True}, 600.0),
        ({"park": False}, {"idle_timeout": "1h"}, 3600.0),
        ({"idle_timeout": "1h"}, {"park": True, "idle_timeout": "2h"}, 7200.0),
        ({}, {"park": False}, None),
    ],
)
async def test_never_and_back(place: Place, spec: Any, in_notebook: Any, timeout_s: float | None) -> None:
    """``park: false`` is never; a stronger place undoes it with ``park: true`` or a timeout of its own."""
    place.spec = {"gpushare": spec}
    place.contents.files["a.ipynb"] = notebook(in_notebook)
    assert (await place.refresh()).idle_timeout_s == timeout_s


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"idle_timeout": "soon"}, "gpushare.idle_timeout"),
        ({"idle_timeout": True}, "gpushare.idle_timeout"),
        ({"allow_background_work": "yes"}, "gpushare.allow_background_work"),
        ({"park": 0}, "gpushare.park"),
        ({"timeout": "30m"}, "gpushare.timeout"),
        ("30m", "gpushare"),
        ({"idle_timeout": "x" * 10_000}, "gpushare.idle_timeout"),
    ],
)
async def test_a_wrong_value_is_told_once_and_ignored(
    place: Place, caplog: pytest.LogCaptureFixture, said: Any, field: str
) -> None:
    """The log hears of it once, people read the field and what to write, and what is right beside it counts."""
    place.spec = {"gpushare": {"idle_timeout": "1h"}}
    place.contents.files["a.ipynb"] = notebook(said)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await place.refresh() == PolicyModel(3600.0, "kernel_spec")
    problem = place.overrides.problem("k")
    assert problem is not None
    assert (problem.code, problem.values["field"]) == ("POLICY_IGNORED", field)
    assert len(problem.text) < 400
    assert [record.getMessage() for record in caplog.records] == [f"Kernel k: {problem.text}"]
    place.contents.files["a.ipynb"] = notebook({}, stamp=2)
    await place.refresh()
    assert place.overrides.problem("k") is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_metadata_breaks_the_reading(said: Any) -> None:
    """A notebook may come from anybody."""
    for metadata in (said, {"gpushare": said}, {"gpushare": {"idle_timeout": said, "park": said}}):
        read_wish(metadata, "notebook")


async def test_a_notebook_is_read_only_when_it_changed(place: Place) -> None:
    """Most looks ask for the time of the last change alone, and those in quick succession for nothing."""
    place.contents.files["a.ipynb"] = notebook({"idle_timeout": 90})
    for _ in range(3):
        await place.refresh()
        await place.overrides.refresh("k", "a.ipynb")
    assert place.contents.asked == [("a.ipynb", False), ("a.ipynb", True), ("a.ipynb", False), ("a.ipynb", False)]
    place.contents.files["a.ipynb"] = notebook({"idle_timeout": 120}, stamp=2)
    assert (await place.refresh()).idle_timeout_s == 120


@pytest.mark.parametrize(
    "trouble",
    [
        OSError("no such file"),
        {"last_modified": 2, "size": 4, "content": "{"},
        {"last_modified": 2, "size": 4, "content": None},
        {},
    ],
)
async def test_a_notebook_that_cannot_be_read_does_no_harm(place: Place, trouble: Any) -> None:
    """Missing, broken or odd: the kernel's policy is what the others say."""
    place.contents.files["a.ipynb"] = trouble
    assert (await place.refresh()).source == "configuration"


async def test_a_huge_notebook_is_not_read(place: Place) -> None:
    """Gigabytes of output are never loaded to find one word."""
    place.contents.files["a.ipynb"] = notebook({"idle_timeout": 90}, size=1 << 40)
    assert (await place.refresh()).source == "configuration"
    assert place.contents.asked == [("a.ipynb", False)]


async def test_what_was_read_stays_through_trouble(place: Place) -> None:
    """A contents manager that fails for a while does not change when a notebook is parked."""
    place.contents.files["a.ipynb"] = notebook({"idle_timeout": "never"})
    await place.refresh()
    place.contents.files["a.ipynb"] = OSError("the disk is away")
    assert (await place.refresh()).idle_timeout_s is None


async def test_a_slow_contents_manager_is_not_waited_for(place: Place) -> None:
    """One that never answers has a deadline."""

    async def hang(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    place.contents.get = hang  # type: ignore[method-assign]
    assert (await asyncio.wait_for(place.refresh(), 30)).source == "configuration"


async def test_only_notebooks_are_asked_for(place: Place) -> None:
    """A console's kernel has no notebook, and one without any path neither."""
    for path in (None, "console-1-abc", "a.py"):
        await place.refresh(path)
    assert place.contents.asked == []


async def test_a_kernel_spec_that_cannot_be_read_does_no_harm(place: Place) -> None:
    """Whatever a kernel spec manager raises."""
    place.spec = KeyError("python3")
    assert (await place.refresh()).source == "configuration"


async def test_a_kernel_that_ended_is_forgotten(place: Place) -> None:
    """Its owner's word dies with it, even if its notebook is being read at that moment."""
    place.overrides.set_owner("k", PolicyRequest(idle_timeout_s=None))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def get(*_: Any, **__: Any) -> Any:
        begun.set()
        await go_on.wait()
        return notebook({"idle_timeout": "never"})

    place.contents.get = get  # type: ignore[method-assign]
    refreshing = asyncio.ensure_future(place.refresh())
    await begun.wait()
    place.overrides.forget("k")
    go_on.set()
    await refreshing
    assert place.overrides.of("k") == PolicyModel(600.0, "configuration")


async def test_jupyters_own_contents_manager_is_understood(tmp_path: Path) -> None:
    """A real notebook, through the manager that Jupyter Server uses."""
    metadata = {"gpushare": {"idle_timeout": "30m"}, "kernelspec": {"name": "python3", "display_name": "Python"}}
    (tmp_path / "a.ipynb").write_text(
        json.dumps({"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})
    )
    contents = AsyncLargeFileManager(root_dir=str(tmp_path))
    assert await NotebookMetadata(contents, log=LOG).read("a.ipynb") == metadata


def test_jupyters_own_kernel_specs_are_understood() -> None:
    """A real kernel manager's spec has metadata, which the installed ones leave empty of ours."""
    from jupyter_server.services.kernels.kernelmanager import ServerKernelManager

    manager = ServerKernelManager(kernel_name="python3")

    class Managers:
        def get_kernel(self, _: str) -> Any:
            return manager

    assert isinstance(kernel_spec_metadata(Managers(), "k"), dict)
