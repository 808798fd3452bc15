"""Requests to the broker, and where it is found."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.admin_wire import ApplyAnswer, ApplyRequest
from jupyter_gpushare.broker.client import BrokerAway, BrokerClient, BrokerError, Endpoint, NotAnEndpointError
from jupyter_gpushare.broker.wire import LeasesAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from tests.broker.client.conftest import Bench

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]


def test_an_answer_is_decoded_into_its_type(play: Play) -> None:
    """A request carries its body and query, and the answer comes back checked."""

    async def story(bench: Bench) -> None:
        bench.broker.answers = {
            "leases": (200, b'{"leases":[]}'),
            "apply": (200, msgspec.json.encode(ApplyAnswer(["+ team-a"], []))),
        }
        assert (await bench.client.request("GET", "/leases?project=team-a", type=LeasesAnswer)).leases == []
        done = await bench.client.request("POST", "apply", ApplyRequest("[projects]", dry_run=True), ApplyAnswer)
        assert done.changes == ["+ team-a"]
        assert [(method, uri.rsplit("/", 1)[1]) for method, uri, _ in bench.broker.asked] == [
            ("GET", "leases?project=team-a"),
            ("POST", "apply"),
        ]

    play(story)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (409, b'{"error":{"code":"X","template":"No.","values":{},"text":"No."},"field":"share"}', "X"),
        (502, b"<html>bad gateway", "REFUSED"),
        (200, b"<html>a login page", "NOT_UNDERSTOOD"),
        (200, b'{"leases": 7}', "NOT_UNDERSTOOD"),
    ],
)
def test_a_refusal_says_why(play: Play, status: int, body: bytes, code: str) -> None:
    """The broker's own reason and field are kept; a proxy's page is not taken for an answer."""

    async def story(bench: Bench) -> None:
        bench.broker.answers = {"leases": (status, body)}
        with pytest.raises(BrokerError) as refused:
            await bench.client.request("GET", "leases", type=LeasesAnswer)
        assert refused.value.code == code
        assert refused.value.field == ("share" if code == "X" else "")

    play(story)


def test_nobody_there_is_a_state_and_no_refusal(play: Play) -> None:
    """A broker that is gone is told apart from one that says no."""

    async def story(bench: Bench) -> None:
        bench.broker.stop()
        with pytest.raises(BrokerAway, match="does not answer"):
            await bench.client.request("GET", "leases", type=LeasesAnswer)

    play(story)


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        ("unix:/run/x.sock", "http://localhost/services/gpushare/api/v1", "/run/x.sock"),
        ("https://hub.example.org", "https://hub.example.org/services/gpushare/api/v1", ""),
        ("https://h/jhub/services/gpushare/", "https://h/jhub/services/gpushare/api/v1", ""),
        ("http://h:8080/services/gpushare/api/v1", "http://h:8080/services/gpushare/api/v1", ""),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, url: str, path: str) -> None:
    """The hub's address, the service's and the API's all mean the same broker."""
    endpoint = Endpoint.discover({"GPUSHARE_BROKER": text, "GPUSHARE_BROKER_TOKEN": "secret"})
    assert endpoint is not None
    assert (endpoint.url, endpoint.socket) == (url, path)
    assert endpoint.token == ("" if path else "secret")
    assert "secret" not in repr(endpoint)


@pytest.mark.parametrize("text", ["on", "unix:relative", "ftp://x", "http://", "https://me:pw@hub"])
def test_a_wrong_address_is_explained(text: str) -> None:
    """What is no address names the variable and shows right ones, and repeats no password."""
    with pytest.raises(NotAnEndpointError, match=r"GPUSHARE_BROKER: .*write off, auto, start") as error:
        Endpoint.discover({"GPUSHARE_BROKER": text})
    assert "pw" not in str(error.value)


def test_off_means_no_broker() -> None:
    """With the switch off, nothing is looked for."""
    assert Endpoint.discover({"GPUSHARE_BROKER": "off"}) is None


def test_a_socket_that_nobody_listens_on_is_no_broker(tmp_path: Path) -> None:
    """What a broker that died left behind is not taken for one."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert not Endpoint.at_socket(path).listens()
    assert not BrokerClient(Endpoint.at_socket(tmp_path / "none")).endpoint.listens()
