"""A hub server's own token goes to that hub's service, and to nobody else, whatever GPUSHARE_BROKER says."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

import pytest

from jupyter_gpushare.app.hub_token import NotTheHubsError, with_hub_token
from jupyter_gpushare.broker.client import Endpoint, NotAnEndpointError
from tests.broker.service.bench import Bench
from tests.broker.service.hub_town import HubTown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OWN: Final = "the-servers-own"
#: What JupyterHub 5.5 and 6.1 tell a server of a hub below /jupyter/, and what our hook adds.
SERVER: Final = {
    "JUPYTERHUB_API_TOKEN": OWN,
    "JUPYTERHUB_API_URL": "http://10.0.0.2:8081/jupyter/hub/api",
    "JUPYTERHUB_PUBLIC_HUB_URL": "https://hub.example.org/jupyter/hub/",
    "JUPYTERHUB_BASE_URL": "/jupyter/",
    "GPUSHARE_HUB_SERVICE": "http://127.0.0.1:10203/jupyter/services/gpushare/",
}
DEADLINE_S: Final = 60.0


def shown(address: str, **more: str) -> str:
    """The token that a command would show at *address*."""
    endpoint = Endpoint.discover(with_hub_token({**SERVER, "GPUSHARE_BROKER": address, **more}))
    return endpoint.token if endpoint is not None else ""


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(SERVER["GPUSHARE_HUB_SERVICE"], id="where the hub says"),
        pytest.param("http://127.0.0.1:10203/jupyter", id="the same, shorter"),
        pytest.param("https://hub.example.org/jupyter/services/gpushare", id="as browsers reach it"),
        pytest.param("https://HUB.example.org:443/jupyter/", id="the same, written otherwise"),
        pytest.param("http://10.0.0.2:8081/jupyter", id="beside the hub's own interface"),
    ],
)
def test_it_is_shown_to_the_hub(address: str) -> None:
    """A server that has no share needs no line to copy: its terminal speaks for its person."""
    assert shown(address) == OWN


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("https://gpu.example.net", id="another machine"),
        pytest.param("http://127.0.0.1:10204/jupyter", id="another program of this machine"),
        pytest.param("http://hub.example.org/jupyter", id="in the clear"),
        pytest.param("https://hub.example.org.example.net/jupyter", id="a name that begins alike"),
        pytest.param("https://hub.example.org@example.net/jupyter", id="a name that is no name"),
        pytest.param("https://hub.example.org/jupyter/user/eve", id="another person's server behind the same hub"),
        pytest.param("https://hub.example.org/services/gpushare", id="another hub of the same machine"),
        pytest.param("https://hub.example.org/jupyter/../eve", id="a way round"),
        pytest.param("https://hub.example.org:8443/jupyter", id="another port"),
        pytest.param("http://hub.example.org:x/jupyter", id="no port"),
    ],
)
@pytest.mark.parametrize("given", ["", OWN], ids=["nothing said", "written by hand"])
def test_it_is_shown_to_nobody_else(address: str, given: str) -> None:
    """Neither by default nor by the line that tutorials have people copy."""
    with pytest.raises(NotAnEndpointError):
        shown(address, GPUSHARE_BROKER_TOKEN=given)


def test_a_refusal_says_what_to_set() -> None:
    """The way back to the hub, and the way on to the other broker."""
    with pytest.raises(NotTheHubsError) as caught:
        shown("https://gpu.example.net")
    assert str(caught.value) == (
        "GPUSHARE_BROKER=https://gpu.example.net is not known to be the service of this server's hub, so the server's "
        "token (JUPYTERHUB_API_TOKEN) is not shown there: write GPUSHARE_BROKER=http://127.0.0.1:10203/jupyter/services/"
        "gpushare/, or make a token on the hub's page Token and write it into GPUSHARE_BROKER_TOKEN"
    )


def test_a_server_of_an_older_hub_is_not_sent_back_to_nowhere() -> None:
    """A hub with an older version of ours says less; what it did not say cannot be advised."""
    older = {name: value for name, value in SERVER.items() if name != "GPUSHARE_HUB_SERVICE"}
    with pytest.raises(NotTheHubsError, match=r"not shown there: make a token on the hub's page Token"):
        with_hub_token({**older, "GPUSHARE_BROKER": "http://127.0.0.1:10203/jupyter/services/gpushare/"})


@pytest.mark.parametrize("address", ["https://gpu.example.net", SERVER["GPUSHARE_HUB_SERVICE"]])
def test_a_token_that_somebody_meant_for_it_goes_first(address: str) -> None:
    """A share's own token, or a person's for another broker: nobody's secret but theirs."""
    assert shown(address, GPUSHARE_BROKER_TOKEN="meant") == "meant"


@pytest.mark.parametrize("address", ["", "auto", "start", "off", "unix:/run/gpushare/broker.sock"])
def test_where_no_token_is_shown_nothing_is_added(address: str) -> None:
    """A socket sees who asks; so the rest of the environment stays what it is."""
    environ = {**SERVER, "GPUSHARE_BROKER": address}
    assert with_hub_token(environ) is environ


def test_outside_of_a_hub_nothing_changes() -> None:
    """Who has no token of a hub's has nothing to lose, and is told by the broker what to set."""
    environ = {"GPUSHARE_BROKER": "https://gpu.example.net"}
    assert with_hub_token(environ) is environ


async def _command(*words: str, environ: Mapping[str, str]) -> tuple[int | None, str]:
    """What ``jupyter gpushare *words*`` says in the terminal of a hub's server."""
    left = {name: value for name, value in os.environ.items() if not name.startswith(("GPUSHARE_", "JUPYTERHUB_"))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jupyter_gpushare.app", *words),
        env={**left, **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return process.returncode, said.decode()


async def test_a_terminal_of_a_hubs_server_asks_as_its_person(tmp_path: Path) -> None:
    """Two commands and a real broker: at the hub's address they ask as ana, and at another they say what to set."""
    town = HubTown(bench := Bench(tmp_path))
    await bench.start()
    told = {"JUPYTERHUB_API_TOKEN": "ana", "GPUSHARE_BROKER": town.url}
    try:
        await town.start("hub:ana%2F")
        code, said = await _command("leases", environ={**told, "GPUSHARE_HUB_SERVICE": town.url})
        assert (code, "ana" in said) == (0, True), said
        for words in (["leases"], ["run", "--gpu", "0.5", "--", "true"]):
            code, said = await _command(*words, environ={**told, "GPUSHARE_HUB_SERVICE": "http://127.0.0.1:1"})
            assert code not in (0, None), said
            assert "write GPUSHARE_BROKER=http://127.0.0.1:1, or make a token" in " ".join(said.split()), said
        assert len(bench.broker.books.leases) == 1, "and nobody claimed anything"
    finally:
        await bench.close()
