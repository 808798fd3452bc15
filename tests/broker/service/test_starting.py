"""A broker of one's own: started by the first who needs it, ended when nobody does."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.client_reviving import Reviving
from jupyter_gpushare.broker.places import PlaceError
from jupyter_gpushare.broker.starting import StartError, start
from tests.broker.service.bench import SESSION, Bench, processes_of, until
from tests.devices.simulated.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]


def brokers(bench: Bench) -> list[int]:
    """The broker processes of this test: known by the directory in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ, command = (process / "environ").read_bytes(), (process / "cmdline").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if f"XDG_RUNTIME_DIR={bench.directory}".encode() in environ.split(b"\0") and b"--on-demand" in command:
            found.append(int(process.name))
    return found


@pytest.fixture(name="home")
def _home(bench: Bench) -> Iterator[Bench]:
    """A user without a broker; whatever the test starts ends with it."""
    yield bench
    for pid in brokers(bench):
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not brokers(bench), "the broker to end")
    bench.machine.close()


def test_of_many_who_start_a_broker_one_does(home: Bench) -> None:
    """Four at the same moment get the same socket, and there is one broker."""
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: start(home.environ), range(4)))
    assert set(found) == {home.settings.socket}
    assert len(brokers(home)) == 1
    assert home.settings.runtime.stat().st_mode & 0o777 == 0o700


def test_a_broker_that_cannot_start_says_why(home: Bench) -> None:
    """What it said is in the error, and where its log is."""
    state = home.directory / "data" / "gpushare"
    state.mkdir(parents=True, mode=0o700)
    (state / "broker.sqlite").write_text("this is no database, and long enough to be taken for a damaged one" * 100)
    with pytest.raises(StartError) as caught:
        start(home.environ)
    assert "broker.sqlite" in str(caught.value)
    assert "broker.log" in str(caught.value)


@pytest.mark.parametrize("harm", ["open", "link", "file", "long"])
def test_a_directory_that_others_could_use_is_refused(home: Bench, harm: str) -> None:
    """A runtime directory that is open to others, a link, or no directory is named with what to do."""
    runtime = home.settings.runtime
    environ = home.environ
    if harm == "open":
        runtime.mkdir()
        runtime.chmod(0o755)
    elif harm == "link":
        runtime.symlink_to(home.directory)
    elif harm == "file":
        runtime.write_text("")
    else:
        environ = {**environ, "XDG_RUNTIME_DIR": str(home.directory / ("x" * 100))}
    with pytest.raises(PlaceError, match=r"chmod 700|no directory|too long"):
        start(environ)


def test_it_ends_when_nobody_needs_it(bench: Bench, play: Play) -> None:
    """Without a holder and without a lease, after a while; not while something is parked."""
    bench.settings = replace(bench.settings, quit_after_s=0.2)

    async def story(bench: Bench) -> None:
        session = await bench.parked(SESSION)
        await session.close()
        await until(lambda: bench.broker.holders.away)
        assert not bench.broker.stopped.is_set()
        again = bench.hold(SESSION)
        await again.until(lambda lease: lease.status == "parked")
        await again.end()
        await until(bench.broker.stopped.is_set)

    play(story)


def test_holders_start_a_broker_of_their_own_again(home: Bench) -> None:
    """When it is killed those who hold leases bring it back, one process for all of them, and keep their leases."""
    environ = {**home.environ, "GPUSHARE_BROKER": "start"}

    async def story() -> None:
        endpoint = await asyncio.to_thread(Endpoint.discover, environ)
        assert endpoint is not None
        client = BrokerClient(endpoint, pauses=Pauses(0.02, 0.1))
        claims = [msgspec.structs.replace(SESSION, key=f"lab-{number}", share="0.25") for number in range(3)]
        holdings = [client.hold(claim, processes_of(os.getpid())) for claim in claims]
        before = [(await holding.granted()).id for holding in holdings]
        (killed,) = brokers(home)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: not any(holding.connected for holding in holdings))
        await until(lambda: all(holding.connected for holding in holdings))
        (revived,) = brokers(home)
        assert revived != killed
        assert [holding.lease.id for holding in holdings if holding.lease is not None] == before
        for holding in holdings:
            await holding.end()

    asyncio.run(story())


def test_a_broker_at_a_given_address_is_nobodys_to_start(home: Bench) -> None:
    """Where an admin named the broker, its holders wait for it, and no other one comes up in its place."""
    endpoint = Endpoint.discover({**home.environ, "GPUSHARE_BROKER": f"unix:{home.settings.socket}"})
    assert endpoint is not None
    assert endpoint.starter is None


def test_a_broker_that_cannot_be_started_is_tried_ever_more_rarely(
    home: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A holder does not start it again and again, and says once why it does not come up."""
    (home.directory / "gpushare").write_text("")
    now, starts = [100.0], []
    monkeypatch.setattr("jupyter_gpushare.broker.client_reviving.time.monotonic", lambda: now[0])

    async def story() -> None:
        reviving = Reviving(home.environ)
        for _ in range(3000):
            before = reviving._pause_s
            await reviving.lost()
            if reviving._pause_s != before:
                starts.append(now[0])
            now[0] += 0.1

    asyncio.run(story())
    assert 5 <= len(starts) <= 9
    assert caplog.text.count("could not be started again") == 1
