"""``jupyter gpushare park`` and ``resume``: which kernel is meant, what is asked, and how truly it is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.app import moving
from jupyter_gpushare.app.choosing import Found, chosen, kernels_of
from jupyter_gpushare.app.servers import ask_all
from tests.app.fake_sessions import REFUSAL, TOKEN, FakeSession, Notebook, running
from tests.demo.conftest import make_places, run_command

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from jupyter_gpushare.session.wire import ParkingModel

    Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(name="places")
def _places(tmp_path: Path) -> dict[str, str]:
    """The environment of one test's commands."""
    return make_places(tmp_path)


@pytest.fixture(name="gpushare")
def _gpushare(places: dict[str, str]) -> Command:
    """Runs a command as people do."""
    return lambda *arguments: run_command(places, *arguments)


@pytest.fixture(name="sessions")
def _sessions() -> Iterator[list[FakeSession]]:
    """The servers that the test starts."""
    yield from running([])


@pytest.fixture(name="serve")
def _serve(places: dict[str, str], sessions: list[FakeSession]) -> Callable[..., FakeSession]:
    """Starts a server with some notebooks."""

    def begin(*notebooks: Notebook, directory: Path = Path("/lab")) -> FakeSession:
        sessions.append(FakeSession(places["JUPYTER_RUNTIME_DIR"], directory, list(notebooks)))
        return sessions[-1]

    return begin


def found(session: FakeSession) -> list[Found]:
    """What the commands see of it."""
    info = {"url": session.url, "token": TOKEN, "root_dir": "/lab"}
    return kernels_of(asyncio.run(ask_all([info])))


def wishes(session: FakeSession) -> list[Any]:
    """What it was asked to do."""
    return [body for method, _, body in session.asked if method == "POST"]


def test_park_waits_for_the_end_and_tells_what_came_back(serve: Callable[..., FakeSession], gpushare: Command) -> None:
    """The notebook's path is enough; the command ends when the device attests it, with exit code 0."""
    session = serve(Notebook("3f2a-1", "work/train.ipynb"), Notebook("77aa-2", "other.ipynb"))
    ended = gpushare("park", "work/train.ipynb")
    assert (ended.returncode, ended.stdout) == (0, "✓ work/train.ipynb  7.4 GB given back.\n"), ended.stderr
    assert [(wish["level"], wish["kernel_id"], wish["when"]) for wish in wishes(session)] == [("park", "3f2a-1", "now")]
    assert [notebook.status for notebook in session.notebooks] == ["parked", "running"]


def test_a_refusal_is_told_with_its_remedy_and_exit_code_1(
    serve: Callable[..., FakeSession], gpushare: Command
) -> None:
    """Why not and what helps, as the server says it; a script sees that it failed."""
    session = serve(Notebook("3f2a-1", "train.ipynb", refuses=True))
    ended = gpushare("park", "3f2a")
    assert (ended.returncode, ended.stdout) == (1, f"! train.ipynb  {REFUSAL}\n"), ended.stderr
    assert session.notebooks[0].status == "running"


def test_resume_brings_it_back_as_json_too(serve: Callable[..., FakeSession], gpushare: Command) -> None:
    """Programs get the same outcome with its figures."""
    serve(Notebook("3f2a-1", "train.ipynb", status="parked"))
    ended = gpushare("resume", "train.ipynb", "--json")
    assert ended.returncode == 0, ended.stderr
    (outcome,) = json.loads(ended.stdout)
    assert (outcome["done"], outcome["code"], outcome["memory"]) == (True, "RESUMED", 7_400_000_000)
    assert outcome["message"].startswith("Resumed in ")


def test_all_means_those_that_it_applies_to_in_every_server(
    serve: Callable[..., FakeSession], gpushare: Command
) -> None:
    """`--all` parks what holds GPU memory, leaves the rest alone, and fails if one of them refuses."""
    one = serve(Notebook("a-1", "a.ipynb"), Notebook("b-1", "b.ipynb", memory=0), Notebook("c-1", "c.ipynb", "parked"))
    two = serve(Notebook("d-1", "d.ipynb", refuses=True))
    ended = gpushare("park", "--all")
    assert ended.returncode == 1
    assert sorted(ended.stdout.splitlines()) == [f"! d.ipynb  {REFUSAL}", "✓ a.ipynb  7.4 GB given back."]
    assert ([wish["kernel_id"] for wish in wishes(one)], [wish["kernel_id"] for wish in wishes(two)]) == (
        ["a-1"],
        ["d-1"],
    )


def test_what_is_ambiguous_is_listed_and_nothing_is_touched(
    serve: Callable[..., FakeSession], gpushare: Command
) -> None:
    """Two notebooks of that name in two servers: the person decides, by id."""
    sessions = [serve(Notebook("3f2a-1", "x/train.ipynb")), serve(Notebook("3f2b-2", "y/train.ipynb"))]
    ended = gpushare("park", "train.ipynb")
    assert ended.returncode == 1
    assert "'train.ipynb' may mean 2 kernels; write an id:" in ended.stderr
    assert "3f2a-1  x/train.ipynb" in ended.stderr
    assert "3f2b-2  y/train.ipynb" in ended.stderr
    assert [wishes(session) for session in sessions] == [[], []]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["park"], "Write one notebook or kernel id, or --all: jupyter gpushare park train.ipynb"),
        (["resume", "nope"], "No running kernel is called 'nope'.\nThere is:\n  3f2a-1  evil�[31m.ipynb"),
        (["resume", "--all"], "Nothing to resume."),
    ],
)
def test_what_is_not_there_is_said_beside_what_is(
    arguments: list[str], told: str, serve: Callable[..., FakeSession], gpushare: Command
) -> None:
    """A mistake costs one look, and a notebook's name cannot steer the terminal."""
    serve(Notebook("3f2a-1", "evil\x1b[31m.ipynb"))
    ended = gpushare(*arguments)
    assert ended.returncode == 1
    assert told in ended.stderr


def test_without_a_server_it_says_how_to_start_one(gpushare: Command) -> None:
    """Nothing running is a sentence."""
    ended = gpushare("park", "--all")
    assert (ended.returncode, ended.stderr.strip()) == (
        1,
        "No Jupyter server of yours is running here. Start one with: jupyter lab",
    )


@pytest.mark.parametrize(
    ("target", "ids"),
    [
        ("3f2a-1", ["3f2a-1"]),
        ("3f", ["3f2a-1", "3f2b-2"]),
        ("3f2b", ["3f2b-2"]),
        ("train.ipynb", ["3f2a-1"]),
        ("deep/train.ipynb", ["3f2b-2"]),
        ("/lab/deep/train.ipynb", ["3f2b-2"]),
        ("deep", ["3f2b-2", "99-3"]),
        ("eval.ipynb", ["99-3"]),
        ("nothing", []),
    ],
)
def test_the_closest_match_is_meant(target: str, ids: list[str], serve: Callable[..., FakeSession]) -> None:
    """An exact id or path wins over a name, and a name over a beginning."""
    session = serve(
        Notebook("3f2a-1", "train.ipynb"), Notebook("3f2b-2", "deep/train.ipynb"), Notebook("99-3", "deep2/eval.ipynb")
    )
    assert [one.kernel.id for one in chosen(target, found(session), Path("/lab"))] == ids


def test_a_file_beside_the_person_wins_over_the_same_path_in_another_server(
    serve: Callable[..., FakeSession], tmp_path: Path
) -> None:
    """`train.ipynb` is the one in this directory, whichever server it belongs to."""
    session = serve(Notebook("a", "train.ipynb"))
    (elsewhere,) = found(session)
    here = Found(type(elsewhere.server)("http://x/", str(tmp_path), "t"), elsewhere.kernel)
    assert chosen("train.ipynb", [elsewhere, here], tmp_path) == [here]


def follow(session: FakeSession, move: Any, deadline_s: float = 30) -> tuple[moving.Outcome, list[ParkingModel]]:
    """Move its first notebook: the outcome, and what was told on the way."""
    told: list[ParkingModel] = []
    return asyncio.run(move(found(session)[0], told.append, deadline_s)), told


def test_progress_is_told_on_the_way(serve: Callable[..., FakeSession]) -> None:
    """Whoever waits sees how far it is."""
    outcome, told = follow(serve(Notebook("a", "a.ipynb")), moving.park)
    assert outcome.done
    assert [(parking.status, parking.moved) for parking in told][:1] == [("parking", 3_100_000_000)]


def test_a_park_that_fails_on_the_way_is_no_success(serve: Callable[..., FakeSession]) -> None:
    """What was begun and undone is told as what it is."""
    outcome, _ = follow(serve(Notebook("a", "a.ipynb", ends="failed")), moving.park)
    assert (outcome.done, outcome.text) == (False, "Cannot park: a step failed, all is undone.")


def test_a_resume_that_waits_for_room_is_left_at_the_deadline(serve: Callable[..., FakeSession]) -> None:
    """The command gives up, the server does not, and nobody is told that it is back."""
    session = serve(Notebook("a", "a.ipynb", status="parked", on_the_way=["waiting"]))
    outcome, told = follow(session, moving.resume, deadline_s=5)
    assert (outcome.done, outcome.code) == (False, "DEADLINE")
    assert "goes on in the server" in outcome.text
    assert told[-1].message.code == "WAITING_FOR_ROOM"


def test_a_resume_that_loses_the_state_is_a_failure(serve: Callable[..., FakeSession]) -> None:
    """A kernel that runs again without its GPU state is not called resumed."""
    outcome, _ = follow(serve(Notebook("a", "a.ipynb", status="parked", is_lost=True)), moving.resume)
    assert (outcome.done, outcome.code) == (False, "LOST")
    assert "is lost" in outcome.text


def test_a_park_that_was_only_asked_for_is_called_off(serve: Callable[..., FakeSession]) -> None:
    """Nothing had moved, so nothing is said to have come back."""
    session = serve(Notebook("a", "a.ipynb", status="asked"))
    outcome, _ = follow(session, moving.resume)
    assert (outcome.done, outcome.code) == (True, "CALLED_OFF")
    assert [wish["kernel_id"] for wish in wishes(session)] == ["a"]


def test_what_is_already_there_is_not_asked_for(serve: Callable[..., FakeSession]) -> None:
    """Parking what is parked and resuming what runs succeed without a request."""
    parked, awake = serve(Notebook("a", "a.ipynb", status="parked")), serve(Notebook("b", "b.ipynb"))
    assert follow(parked, moving.park)[0].code == "PARKED"
    assert follow(awake, moving.resume)[0].code == "RUNNING"
    assert wishes(parked) == wishes(awake) == []


def test_status_shows_parked_notebooks_in_the_same_words(serve: Callable[..., FakeSession], gpushare: Command) -> None:
    """The terminal's overview says what is parked and since when, not that it holds nothing."""
    serve(
        Notebook("a", "a.ipynb", status="parked"), Notebook("b", "b.ipynb", status="waiting"), Notebook("c", "c.ipynb")
    )
    lines = {line.split()[0]: line for line in gpushare("status").stdout.splitlines() if ".ipynb  " in line}
    assert "7.4 GB parked · 61 % · parked since " in lines["a.ipynb"]
    assert lines["b.ipynb"].endswith("waiting for room")
    assert "7.4 GB · 61 % · idle" in lines["c.ipynb"]
