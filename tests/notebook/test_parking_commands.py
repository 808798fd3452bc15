"""The wishes about parking that a cell can express: what the server is asked, and what people read."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.notebook import parking_commands
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.session import wire
from tests.notebook.fake_frameworks import GB, FakeTorch
from tests.notebook.fake_server import KERNEL_ID, FakeServer, kernel, message, parking, reading, view

if TYPE_CHECKING:
    from jupyter_gpushare.notebook.card import Card

BUSY_THREAD = (
    "BACKGROUND_WORK",
    "The thread 'loader' of yours is alive.",
    "End it, or allow it: %gpushare background allow.",
)


def text(card: Card) -> str:
    """*card* as people read it."""
    return text_of(card)


def wishes(server: FakeServer) -> list[tuple[str, str, Any]]:
    """What the server was asked to do."""
    return [(seen.method, seen.path.split("/v1/")[1], seen.body) for seen in server.seen if seen.method != "GET"]


def test_release_asks_to_park_after_the_cell_and_says_what_moves(server: FakeServer) -> None:
    """One command hands the GPU back, and people read how much moves, how long it takes and that nothing is lost."""
    server.view = view(kernel=kernel(parking=parking()))
    assert text(parking_commands.hand_back()).splitlines()[1] == (
        "◷ As soon as this cell has ended, 7.4 GB move to host memory (about 2.1 s). "
        "Every variable stays; your next cell brings it back."
    )
    assert wishes(server) == [("POST", "releases", {"level": "park", "kernel_id": KERNEL_ID, "when": "idle"})]


@pytest.mark.parametrize(
    ("memory", "said"),
    [(reading(3 * GB), "3.0 GB move to host memory."), (reading(None, "?"), "your GPU memory moves to host memory.")],
)
def test_release_says_no_figure_that_it_does_not_know(server: FakeServer, memory: Any, said: str) -> None:
    """Where nobody knows how much or how long, no number is made up."""
    server.view = view(kernel=kernel(memory=memory))
    assert said in text(parking_commands.hand_back())


def test_a_refused_release_says_why_and_changes_nothing(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why not, what helps, and which other ways there are; none of them is taken for the user."""
    torch = FakeTorch(5 * GB, 2 * GB)
    monkeypatch.setitem(sys.modules, "torch", torch)
    server.refusal = BUSY_THREAD
    said = text(parking_commands.hand_back())
    assert "! Cannot park: The thread 'loader' of yours is alive. End it, or allow it" in said
    assert "%gpushare release --cache" in said
    assert "%gpushare release --kernel" in said
    assert torch.emptied == 0
    assert [body["level"] for _, _, body in wishes(server)] == ["park"]


def test_nothing_held_is_no_trouble(server: FakeServer) -> None:
    """Handing back nothing is told calmly, without other ways to do it."""
    server.refusal = ("NOTHING_HELD", "It holds no GPU memory.", "There is nothing to do: the GPU is free of it.")
    said = text(parking_commands.hand_back())
    assert "○ Cannot park: It holds no GPU memory." in said
    assert "--kernel" not in said


def test_without_a_server_release_frees_the_cache_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """In plain IPython the command does what can be done there, and does not pretend to have parked."""
    torch = FakeTorch(5 * GB, 2 * GB)
    monkeypatch.setitem(sys.modules, "torch", torch)
    said = text(parking_commands.hand_back())
    assert torch.emptied == 1
    assert "Released 2.0 GB of cached memory." in said
    assert "Not parked, only cached memory was freed: No GPU share here" in said


def test_a_server_without_parking_is_told_in_its_own_words(server: FakeServer) -> None:
    """An older server refuses the level; its sentence is shown and nothing is freed behind the user's back."""
    answer = {"error": {"code": "BAD_REQUEST"}, "message": "The request cannot be read: Invalid enum value 'park'."}
    server.answers["POST", "/releases"] = 400, answer
    assert "! The request cannot be read: Invalid enum value 'park'." in text(parking_commands.hand_back())


@pytest.mark.parametrize(("wish", "seconds"), [("2h", 7200), ("30m", 1800), ("off", 0)])
def test_keep_asks_for_this_kernel_and_so_many_seconds(server: FakeServer, wish: str, seconds: float) -> None:
    """The wish reaches the server for this notebook alone."""
    parking_commands.keep(wish)
    assert wishes(server) == [("POST", "keep", {"seconds": seconds, "kernel_id": KERNEL_ID})]


def test_keep_says_until_when_and_that_a_bound_cut_it(server: FakeServer) -> None:
    """The time on the card is the server's, and being cut short is not hidden."""
    at = time.strftime("%H:%M", time.localtime(time.time() + 7200))
    said = text(parking_commands.keep("2h"))
    assert f"◔ Kept for you until {at}." in said
    assert "sooner" not in said
    server.keep_limit_s = 3600
    assert "sooner than the 2 h you asked for" in text(parking_commands.keep("2h"))


def test_keep_off_ends_it(server: FakeServer) -> None:
    """What was kept is given free again."""
    assert "No longer kept." in text(parking_commands.keep("off"))


@pytest.mark.usefixtures("server")
def test_resume_in_a_running_cell_has_nothing_to_do() -> None:
    """A cell that runs is the proof that all is on the GPU."""
    assert "Nothing to resume" in text(parking_commands.resume())


def test_resume_calls_off_a_release_that_was_asked_for(server: FakeServer) -> None:
    """Whoever changes their mind within the cell keeps the GPU."""
    server.view = view(kernel=kernel(parking=parking("asked", message=message("ASKED", "…"))))
    assert "Called off" in text(parking_commands.resume())
    assert wishes(server) == [("POST", "resumes", {"kernel_id": KERNEL_ID})]


@pytest.mark.parametrize(
    ("wish", "body", "said"),
    [
        ("30m", {"idle_timeout_s": 1800}, "Parked by itself after 30 min idle, as you chose."),
        ("never", {"idle_timeout_s": None}, "Parked never by itself, as you chose."),
        ("default", {"reset": True}, "Parked by itself after 10 min idle, as this server is configured."),
    ],
)
def test_idle_changes_when_it_is_parked(server: FakeServer, wish: str, body: Any, said: str) -> None:
    """The owner decides for the notebook, and reads what holds now and who decided it."""
    assert said in text(parking_commands.set_idle(wish))
    assert wishes(server) == [("PUT", f"kernels/{KERNEL_ID}/policy", body)]


def test_idle_that_a_pool_bounds_names_the_pool(server: FakeServer) -> None:
    """Whoever asked for more and got the pool's reads who decided it."""
    policy = wire.PolicyModel(300.0, "pool", pool="class")
    server.view = view(kernel=kernel(parking=parking(policy=policy)))
    assert "Parked by itself after 5 min idle, as pool class sets it." in text(parking_commands.set_idle(""))


def test_idle_alone_shows_and_changes_nothing(server: FakeServer) -> None:
    """Looking is not changing."""
    server.view = view(kernel=kernel(parking=parking(policy=wire.PolicyModel(None, "kernel_spec"))))
    assert "Parked never by itself, as its kernel's spec says." in text(parking_commands.set_idle(""))
    assert wishes(server) == []


def test_idle_with_a_server_that_does_not_park(server: FakeServer) -> None:
    """An older server has no policy; that is said instead of an empty card."""
    assert "does not say when it parks" in text(parking_commands.set_idle(""))


def test_background_work_is_allowed_with_the_danger_named(server: FakeServer) -> None:
    """Whoever allows it reads what can happen, and how to go back."""
    said = text(parking_commands.set_background("allow"))
    assert "can crash this kernel" in said
    assert "%gpushare background refuse" in said
    assert server.policy.allow_background_work
    assert "Background work is refused" in text(parking_commands.set_background("refuse"))
    assert not server.policy.allow_background_work


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"kept_until": "soon"}', msgspec.json.encode({"message": 5})])
def test_an_answer_that_makes_no_sense_is_not_believed(server: FakeServer, answer: bytes) -> None:
    """Nobody reads "kept until …" from an answer that does not say so."""
    server.answers["POST", "/keep"] = 200, answer
    assert "makes no sense here" in text(parking_commands.keep("2h"))
