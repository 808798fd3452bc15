"""Following the server's stream: through restarts, garbage and silence, and no longer than wanted."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.notebook.address import Address
from jupyter_gpushare.notebook.server import Server
from jupyter_gpushare.notebook.stream import Stream
from tests.notebook.fake_server import FakeServer, message, view
from tests.notebook.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Followed:
    """A stream and what it said so far."""

    def __init__(self, deadline_s: float = 3.0, **options: Any) -> None:
        self.views: queue.Queue[Any] = queue.Queue()
        self.problems: queue.Queue[str] = queue.Queue()
        timing: Any = {"first_pause_s": 0.02, "longest_pause_s": 0.1} | options
        server = Server(Address.from_environment(), deadline_s)
        self.stream = Stream(server, on_view=self.views.put, on_problem=self.problems.put, **timing)
        self.stream.start()

    def next_view(self) -> Any:
        return self.views.get(timeout=30)

    def next_problem(self) -> str:
        return self.problems.get(timeout=30)


@pytest.fixture(name="follow")
def _follow() -> Iterator[Callable[..., Followed]]:
    followed: list[Followed] = []

    def follow(**options: Any) -> Followed:
        followed.append(Followed(**options))
        return followed[-1]

    yield follow
    for one in followed:
        one.stream.stop()
        assert one.stream.join(60), "the stream's thread did not end"


def test_views_arrive_at_once_and_then_as_they_change(server: FakeServer, follow: Callable[..., Followed]) -> None:
    """The first view comes with the connection, later ones as the server sends them."""
    followed = follow()
    assert followed.next_view().state.code == "ACTIVE"
    server.push(view(state=message("NOTHING_HELD", "Nothing is held.")))
    assert until_state(server, followed, "NOTHING_HELD")


def until_state(server: FakeServer, followed: Followed, code: str) -> bool:
    """Whether a view with *code* comes; it is sent until one comes, as frames in quick succession may be dropped."""

    def came() -> bool:
        server.push(view(state=message(code, "So it is.")))
        try:
            return bool(followed.views.get(timeout=0.2).state.code == code)
        except queue.Empty:
            return False

    return until(came, f"a view in state {code}")


def test_it_comes_back_after_the_server_was_away(server: FakeServer, follow: Callable[..., Followed]) -> None:
    """A dropped connection is told and mended by itself."""
    followed = follow()
    followed.next_view()
    server.drop_watchers()
    assert "Lost contact" in followed.next_problem()
    assert followed.next_view().state.code == "ACTIVE"


def test_over_a_unix_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follow: Callable[..., Followed]) -> None:
    """The stream of a server on a Unix socket is followed too."""
    with FakeServer(socket=tmp_path / "s") as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        followed = follow()
        assert followed.next_view().simulated is False
        followed.stream.stop()
        assert followed.stream.join(60)


@pytest.mark.parametrize("garbage", ["<html>", "{}", "null", '{"type":"snapshot"}', "\x00"])
def test_garbage_is_told_and_the_next_view_counts(
    server: FakeServer, follow: Callable[..., Followed], garbage: str
) -> None:
    """A frame that makes no sense neither ends the stream nor is shown as a view."""
    server.view = garbage.encode()
    followed = follow()
    assert "makes no sense" in followed.next_problem()
    assert until_state(server, followed, "HOLDING")


def test_a_frame_too_large_is_not_read(server: FakeServer, follow: Callable[..., Followed]) -> None:
    """A frame of any size does not fill the kernel's memory: the connection is given up and made anew."""
    followed = follow()
    followed.next_view()
    server.push("x" * (2 << 20))
    assert followed.next_problem()
    assert followed.next_view()


def test_a_refused_token_is_not_tried_again(server: FakeServer, follow: Callable[..., Followed]) -> None:
    """An expired token ends the stream instead of knocking for ever."""
    server.refuses = True
    followed = follow()
    assert "Restart the kernel" in followed.next_problem()
    assert followed.stream.join(60)
    assert len(server.seen) == 1


@pytest.mark.usefixtures("server")
def test_a_silent_server_is_left_and_asked_again(follow: Callable[..., Followed]) -> None:
    """A connection that only looks alive is not trusted for ever."""
    followed = follow(silence_s=0.1)
    followed.next_view()
    assert followed.next_problem()
    assert followed.next_view()


def test_a_flood_is_not_followed_frame_by_frame(server: FakeServer, follow: Callable[..., Followed]) -> None:
    """A server gone wild does not busy the kernel: of a thousand frames a few are looked at."""
    followed = follow()
    followed.next_view()
    for _ in range(1000):
        server.push(view())
    assert until_state(server, followed, "HOLDING")
    assert followed.views.qsize() < 100


def test_stopping_ends_the_thread_and_the_connection(server: FakeServer, follow: Callable[..., Followed]) -> None:
    """Nothing is left behind: no thread, no watcher at the server."""
    followed = follow()
    followed.next_view()
    followed.stream.stop()
    assert followed.stream.join(60)
    until(lambda: server.watchers == 0, "the server sees the watcher go")


def test_stopping_while_it_waits_to_try_again(monkeypatch: pytest.MonkeyPatch, follow: Callable[..., Followed]) -> None:
    """A stream in a long pause ends at once."""
    with FakeServer() as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
    followed = follow(first_pause_s=600, longest_pause_s=600)
    followed.next_problem()
    followed.stream.stop()
    assert followed.stream.join(60)
    followed.stream.stop()


def test_a_server_that_hangs_at_the_door(server: FakeServer, follow: Callable[..., Followed]) -> None:
    """A connection that is never completed is given up at the deadline, and stopping waits no longer than that."""
    server.hangs = True
    followed = follow(deadline_s=0.2)
    assert "did not answer within 0.2 s" in followed.next_problem()
    until(lambda: len(server.seen) > 1, "the next attempt")
    followed.stream.stop()
    assert followed.stream.join(60)
