"""`setup_gpushare` on real spawners: whatever the admin had configured stays, and the share reaches the server."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner  # type: ignore[import-untyped]
from tornado.web import HTTPError
from traitlets import default
from traitlets.config import Config

from jupyter_gpushare.hub import setup_gpushare
from jupyter_gpushare.hub.chaining import SetUpTwiceError
from jupyter_gpushare.schedulers import KaiScheduler


def make(spawner_class: type[Spawner], c: Config) -> Any:
    """A spawner as the hub makes one for a user."""
    user = SimpleNamespace(name="ada", url="/user/ada", settings={"failure_count": 0})
    return spawner_class(config=c, user=user, hub=SimpleNamespace())


def run(value: Any) -> Any:
    """*value*, awaited if it wants to be."""

    async def outcome() -> Any:
        return await value

    return asyncio.run(outcome()) if inspect.isawaitable(value) else value


def start(spawner: Any, options: Any) -> str:
    """The steps of the hub's start that are ours; the share that the server's environment then has."""
    spawner.user_options = options
    run(spawner.run_pre_spawn_hook())
    share: str = spawner.environment["GPUSHARE_SHARE"]
    return share


@pytest.mark.parametrize("spawner_class", [LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner])
def test_share_reaches_the_environment(spawner_class: type[Spawner]) -> None:
    """Any spawner's server is told its share; a spawner that starts again does not keep the last one."""
    c = Config()
    setup_gpushare(c, shares=["0.25", "0.5"])
    spawner = make(spawner_class, c)
    assert start(spawner, {"share": "0.5"}) == "0.5"
    assert start(spawner, {}) == "0.25"


def test_shares_of_different_users_do_not_mix() -> None:
    """A hook may give every spawner one and the same environment, so a share must never be written into it."""
    everybodys = {"TEAM": "a"}
    c = Config()
    c.Spawner.pre_spawn_hook = lambda spawner: setattr(spawner, "environment", everybodys)
    setup_gpushare(c, shares=["0.25", "0.5"])
    ada = make(LocalProcessSpawner, c)
    start(ada, {"share": "0.5"})
    assert ada.environment == {"TEAM": "a", "GPUSHARE_SHARE": "0.5"}
    assert everybodys == {"TEAM": "a"}


def test_refusal_is_the_users_error() -> None:
    """A share that is not offered is answered with 422 and a sentence for the user, and nothing is set."""
    c = Config()
    setup_gpushare(c, shares=["0.25"])
    spawner = make(LocalProcessSpawner, c)
    with pytest.raises(HTTPError) as caught:
        start(spawner, {"share": "1"})
    assert caught.value.status_code == 422
    assert caught.value.jupyterhub_message == 'The share "1" is not offered here. Choose one of these: 0.25.'  # type: ignore[attr-defined]
    assert "GPUSHARE_SHARE" not in spawner.environment


def test_hub_5_does_not_count_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterHub 5 ends itself after some failed starts in a row; a user's wrong share must not be one of them."""
    monkeypatch.delattr("jupyterhub.spawner.SpawnException", raising=False)
    c = Config()
    setup_gpushare(c, shares=["0.25"])
    spawner = make(LocalProcessSpawner, c)
    with pytest.raises(HTTPError) as caught:
        start(spawner, {"share": "100%s"})
    assert (caught.value.status_code, caught.value.reason) == (422, "SHARE_NOT_OFFERED")
    assert "100%s" in str(caught.value)
    assert spawner.user.settings["failure_count"] + 1 == 0, "the hub adds one"


@pytest.mark.parametrize("is_async", [False, True])
def test_hooks_set_before_still_run(is_async: bool) -> None:  # noqa: FBT001  # a test's parameter
    """A hook in any section runs as before, may be a coroutine, and may choose a user's options."""
    ran: list[str] = []

    def hook(name: str) -> Any:
        def plain(spawner: Any) -> None:
            ran.append(name)
            spawner.user_options = {"share": "0.5"}

        async def coroutine(spawner: Any) -> None:
            plain(spawner)

        return coroutine if is_async else plain

    c = Config()
    c.Spawner.pre_spawn_hook = hook("all")
    c.SimpleLocalProcessSpawner.pre_spawn_hook = hook("simple")
    setup_gpushare(c, shares=["0.25", "0.5"])
    assert start(make(SimpleLocalProcessSpawner, c), {}) == "0.5"
    assert start(make(LocalProcessSpawner, c), {}) == "0.5"
    assert ran == ["simple", "all"]


def test_section_that_says_no_hook() -> None:
    """A section with an explicit None would win over ours, and let any share pass."""
    c = Config()
    c.LocalProcessSpawner.pre_spawn_hook = None
    setup_gpushare(c, shares=["0.25"])
    assert start(make(LocalProcessSpawner, c), {}) == "0.25"


def test_spawner_with_a_name_of_its_own() -> None:
    """A spawner class whose name says nothing is found by `JupyterHub.spawner_class`."""

    class Campus(LocalProcessSpawner):  # type: ignore[misc]
        pass

    ran: list[str] = []
    c = Config()
    c.JupyterHub.spawner_class = Campus
    c.Campus.pre_spawn_hook = lambda _: ran.append("campus")
    setup_gpushare(c, shares=["0.25"])
    assert start(make(Campus, c), {}) == "0.25"
    assert ran == ["campus"]


def form_of(spawner: Any) -> str:
    """The spawn page's form."""
    return str(asyncio.run(spawner.get_options_form()))


def options_of(spawner: Any, form: dict[str, list[str]]) -> Any:
    """What the hub stores as the user's options when the form is sent."""
    return run(spawner.run_options_from_form(form))


@pytest.mark.parametrize("form", ["<p>mine</p>", lambda _: "<p>mine</p>"])
def test_form_set_before_is_kept(form: Any) -> None:
    """The admin's form stands under the picker, and its reader gets all fields but ours."""
    c = Config()
    c.Spawner.options_form = form
    c.Spawner.options_from_form = lambda formdata: {"read": sorted(formdata)}
    setup_gpushare(c, shares=["0.25", "0.5"])
    spawner = make(LocalProcessSpawner, c)
    assert form_of(spawner).endswith("<p>mine</p>")
    assert 'value="0.5"' in form_of(spawner)
    assert options_of(spawner, {"share": ["0.5"], "image": ["x"]}) == {"read": ["image"], "share": "0.5"}


def test_named_form_readers() -> None:
    """JupyterHub's own readers can be set by name, and go on working."""
    c = Config()
    c.Spawner.options_from_form = "simple"
    setup_gpushare(c, shares=["0.25"])
    options = options_of(make(LocalProcessSpawner, c), {"share": ["0.25"], "on": ["on"], "two": ["a", "b"]})
    assert options == {"on": True, "two": ["a", "b"], "share": "0.25"}


class ImageSpawner(LocalProcessSpawner):  # type: ignore[misc]
    """Like DockerSpawner: a form and a reader that come with the class."""

    @default("options_form")
    def _default_options_form(self) -> str:
        return f"<p>images of {self.user.name}</p>"

    @default("options_from_form")
    def _default_options_from_form(self) -> Any:
        return lambda formdata: {"image": formdata["image"][0]}


def test_form_of_the_spawners_class_is_kept() -> None:
    """A spawner that offers images goes on offering them."""
    c = Config()
    setup_gpushare(c, shares=["0.25", "0.5"])
    spawner = make(ImageSpawner, c)
    assert form_of(spawner).endswith("<p>images of ada</p>")
    assert options_of(spawner, {"image": ["torch"], "share": ["0.5"]}) == {"image": "torch", "share": "0.5"}


def test_form_with_a_share_that_is_not_offered() -> None:
    """The form's reader refuses at once, so that the page comes back instead of a failed start."""
    c = Config()
    setup_gpushare(c, shares=["0.25"])
    with pytest.raises(HTTPError, match="422"):
        options_of(make(LocalProcessSpawner, c), {"share": ["1"]})


@pytest.mark.parametrize(("last", "selected"), [({"share": "0.5"}, "0.5"), ({"share": "7"}, "0.25"), ({}, "0.25")])
def test_last_choice_is_selected(last: dict[str, str], selected: str) -> None:
    """Who comes back finds the last pick selected, as long as it is still offered."""
    c = Config()
    setup_gpushare(c, shares=["0.25", "0.5"])
    spawner = make(LocalProcessSpawner, c)
    spawner.user_options = last
    (checked,) = [line for line in form_of(spawner).splitlines() if line.endswith(" checked>")]
    assert f'value="{selected}"' in checked


class StubbornSpawner(LocalProcessSpawner):  # type: ignore[misc]
    """An older spawner whose reader is a method, which no configuration replaces."""

    def options_from_form(self, formdata: Any) -> dict[str, Any]:
        return {"image": formdata["image"][0]}


def test_reader_that_cannot_be_replaced() -> None:
    """Where the picked share would be dropped unseen, no server starts, and the admin is told."""
    c = Config()
    setup_gpushare(c, shares=["0.25"])
    with pytest.raises(HTTPError, match="500") as caught:
        start(make(StubbornSpawner, c), {})
    assert "another options_from_form in place of the one from setup_gpushare(c)" in caught.value.jupyterhub_message  # type: ignore[attr-defined]


def test_scheduler_without_kubespawner() -> None:
    """A scheduler with a spawner that makes no pods books nothing, so no server starts."""
    c = Config()
    setup_gpushare(c, shares=["0.25"], scheduler=KaiScheduler())
    with pytest.raises(HTTPError, match="500"):
        start(make(LocalProcessSpawner, c), {})


@pytest.mark.parametrize("scheduler", [None, KaiScheduler()])
def test_second_call(scheduler: Any) -> None:
    """A second call would ask twice and offer two lists; it is refused, whatever the first was for."""
    c = Config()
    setup_gpushare(c, shares=["0.25"])
    with pytest.raises(SetUpTwiceError):
        setup_gpushare(c, shares=["0.5"], scheduler=scheduler)


def test_plain_call_offers_something() -> None:
    """`setup_gpushare(c)` alone is enough to begin with."""
    c = Config()
    setup_gpushare(c)
    assert start(make(LocalProcessSpawner, c), {"share": "0.5"}) == "0.5"
