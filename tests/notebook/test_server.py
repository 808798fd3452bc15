"""The client of a kernel's own server, against servers that answer, refuse, hang, babble and vanish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.notebook.address import Address, ServerError
from jupyter_gpushare.notebook.server import Server
from tests.notebook.fake_server import BASE, GB, KERNEL_ID, TOKEN, FakeServer, view

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = f"/kernels/{KERNEL_ID}"


def ask(fake: FakeServer, **options: Any) -> Server:
    """The client of *fake*."""
    return Server(Address(fake.base, KERNEL_ID, TOKEN), **options)


def error_of(call: Any) -> ServerError:
    """The error that *call* ends with."""
    with pytest.raises(ServerError) as caught:
        call()
    return caught.value


def test_view_carries_the_kernels_token_in_its_own_header(server: FakeServer) -> None:
    """The kernel's row arrives typed, asked for with the kernel's own token and nothing else."""
    seen = Server.from_environment().view()
    assert (seen.kernel.memory.value, seen.share.text) == (6_100_000_000, "0.5..1")
    assert [(r.method, r.path, r.token) for r in server.seen] == [("GET", BASE + KERNEL, TOKEN)]


def test_view_over_a_unix_socket(tmp_path: Path) -> None:
    """A server that listens on a Unix socket only is reached there."""
    with FakeServer(socket=tmp_path / "gpushare sock") as fake:
        assert ask(fake).view().memory.value == 7_400_000_000


def test_report_sends_bytes_and_returns_whether_more_is_wanted(server: FakeServer) -> None:
    """A report says bytes, and the server's wish to hear no more comes back."""
    server.answers["POST", f"{KERNEL}/report"] = 200, {"wanted": False}
    assert Server.from_environment().report(5 * GB) is False
    assert server.seen[0].body == {"memory": 5 * GB}


def test_end_kernel_unconfirmed_raises_what_the_server_announces(server: FakeServer) -> None:
    """Nothing is ended before the owner has read exactly what is lost."""
    server.announced = ["Every variable of train.ipynb will be lost; saved files stay."]
    error = error_of(Server.from_environment().end_kernel)
    assert (error.code, str(error)) == ("NEEDS_CONFIRMATION", server.announced[0])
    assert server.seen[0].body == {"level": "end_kernel", "kernel_id": KERNEL_ID, "confirm": ""}
    assert Server.from_environment().end_kernel(error.confirm) == "Ending train.ipynb…"


@pytest.mark.parametrize("confirm", ["", None, 7, True, "x" * 1000], ids=["empty", "null", "number", "flag", "long"])
def test_a_conflict_that_no_confirmation_solves_is_a_refusal(server: FakeServer, confirm: object) -> None:
    """What cannot be released is not shown as a question, since answering it would not help."""
    answer = {"error": {"code": "NOTHING_TO_END"}, "message": "Nothing to end.", "confirm": confirm}
    server.answers["POST", "/releases"] = 409, answer
    error = error_of(lambda: Server.from_environment().end_kernel("agreed"))
    assert (error.code, str(error)) == ("REFUSED", "Nothing to end.")


def test_a_conflict_without_a_sentence_is_nothing_to_agree_to(server: FakeServer) -> None:
    """Nobody confirms a loss that was not announced."""
    server.answers["POST", "/releases"] = 409, {"confirm": "d1"}
    assert error_of(Server.from_environment().end_kernel).code == "REFUSED"


def test_without_the_environment_the_error_names_what_is_missing() -> None:
    """Outside our server people learn which variables their Python lacks."""
    error = error_of(lambda: Address.from_environment({"GPUSHARE_KERNEL_ID": "k"}))
    assert error.code == "NO_SERVER"
    assert "GPUSHARE_SERVER_URL, GPUSHARE_KERNEL_TOKEN not set" in str(error)


@pytest.mark.parametrize("base", ["ftp://host/x", "nonsense", "file:///etc/passwd", "http:///x"])
def test_an_address_that_is_none_is_refused(base: str) -> None:
    """A wrong address is told as such and never opened."""
    assert error_of(lambda: Address(base, "k", "t")).code == "NO_SERVER"


def test_the_token_is_never_shown() -> None:
    """The token does not appear where objects are printed, such as in a traceback."""
    assert "s3cret" not in repr(Server(Address("http://h/x", "k", "s3cret")))


def test_a_refused_token_says_to_restart_the_kernel(server: FakeServer) -> None:
    """An expired token has a remedy, and people are told it."""
    server.refuses = True
    error = error_of(Server.from_environment().view)
    assert error.code == "TOKEN_REFUSED"
    assert "Restart the kernel" in str(error)


def test_a_redirection_is_not_followed(server: FakeServer) -> None:
    """A login page elsewhere never gets the token."""
    server.answers["GET", KERNEL] = 302, {}
    assert error_of(Server.from_environment().view).code == "TOKEN_REFUSED"
    assert len(server.seen) == 1


def test_a_hanging_server_is_given_up_at_the_deadline(server: FakeServer) -> None:
    """A server that never answers does not hold a cell up for longer than the deadline."""
    server.hangs = True
    error = error_of(ask(server, deadline_s=0.2).view)
    assert error.code == "SERVER_SLOW"
    assert "0.2 s" in str(error)


def test_a_server_that_is_gone() -> None:
    """Nobody listening is a sentence, not a traceback of sockets."""
    with FakeServer() as fake:
        gone = ask(fake)
    assert error_of(gone.view).code == "SERVER_GONE"


def test_a_unix_socket_that_is_gone(tmp_path: Path) -> None:
    """A socket file that no longer exists is the same sentence."""
    with FakeServer(socket=tmp_path / "s") as fake:
        gone = ask(fake)
    (tmp_path / "s").unlink(missing_ok=True)
    assert error_of(gone.view).code == "SERVER_GONE"


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"<html>proxy error</html>", "malformed"),
        (b"[]", "array"),
        (b"\xff\xfe", ""),
        (msgspec.json.encode(view()).replace(b"7400000000", b'"seven"'), "$.memory.value"),
        (msgspec.json.encode(view()).replace(b"7400000000", b"-7400000000"), ">= 0"),
        (msgspec.json.encode(view()).replace(b"kernel_view", b"snapshot"), "snapshot"),
    ],
    ids=["html", "array", "not-text", "wrong-type", "negative", "wrong-frame"],
)
def test_an_answer_that_is_no_view_is_not_believed(server: FakeServer, body: bytes, part: str) -> None:
    """What arrives is checked, and the error names the part that is wrong."""
    server.answers["GET", KERNEL] = 200, body
    error = error_of(Server.from_environment().view)
    assert error.code == "NOT_UNDERSTOOD"
    assert part in str(error)


@pytest.mark.parametrize("body", [b"", b"nope", b"[]", b'{"wanted": "yes"}'])
def test_a_report_answered_with_garbage(server: FakeServer, body: bytes) -> None:
    """Only true and false decide whether to go on reporting."""
    server.answers["POST", f"{KERNEL}/report"] = 200, body
    assert error_of(lambda: Server.from_environment().report(1)).code == "NOT_UNDERSTOOD"


def test_an_answer_without_end_is_cut(server: FakeServer) -> None:
    """An answer of any size does not fill the kernel's memory."""
    server.answers["GET", KERNEL] = 200, b" " * (2 << 20)
    assert error_of(Server.from_environment().view).code == "SERVER_GONE"


def test_fields_of_a_newer_server_are_ignored(server: FakeServer) -> None:
    """A newer server than the kernel's package goes on working."""
    newer = msgspec.json.encode(view()).replace(b'{"type"', b'{"novelty":1,"type"', 1)
    server.answers["GET", KERNEL] = 200, newer
    assert Server.from_environment().view().simulated is False


def test_another_error_says_what_the_server_says(server: FakeServer) -> None:
    """The server's own sentence reaches people, and a body without one still gives the status."""
    server.answers["GET", KERNEL] = 404, {"message": "This server has no kernel x."}
    assert str(error_of(Server.from_environment().view)) == "This server has no kernel x."
    server.answers["GET", KERNEL] = 500, b"oops"
    assert "500" in str(error_of(Server.from_environment().view))
