"""Whoever takes us off a machine brings everybody back first, and is told of all that is left; then there is nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from jupyter_gpushare.app.left_behind import left_behind
from jupyter_gpushare.app.uninstall import UninstallError, bring_back
from jupyter_gpushare.broker.client import Endpoint
from jupyter_gpushare.broker.install.installing import install, uninstall
from jupyter_gpushare.broker.install.planning import plan
from jupyter_gpushare.broker.places import user_socket
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from tests.broker.service.bench import JOB, SESSION, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

TOML = Path("/etc/gpushare/gpushare.toml")


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short name: a socket's path must be short."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def play(directory: Path, story: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    """Play a story with a broker that runs."""

    async def whole() -> None:
        bench = Bench(directory)
        try:
            await bench.start()
            await story(bench)
        finally:
            await bench.close()

    asyncio.run(whole())


def test_everybody_is_brought_back_first(short: Path) -> None:
    """It waits until a parked notebook has its GPU back, although training had to make room for it."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(msgspec.structs.replace(SESSION, share="1"))
        job = await bench.running(JOB)
        said: list[str] = []
        back = asyncio.create_task(bring_back(bench.client, 60, said.append))
        called = await asyncio.wait_for(job.until(lambda lease: lease.status in ("yielding", "parking")), 60)
        assert not back.done()
        job.did("released", called.epoch)
        lease = await asyncio.wait_for(session.until(lambda each: each.status == "resuming"), 60)
        session.did("running", lease.epoch)
        assert await asyncio.wait_for(back, 60) == ["Nobody is parked, and nobody is parked any more."]
        assert said[0].startswith("1 are parked, or on their way: lab of ")
        assert bench.broker.books.is_parking_stopped

    play(short, story)


def test_nothing_is_removed_while_somebody_is_parked(short: Path) -> None:
    """Who does not come back in time is named, and how to go on; nothing is removed under him."""

    async def story(bench: Bench) -> None:
        await bench.parked()
        with pytest.raises(UninstallError, match=r"1 are still parked after 0 s: lab of .*Nothing was removed"):
            await bring_back(bench.client, 0)

    play(short, story)


def test_only_an_admin_brings_everybody_back(short: Path) -> None:
    """The broker's word is passed on, and nothing is removed."""

    async def story(bench: Bench) -> None:
        bench.uid = os.getuid() + 1
        with pytest.raises(UninstallError, match=r"Nothing was removed. The broker says: This broker serves"):
            await bring_back(bench.client, 0)

    play(short, story)


def test_a_broker_that_does_not_answer_stops_it(short: Path) -> None:
    """Nobody knows who is parked then."""
    client = Bench(short).client
    with pytest.raises(UninstallError, match="as nobody can say who is parked"):
        asyncio.run(bring_back(client, 0))


def test_what_was_installed_is_found_and_then_is_not(tmp_path: Path) -> None:
    """Units, accounts, programs and a hub that calls us: each with what to do; after that there is nothing."""
    install(plan("gpushare", TOML, tmp_path))
    hub = tmp_path / "etc" / "jupyterhub" / "jupyterhub_config.py"
    hub.parent.mkdir()
    hub.write_text("from jupyter_gpushare.hub import setup_gpushare\nsetup_gpushare(c)\n")
    state = tmp_path / "var" / "lib" / "gpushare"
    state.mkdir(parents=True)
    found = left_behind(tmp_path, {})
    kinds = {(each.kind, Path(each.what).name) for each in found}
    assert kinds == {
        ("hook", "jupyterhub_config.py"),
        ("unit", "gpushare.service"),
        ("unit", "gpushare.socket"),
        ("file", "gpushare.conf"),
        ("file", "installed.json"),
        ("books", "gpushare"),
    }
    assert all(each.remedy for each in found)
    hub.write_text("# setup_gpushare(c) was here\n")
    uninstall(tmp_path, purge=True)
    assert left_behind(tmp_path, {}) == []


STATES = (
    "var/lib/jupyterhub/gpushare",
    "srv/jupyterhub/gpushare-state",
    "srv/jupyterhub/gpushare",
    "etc/jupyterhub/gpushare-state",
    "opt/tljh/state/gpushare-state",
)


@pytest.mark.parametrize("place", STATES)
@pytest.mark.parametrize("name", ["broker.sqlite", "hub.token"])
def test_what_a_hub_leaves_is_found(tmp_path: Path, place: str, name: str) -> None:
    """Its books, or with PostgreSQL its secret alone, where documents have it put; what only has such a name is not."""
    state = tmp_path / place
    state.mkdir(parents=True)
    (state.parent / "gpushare.toml").write_text("")
    (state.parent / "gpushare-notes").mkdir()
    assert left_behind(tmp_path, {}) == []
    (state / name).write_text("")
    found = left_behind(tmp_path, {})
    assert [(each.kind, each.what) for each in found] == [("books", str(state))]
    assert f"rm -r {state}" in found[0].remedy


def test_a_state_of_the_directory_that_one_is_in_is_found(short: Path) -> None:
    """A hub that is told of none has it in the directory in which it runs."""
    state = short / "gpushare-state"
    state.mkdir()
    (state / "hub.token").write_text("")
    assert mine(uninstall_command(environment(short), "--check", "--json", cwd=short), state) == ["books"]


def test_what_the_labs_server_is_told_to_keep_is_found(tmp_path: Path) -> None:
    """As its files say: where its hub's books are, and what qualifying its machine has found."""
    files = Path(__file__).parents[2] / "hub_config" / "local" / "lab-server"
    state = re.search(r'state="/([^"]+)"', (files / "jupyterhub_config.py").read_text())
    found = re.search(r"^StateDirectory=(\S+)$", (files / "gpushare-qualify.service").read_text(), re.MULTILINE)
    assert state is not None
    assert found is not None
    places = [tmp_path / state[1], tmp_path / "var" / "lib" / found[1]]
    for place in places:
        place.mkdir(parents=True)
        (place / "hub.token").write_text("")
    assert {each.what for each in left_behind(tmp_path, {})} == {str(place) for place in places}


def test_a_hub_elsewhere_is_looked_into_if_it_is_named(tmp_path: Path) -> None:
    """A file or a directory; what is no text is left alone."""
    config = tmp_path / "my_hub.py"
    config.write_text("c.JupyterHub.cull_arbiter_hook = gpu_cull_arbiter\n")
    (tmp_path / "binary.py").write_bytes(os.urandom(2000))
    root = tmp_path / "root"
    assert [each.what for each in left_behind(root, {}, [config])] == [str(config)]
    assert [each.what for each in left_behind(root, {}, [tmp_path])] == [str(config)]


@contextmanager
def own_broker(environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A user's own broker, in a process of its own."""
    command = [sys.executable, "-m", "jupyter_gpushare.app", "broker", "--on-demand"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        endpoint = Endpoint.at_socket(user_socket(environ))
        asyncio.run(until(endpoint.listens))
        yield process
        process.send_signal(signal.SIGTERM)


def ours() -> list[psutil.Process]:
    """The processes that this test has started: others on the machine have their own."""
    return psutil.Process().children(recursive=True)


def environment(directory: Path) -> dict[str, str]:
    """One user's own places, on a simulated machine."""
    machine = Machine.create(directory / "machine", (DeviceSpec(),))
    places = {"XDG_RUNTIME_DIR": str(directory), "JUPYTER_DATA_DIR": str(directory / "data")}
    return {**os.environ, **places, "GPUSHARE_SIMULATED_MACHINE": str(machine.path), "TMPDIR": str(directory)}


def uninstall_command(
    environ: dict[str, str], *options: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """As people run it."""
    command = [sys.executable, "-m", "jupyter_gpushare.app", "uninstall", *options]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120, cwd=cwd)


def mine(done: subprocess.CompletedProcess[str], directory: Path) -> list[str]:
    """What it says of the test's own places: others on the machine have theirs."""
    return [each["kind"] for each in json.loads(done.stdout) if str(directory) in each["what"]]


def test_a_broker_of_ones_own_is_found_and_goes(short: Path) -> None:
    """Its process, its socket, its books; while it runs nothing is taken from under it, and then nothing is left."""
    environ = environment(short)
    with own_broker(environ) as broker:
        daemons = [each for each in left_behind(Path("/"), environ, processes=ours) if each.kind == "daemon"]
        assert [f"(process {broker.pid})" in each.what for each in daemons] == [True]
        assert "ends by itself" in daemons[0].remedy
        kept = uninstall_command(environ, "--purge")
        assert f"your own broker still runs (process {broker.pid})" in kept.stdout
        assert "Nobody is parked" in kept.stdout
        assert mine(uninstall_command(environ, "--check", "--json"), short) == ["socket", "books"]
    assert [each for each in left_behind(Path("/"), environ, processes=ours) if each.kind == "daemon"] == []
    gone = uninstall_command(environ, "--purge")
    assert f"removed {short / 'gpushare'}" in gone.stdout
    assert mine(uninstall_command(environ, "--check", "--json"), short) == []


def test_check_says_whether_anything_is_left(tmp_path: Path) -> None:
    """Exit code 1 and a list, or 0 and the one line that is left to run."""
    install(plan("gpushare", TOML, tmp_path))
    there = uninstall_command(dict(os.environ), "--check", f"--root={tmp_path}")
    assert there.returncode == 1
    assert "unit: " in there.stdout
    done = uninstall_command(dict(os.environ), f"--root={tmp_path}", "--purge")
    assert done.returncode == 0, done.stdout
    none = uninstall_command(dict(os.environ), "--check", f"--root={tmp_path}")
    assert none.returncode == 0
    assert none.stdout.strip().endswith("pip uninstall jupyter_gpushare")
