"""A server starts when the broker has granted its share, and not otherwise; its lease ends with it."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner  # type: ignore[import-untyped]
from prometheus_client import REGISTRY
from tornado.web import HTTPError

from jupyter_gpushare.hub import GpuShareAdmission, Offers
from jupyter_gpushare.hub.admission import SealedError
from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.wait_link import WaitLink
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.rules.reason import Reason

from .spawners import Site, make, start, stop
from .stand_in_service import TOKEN, StandInService, picture_of

if TYPE_CHECKING:
    from pathlib import Path

HALF = {"share": "0.5", "share_project": "team-a"}
OVER_QUOTA = (
    409,
    "EXCEEDS_PROJECT_QUOTA",
    "team-a has 4 GPU for notebooks, and 3.5 is taken or asked for by those in line; ask for less, or later.",
)
NO_ROOM = (409, "WAITING_FOR_DEVICE", "Waits for a GPU with 0.5 free.")


def denied(site: Site, options: Any, *, spawner: Any = None, name: str = "ada") -> HTTPError:
    """The refusal of a start with *options*."""

    async def story(service: StandInService) -> HTTPError:
        ours = make(LocalProcessSpawner, site.c, name=name) if spawner is None else spawner(site.c)
        with pytest.raises(HTTPError) as caught:
            await start(ours, options)
        assert not [name for name in ours.environment if name.startswith("GPUSHARE_")], "a refused start leaves nothing"
        await stop(ours)
        return caught.value

    error: HTTPError = site.run(story)
    return error


@pytest.mark.parametrize("spawner_class", [LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner])
def test_granted_share_reaches_the_server(tmp_path: Path, spawner_class: type[Spawner]) -> None:
    """Any spawner's server is told its share, its claim, a token that works for it alone, and where the broker is."""
    site = Site(tmp_path)

    async def story(service: StandInService) -> dict[str, str]:
        return await start(make(spawner_class, site.c, groups=["team-a", "everybody"]), HALF)

    told = site.run(story)
    assert told == {
        "GPUSHARE_SHARE": "0.5",
        "GPUSHARE_PROJECT": "team-a",
        "GPUSHARE_CLAIM": "hub:ada/",
        "GPUSHARE_BROKER_TOKEN": TOKEN,
        "GPUSHARE_BROKER": f"http://127.0.0.1:{site.service.port}/services/gpushare/",
        "GPUSHARE_HUB_SERVICE": f"http://127.0.0.1:{site.service.port}/services/gpushare/",
    }
    ((key, claim),) = site.service.asked
    assert key == claim_key("ada", "") == "hub:ada/"
    assert (claim.person, claim.share, claim.project) == ("ada", "0.5", "team-a")
    assert claim.groups == ["everybody", "team-a"], "the broker learns them as they are now"
    assert claim.is_starting
    assert not claim.wait
    assert site.service.tokens == [f"Bearer {site.service.secret}"], "the hub's own, which may claim for others"


def test_share_is_kept_as_long_as_a_start_may_take(tmp_path: Path) -> None:
    """A grant must outlive a slow start: image pulled, server answering, and some slack."""
    site = Site(tmp_path)
    site.c.LocalProcessSpawner.start_timeout = 900
    site.c.LocalProcessSpawner.http_timeout = 60
    site.run(lambda _: start(make(LocalProcessSpawner, site.c), HALF))
    assert site.service.asked[0][1].reserve_s == 990


def test_next_start_forgets_the_last_one(tmp_path: Path) -> None:
    """The hub keeps a spawner between starts: neither its last token nor its last share may reach the next server."""
    site = Site(tmp_path, shares=["0.25", "0.5"])

    async def story(_: StandInService) -> list[dict[str, str]]:
        spawner = make(LocalProcessSpawner, site.c)
        return [await start(spawner, options) for options in (HALF, {"share": "none"}, {"share": "0.25"})]

    first, second, third = site.run(story)
    assert first["GPUSHARE_BROKER_TOKEN"] == TOKEN
    assert second == {
        "GPUSHARE_SHARE": "none",
        "GPUSHARE_CLAIM": first["GPUSHARE_CLAIM"],
        "GPUSHARE_BROKER": first["GPUSHARE_BROKER"],
        "GPUSHARE_HUB_SERVICE": first["GPUSHARE_BROKER"],
    }
    assert third["GPUSHARE_SHARE"] == "0.25"
    assert third["GPUSHARE_PROJECT"] == "default", "nobody said which, and nobody could be asked"


def test_no_gpu_claims_nothing(tmp_path: Path) -> None:
    """Who wants none holds nothing back from others, and needs no broker for it; Lab can ask for a share later."""
    site = Site(tmp_path)
    site.service.refusal = OVER_QUOTA
    told = site.run(lambda _: start(make(LocalProcessSpawner, site.c), {"share": "none"}))
    assert told["GPUSHARE_SHARE"] == "none"
    assert told["GPUSHARE_BROKER"]
    assert told["GPUSHARE_CLAIM"] == "hub:ada/", "what it takes later ends with it"
    assert site.service.asked == []


def test_stopped_server_ends_its_lease(tmp_path: Path) -> None:
    """Whatever ended the server, its lease ends with it; each named server has its own."""
    site = Site(tmp_path)

    async def story(_: StandInService) -> None:
        spawner = make(
            LocalProcessSpawner, site.c, orm_spawner=SimpleNamespace(name="gpu box", state=None, server=None)
        )
        await start(spawner, HALF)
        await stop(spawner)

    site.run(story)
    assert site.service.asked[0][0] == "hub:ada/gpu box"
    assert site.service.ended == [("hub:ada/gpu box", "ada")]


def test_server_of_a_hub_that_was_restarted(tmp_path: Path) -> None:
    """A hub that came back has new spawners for servers that ran on: their leases end with them too."""
    site = Site(tmp_path)
    site.run(lambda _: stop(make(LocalProcessSpawner, site.c)))
    assert site.service.ended == [("hub:ada/", "ada")]


def test_over_quota_is_refused_at_once(tmp_path: Path) -> None:
    """The person reads why, what to do instead and when it could work; the hub counts no failure of its own."""
    site = Site(tmp_path)
    site.service.refusal = OVER_QUOTA
    error = denied(site, HALF)
    assert (error.status_code, error.reason) == (422, "EXCEEDS_PROJECT_QUOTA")
    text = error.jupyterhub_message  # type: ignore[attr-defined]
    assert text.startswith(
        "team-a has 4 GPU for notebooks, and 3.5 is taken or asked for by those in line; ask for less, or later. "
    )
    assert "ask an owner of team-a for more" in text
    assert "as soon as somebody of team-a ends a server" in text
    assert '<a href="/services/gpushare/sessions">My shares</a>' in error.jupyterhub_html_message  # type: ignore[attr-defined]
    assert site.service.ended == [], "there was no lease, and another of that name may stand in line"


REFUSALS = ["EXCEEDS_", "NO_SUCH_", "NOT_A", "PARKED_MEMORY"]


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_waits_or_is_refused(tmp_path: Path, reason: Reason) -> None:
    """Where waiting helps one is told so, whatever the reason: only what waiting cannot change is refused for good."""
    site = Site(tmp_path)
    site.service.refusal = (409, reason.value, "The rules' own sentence.")
    error = denied(site, HALF)
    assert error.status_code == (422 if reason.name.startswith(tuple(REFUSALS)) else 409)
    assert "The rules' own sentence." in error.jupyterhub_message  # type: ignore[attr-defined]


class _Page:
    """A hub's handler of the spawn page, as far as we look at it."""

    def __init__(self, *, method: str = "POST", user: str = "ada", path: str = "/hub/spawn/ada", **said: Any) -> None:
        arguments = {"share": [b"0.5"], "image": [b"torch", b"\xc3\xa9"], "_xsrf": [b"secret"]}
        query = {"next": [b"/hub/user/ada/lab/tree/x.ipynb"], "opt-share": [b"0.5"]}
        request = {"method": method, "path": path, "body_arguments": arguments, "query_arguments": query, "files": {}}
        self.request = SimpleNamespace(**{**request, **said})
        self.current_user = SimpleNamespace(name=user)


def from_page(page: _Page) -> Any:
    """Makes the spawner that *page* starts."""

    def made(c: Any) -> Any:
        spawner = make(LocalProcessSpawner, c)
        spawner.handler = page
        return spawner

    return made


def test_no_room_sends_the_person_to_wait(tmp_path: Path) -> None:
    """Nobody waits in the hub's queue of starts: the browser goes on to a page that waits, and takes the form along."""
    site = Site(tmp_path, queue_timeout=120)
    site.service.refusal = NO_ROOM
    error = denied(site, HALF, spawner=from_page(_Page()))
    assert error.status_code == 303
    location = urlsplit(error.headers["Location"])  # type: ignore[attr-defined]
    assert location.path == "/services/gpushare/wait/"
    assert not location.netloc, "on this site, wherever people reach it"
    query = {name: values[0] for name, values in parse_qs(location.query).items()}
    link = WaitLink.read(query["for"], query["sign"], site.service.secret, "ada")
    assert (link.share, link.project, link.server) == ("0.5", "team-a", "")
    assert link.fields == {"share": ["0.5"], "image": ["torch", "é"]}
    assert link.next == "/hub/user/ada/lab/tree/x.ipynb"
    assert link.queue_timeout_s == 120
    assert "secret" not in str(link)
    assert site.service.ended == [], "an open wait page of the same server keeps its place"


def test_start_by_address_takes_its_options_along(tmp_path: Path) -> None:
    """A start by a link with options, as the wait page's own, keeps them if it has to wait once more."""
    site = Site(tmp_path)
    site.service.refusal = NO_ROOM
    error = denied(site, HALF, spawner=from_page(_Page(method="GET")))
    query = parse_qs(urlsplit(error.headers["Location"]).query)  # type: ignore[attr-defined]
    link = WaitLink.read(query["for"][0], query["sign"][0], site.service.secret, "ada")
    assert link.fields == {"share": ["0.5"]}


@pytest.mark.parametrize(
    "page",
    [
        _Page(path="/hub/api/users/ada/server"),
        _Page(user="root-admin"),
        _Page(files={"script": [b"..."]}),
        _Page(body_arguments={"share": [b"0.5"], "notes": [b"x" * 10_000]}),
    ],
    ids=["a program", "for somebody else", "with a file", "too much for an address"],
)
def test_no_room_where_no_page_can_wait(tmp_path: Path, page: _Page) -> None:
    """A program, an admin for somebody else, and a form that no address can hold are told to come back."""
    site = Site(tmp_path)
    site.service.refusal = NO_ROOM
    error = denied(site, HALF, spawner=from_page(page))
    assert (error.status_code, error.reason) == (409, "WAITING_FOR_DEVICE")
    assert not hasattr(error, "headers")
    assert error.jupyterhub_message.startswith("There is no room for 0.5 now.")  # type: ignore[attr-defined]


def test_broker_that_does_not_answer_is_asked_to_forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that was sent may have been granted: it is taken back before the start is refused."""
    monkeypatch.setattr("jupyter_gpushare.hub.broker_link._CLAIM_S", 0.2)
    site = Site(tmp_path)
    site.service.hangs = True
    error = denied(site, HALF)
    assert (error.status_code, error.reason) == (424, "BROKER_AWAY")
    assert "Start without a GPU" in error.jupyterhub_message  # type: ignore[attr-defined]
    assert site.service.ended == [("hub:ada/", "ada")]


@pytest.mark.parametrize("refusal", [(503, "LEDGER_AWAY", "The broker cannot keep its books now."), (401, "X", "Who?")])
def test_broker_that_cannot_work(tmp_path: Path, refusal: tuple[int, str, str]) -> None:
    """A broker without its books, or that does not know this hub, refuses no person: it is away."""
    site = Site(tmp_path)
    site.service.refusal = refusal
    assert denied(site, HALF).reason == "BROKER_AWAY"


def test_open_hub_starts_without_the_broker(tmp_path: Path) -> None:
    """An admin may prefer servers without a share to none: the server claims by itself when somebody answers."""
    site = Site(tmp_path, broker_away="open")
    site.service.refusal = (503, "LEDGER_AWAY", "The broker cannot keep its books now.")
    told = site.run(lambda _: start(make(LocalProcessSpawner, site.c), HALF))
    assert told["GPUSHARE_SHARE"] == "0.5"
    assert told["GPUSHARE_BROKER"]
    assert "GPUSHARE_BROKER_TOKEN" not in told
    assert told["GPUSHARE_CLAIM"] == "hub:ada/"


def test_open_hub_still_refuses_what_the_broker_refuses(tmp_path: Path) -> None:
    """Open means without a broker, not against it."""
    site = Site(tmp_path, broker_away="open")
    site.service.refusal = OVER_QUOTA
    assert denied(site, HALF).status_code == 422


def test_start_that_is_called_off(tmp_path: Path) -> None:
    """Somebody cancels while the claim is on its way: what may have been granted is given back."""
    site = Site(tmp_path)
    site.service.hangs = True

    async def story(service: StandInService) -> None:
        starting = asyncio.ensure_future(start(make(LocalProcessSpawner, site.c), HALF))
        await service.was_asked.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await service.was_ended.wait()

    site.run(story)
    assert site.service.ended == [("hub:ada/", "ada")]


def test_outcomes_are_counted(tmp_path: Path) -> None:
    """An admin sees on the hub's page of metrics how many were granted, waited, and started without the broker."""

    def counted(outcome: str) -> float:
        return REGISTRY.get_sample_value("gpushare_hub_starts_total", {"outcome": outcome}) or 0.0

    before = {name: counted(name) for name in ("granted", "no_gpu", "refused", "waits", "away_closed", "away_open")}
    for number, (refusal, options, away) in enumerate(
        [(None, HALF, "closed"), (None, {"share": "none"}, "closed"), (OVER_QUOTA, HALF, "closed"), (NO_ROOM, HALF, "open"),
         ((503, "LEDGER_AWAY", "Away."), HALF, "closed"), ((503, "LEDGER_AWAY", "Away."), HALF, "open")]
    ):  # fmt: skip
        site = Site(tmp_path / str(number), broker_away=away)
        site.service.refusal = refusal

        async def story(_: StandInService, site: Site = site, options: Any = options) -> None:
            with contextlib.suppress(HTTPError):
                await start(make(LocalProcessSpawner, site.c), options)

        site.run(story)
    assert {name: counted(name) - count for name, count in before.items()} == dict.fromkeys(before, 1.0)


def test_user_who_is_called_like_an_interface(tmp_path: Path) -> None:
    """A page is told from a program by where it is, whatever its user is called."""
    site = Site(tmp_path)
    site.service.refusal = NO_ROOM
    error = denied(site, HALF, spawner=from_page(_Page(path="/hub/spawn/api/server")))
    assert error.status_code == 303


def test_stop_goes_on_without_the_broker(tmp_path: Path) -> None:
    """A server can always be stopped: what the broker did not hear is made good when the service compares its books."""
    site = Site(tmp_path)

    async def story(_: StandInService) -> Any:
        spawner = make(LocalProcessSpawner, site.c)
        await start(spawner, HALF)
        return spawner

    spawner = site.run(story)  # from here on nobody listens
    asyncio.run(stop(spawner))
    assert site.service.ended == []


class ByGroup(GpuShareAdmission):
    """What a hub may decide by itself."""

    async def offers_for(self, spawner: Any) -> Offers:
        """Staff may have more."""
        is_staff = any(group.name == "staff" for group in spawner.user.groups)
        return Offers.parse(["0.25", "4"] if is_staff else ["0.25"], None, None)

    def project_of(self, spawner: Any) -> str:
        """One for each person."""
        return f"own-{spawner.user.name}"

    async def word_denial(self, message: Message, spawner: Any) -> Message:
        """In the house's words."""
        return Message(message.code, "Dear {name}: {text}", {"name": spawner.user.name, "text": message.text})


def test_decisions_of_ones_own(tmp_path: Path) -> None:
    """Shares by group, projects by person and words of the house hold in the form and in the hook alike."""
    site = Site(tmp_path, admission=ByGroup)

    async def story(_: StandInService) -> tuple[dict[str, str], HTTPError]:
        granted = await start(make(LocalProcessSpawner, site.c, groups=["staff"]), {"share": "4", "share_project": "x"})
        with pytest.raises(HTTPError) as caught:
            await start(make(LocalProcessSpawner, site.c, name="bo"), {"share": "4"})
        return granted, caught.value

    granted, error = site.run(story)
    assert granted["GPUSHARE_SHARE"] == "4"
    assert granted["GPUSHARE_PROJECT"] == "own-ada", "what the hub decides, nobody chooses"
    assert error.jupyterhub_message.startswith('Dear bo: The share "4" is not offered here.')
    form = make(LocalProcessSpawner, site.c, name="bo")
    assert 'value="4"' not in asyncio.run(form.get_options_form())


def test_algorithm_is_sealed() -> None:
    """The steps that keep shares safe cannot be replaced by mistake: whoever tries is told what may be."""
    with pytest.raises(SealedError, match=r"^Loose overrides admit, which is sealed; override one of offers_for, "):
        type("Loose", (GpuShareAdmission,), {"admit": lambda *_: None})


def test_project_of_who_names_none(tmp_path: Path) -> None:
    """A program need not know its person's project: the first one that the person is in counts."""
    site = Site(tmp_path)
    site.service.picture = picture_of("0.25", project="team-b", projects=["team-b", "team-c"])
    told = site.run(lambda _: start(make(LocalProcessSpawner, site.c), {"share": "0.25"}))
    assert told["GPUSHARE_PROJECT"] == "team-b"


def test_long_names_have_a_key_of_their_own() -> None:
    """Two servers never share a key, however long their names are; a key fits what the broker takes."""
    keys = {claim_key("a" * 250, server) for server in ("", "x", "y" * 250, "y" * 249 + "z")}
    assert len(keys) == 4
    assert all(len(key) <= 200 for key in keys)
