"""`setup_gpushare` on real spawners: whatever the admin had configured stays, and still runs."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

import pytest
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner  # type: ignore[import-untyped]
from tornado.web import HTTPError
from traitlets import List, Unicode, default
from traitlets.config import Config

from jupyter_gpushare.hub import GpuShareAdmission, setup_gpushare
from jupyter_gpushare.hub.chaining import SetUpTwiceError
from jupyter_gpushare.schedulers import KaiScheduler

from .spawners import Site, make, settled, start, stop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub keeps its state where it was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUSHARE_SIMULATED_MACHINE", raising=False)


def test_shares_of_different_users_do_not_mix(tmp_path: Path) -> None:
    """A hook may give every spawner one and the same environment, so a share must never be written into it."""
    everybodys = {"TEAM": "a"}
    site = Site(tmp_path)
    site.c.Spawner.pre_spawn_hook = lambda spawner: setattr(spawner, "environment", everybodys)
    ada = make(LocalProcessSpawner, site.c)

    async def story(_: Any) -> None:
        nonlocal ada
        ada = make(LocalProcessSpawner, site.c)
        await start(ada, {"share": "0.5"})

    site.run(story)
    assert (ada.environment["TEAM"], ada.environment["GPUSHARE_SHARE"]) == ("a", "0.5")
    assert everybodys == {"TEAM": "a"}


def refused(c: Config, options: Any, spawner_class: type[Any] = LocalProcessSpawner) -> tuple[Any, HTTPError]:
    """A start of *c* that is refused: the spawner, and with what."""
    spawner = make(spawner_class, c)
    with pytest.raises(HTTPError) as caught:
        asyncio.run(start(spawner, options))
    return spawner, caught.value


def test_refusal_is_the_users_error() -> None:
    """A share that is not offered is answered with 422 and a sentence for the user, and nothing is set."""
    c = Config()
    setup_gpushare(c, shares=["0.25"])
    spawner, error = refused(c, {"share": "1"})
    assert error.status_code == 422
    assert error.jupyterhub_message == 'The share "1" is not offered here. Choose one of these: 0.25.'  # type: ignore[attr-defined]
    assert "GPUSHARE_SHARE" not in spawner.environment


def test_hub_5_does_not_count_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterHub 5 ends itself after some failed starts in a row; a user's wrong share must not be one of them."""
    monkeypatch.delattr("jupyterhub.spawner.SpawnException", raising=False)
    c = Config()
    setup_gpushare(c, shares=["0.25"])
    spawner, error = refused(c, {"share": "100%s"})
    assert (error.status_code, error.reason) == (422, "SHARE_NOT_OFFERED")
    assert "100%s" in str(error)
    assert spawner.user.settings["failure_count"] + 1 == 0, "the hub adds one"


@pytest.mark.parametrize("is_async", [False, True])
def test_hooks_set_before_still_run(tmp_path: Path, is_async: bool) -> None:  # noqa: FBT001  # a test's parameter
    """A hook in any section runs as before, may be a coroutine, and may choose a user's options."""
    ran: list[str] = []

    def hook(name: str) -> Any:
        def plain(spawner: Any) -> None:
            ran.append(name)
            spawner.user_options = {"share": "0.5"}

        async def coroutine(spawner: Any) -> None:
            plain(spawner)

        return coroutine if is_async else plain

    site = Site(tmp_path, shares=["0.25", "0.5"])
    site.c.Spawner.pre_spawn_hook = hook("all")
    site.c.Spawner.post_stop_hook = hook("stopped")
    site.c.SimpleLocalProcessSpawner.pre_spawn_hook = hook("simple")

    async def story(_: Any) -> list[str]:
        simple, local = (make(each, site.c) for each in (SimpleLocalProcessSpawner, LocalProcessSpawner))
        shares = [(await start(each, {}))["GPUSHARE_SHARE"] for each in (simple, local)]
        await stop(simple)
        return shares

    assert site.run(story) == ["0.5", "0.5"]
    assert ran == ["simple", "all", "stopped"]
    assert site.service.ended == [("hub:ada/", "ada")]


def test_stop_hook_of_an_admin_that_fails(tmp_path: Path) -> None:
    """The lease ends first: an admin's own hook may fail afterwards."""

    def fails(_: Any) -> None:
        raise RuntimeError("the admin's own")

    site = Site(tmp_path)
    site.c.Spawner.post_stop_hook = fails

    async def story(_: Any) -> None:
        with pytest.raises(RuntimeError, match="the admin's own"):
            await stop(make(LocalProcessSpawner, site.c))

    site.run(story)
    assert site.service.ended


def test_section_that_says_no_hook() -> None:
    """A section with an explicit None would win over ours, and let any share pass."""
    c = Config()
    c.LocalProcessSpawner.pre_spawn_hook = None
    setup_gpushare(c, shares=["0.25"])
    assert refused(c, {"share": "1"})[1].status_code == 422


def test_spawner_with_a_name_of_its_own() -> None:
    """A spawner class whose name says nothing is found by `JupyterHub.spawner_class`."""

    class Campus(LocalProcessSpawner):  # type: ignore[misc]
        pass

    ran: list[str] = []
    c = Config()
    c.JupyterHub.spawner_class = Campus
    c.Campus.pre_spawn_hook = lambda _: ran.append("campus")
    setup_gpushare(c, shares=["0.25"])
    assert refused(c, {"share": "1"}, Campus)[1].status_code == 422
    assert ran == ["campus"]


class HookedSpawner(LocalProcessSpawner):  # type: ignore[misc]
    """A spawner whose class brings hooks along, one of them a coroutine."""

    ran = List(Unicode())

    @default("pre_spawn_hook")
    def _default_pre_spawn_hook(self) -> Any:
        return lambda spawner: spawner.ran.append("class starts")

    @default("post_stop_hook")
    def _default_post_stop_hook(self) -> Any:
        async def stopped(spawner: Any) -> None:
            spawner.ran.append("class stops")

        return stopped


@pytest.mark.parametrize("is_said", [False, True])
def test_hooks_of_the_spawners_class_run_as_before(tmp_path: Path, is_said: bool) -> None:  # noqa: FBT001
    """A class's own hooks run, unless the configuration says others, which take their place as without us."""
    site = Site(tmp_path)
    if is_said:
        site.c.Spawner.pre_spawn_hook = lambda spawner: spawner.ran.append("config starts")
        site.c.HookedSpawner.post_stop_hook = None

    async def story(_: Any) -> list[str]:
        spawner = make(HookedSpawner, site.c)
        await start(spawner, {"share": "0.5"})
        await stop(spawner)
        return list(spawner.ran)

    assert site.run(story) == (["config starts"] if is_said else ["class starts", "class stops"])
    assert site.service.ended == [("hub:ada/", "ada")]


def form_of(spawner: Any) -> str:
    """The spawn page's form."""
    return str(asyncio.run(spawner.get_options_form()))


def options_of(spawner: Any, form: dict[str, list[str]]) -> Any:
    """What the hub stores as the user's options when the form is sent."""
    return asyncio.run(settled(spawner.run_options_from_form(form)))


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
    fields = {"share": ["0.5"], "image": ["x"], "share_custom": [""], "share_kind": [""], "share_project": [""]}
    assert options_of(spawner, fields) == {"read": ["image"], "share": "0.5"}


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


@pytest.mark.parametrize(
    ("last", "selected"),
    [({"share": "0.5"}, "0.5"), ({"share": "7"}, "0.25"), ({}, "0.25"), ({"share": "none"}, "none")],
)
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
    error = refused(c, {}, StubbornSpawner)[1]
    assert error.status_code == 500
    assert "another options_from_form in place of the one from setup_gpushare(c)" in error.jupyterhub_message  # type: ignore[attr-defined]


def test_scheduler_without_kubespawner() -> None:
    """A scheduler with a spawner that makes no pods books nothing, so no server starts."""
    c = Config()
    setup_gpushare(c, shares=["0.25"], scheduler=KaiScheduler())
    assert refused(c, {})[1].status_code == 500


class OtherAdmission(GpuShareAdmission):
    """An admin's own."""


UNREAD = {
    "config": None,
    "custom": "2",
    "kinds": ["a100"],
    "no_gpu": False,
    "queue_timeout": -5,
    "broker_away": "open",
    "state": "elsewhere",
    "ledger": "postgresql://hub:secret@db/gpushare",
    "port": 10999,
    "server_url": "http://hub:8000/services/gpushare/",
    "environment": {"TEAM": "a"},
    "unix_users": True,
    "admission": OtherAdmission,
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_a_scheduler_does_not_read(name: str) -> None:
    """An admin who gives what would do nothing on a cluster is told, before any hub runs without it."""
    c = Config()
    with pytest.raises(ValueError, match=f"^{name}: it would do nothing here, since with a scheduler") as caught:
        setup_gpushare(c, scheduler=KaiScheduler(), **{name: UNREAD[name]})  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    assert not c.KubeSpawner, "nothing is half set up"


def test_every_argument_is_read_or_refused_on_a_cluster() -> None:
    """Nobody adds one that does nothing there."""
    c = Config()
    setup_gpushare(c, shares=["0.5"], default="0.5", scheduler=KaiScheduler(), project="x", priority="y")
    read = {"c", "shares", "default", "scheduler", "project", "priority"}
    assert read | UNREAD.keys() == inspect.signature(setup_gpushare).parameters.keys()


def test_priority_without_a_scheduler() -> None:
    """A priority class is a pod's; without a scheduler it would be ignored."""
    with pytest.raises(ValueError, match=r"^priority: it would do nothing here"):
        setup_gpushare(Config(), priority="high")


@pytest.mark.parametrize("scheduler", [None, KaiScheduler()])
def test_second_call(scheduler: Any) -> None:
    """A second call would ask twice and offer two lists; it is refused, whatever the first was for."""
    c = Config()
    setup_gpushare(c, shares=["0.25"])
    with pytest.raises(SetUpTwiceError):
        setup_gpushare(c, shares=["0.5"], scheduler=scheduler)


def test_plain_call_offers_something(tmp_path: Path) -> None:
    """`setup_gpushare(c)` alone is enough to begin with."""
    site = Site(tmp_path)
    assert site.run(lambda _: start(make(LocalProcessSpawner, site.c), {"share": "0.5"}))["GPUSHARE_SHARE"] == "0.5"


class RegionSpawner(LocalProcessSpawner):  # type: ignore[misc]
    """A spawner that takes options in by itself."""

    region = Unicode()

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Any:
        return {"region": "region"}


def applied(
    spawner_class: type[Any], options: dict[str, str], caplog: pytest.LogCaptureFixture, said: Any = None
) -> Any:
    """A spawner to which the hub has applied *options*."""
    c = Config()
    if said is not None:
        c.Spawner.apply_user_options = said
    c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # any other is warned of
    setup_gpushare(c, shares=["0.25"])
    spawner = make(spawner_class, c, log=logging.getLogger("hub-of-a-test"))
    with caplog.at_level(logging.WARNING):
        asyncio.run(spawner._run_apply_user_options(options))
    return spawner


def test_hub_warns_of_no_option_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """Each start would fill the log otherwise; an option that nobody reads is still warned of."""
    applied(LocalProcessSpawner, {"share": "0.25", "share_project": "x"}, caplog)
    assert caplog.messages == []
    applied(LocalProcessSpawner, {"share": "0.25", "imgae": "x"}, caplog)
    assert caplog.messages == ["Received unhandled user_options: imgae"]


def test_options_are_applied_as_before(caplog: pytest.LogCaptureFixture) -> None:
    """What a spawner's class or an admin does with options, it goes on doing."""
    assert applied(RegionSpawner, {"share": "0.25", "region": "eu"}, caplog).region == "eu"
    seen: list[Any] = []
    applied(LocalProcessSpawner, {"share": "0.25"}, caplog, said=lambda _, options: seen.append(options))
    assert seen == [{"share": "0.25"}]
