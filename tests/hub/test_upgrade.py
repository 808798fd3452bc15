"""Sessions and their broker are a version apart, either way, and nobody loses anything for an upgrade or a rollback."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from jupyter_gpushare.app.rolling_back import roll_back
from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.places import user_socket
from jupyter_gpushare.broker.sql.schema import HEAD
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.quantity import Memory
from tests.broker.client.scripted_broker import BROKER, ScriptedBroker, granted, lease_of
from tests.broker.service.bench import SESSION, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
SESSIONS = Path(__file__).with_name("light_sessions.py")
#: The last commit of version 0.1 before there was a hub's service; its ledger is of revision 0002.
PREVIOUS = "c989899"
PREVIOUS_REVISION = "0002"
#: A hello as that version says it.
OLDER_HELLO: dict[str, Any] = {
    "type": "hello",
    "claim": {
        "key": "lab",
        "kind": "interactive",
        "project": "default",
        "share": "0.5",
        "name": "lab",
        "pool": "",
        "spread_group": "",
        "is_parkable": True,
        "grace_s": None,
        "start_cost_s": 0.0,
        "most_turns_lost": None,
    },
    "processes": [],
    "lease": None,
    "epoch": 0,
    "is_resident": False,
    "token": "",
}


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short name: a socket's path must be short."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


# What goes over the wire


async def with_broker(directory: Path, story: Callable[[Bench], Any]) -> None:
    """Tell *story* with a broker that runs."""
    bench = Bench(directory)
    try:
        await bench.start()
        await story(bench)
    finally:
        await bench.close()


def test_an_older_session_is_understood(short: Path) -> None:
    """What it does not say has a default; what the welcome says besides it leaves alone."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        await raw.say(json.dumps(OLDER_HELLO))
        said = await raw.hear()
        assert isinstance(said, wire.WelcomeMessage)
        assert said.lease.status == "granted"
        assert said.broker.version

    asyncio.run(with_broker(short, story))


def test_a_newer_session_is_understood(short: Path) -> None:
    """Fields that nobody here knows are left alone, and a message of a new type is passed over."""
    newer = json.loads(json.dumps(OLDER_HELLO))
    newer |= {"version": "9.9.0", "mood": {"deep": [1]}}
    newer["claim"] |= {"mood": "fine", "carbon": 0.1}
    newer["processes"] = [{"pid": os.getpid(), "started": 1, "cgroup": "x"}]

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        await raw.say(json.dumps(newer))
        welcome = await raw.hear()
        assert isinstance(welcome, wire.WelcomeMessage)
        await raw.say('{"type": "mood", "is": "fine"}')
        await raw.say({"type": "did", "what": "running", "epoch": welcome.lease.epoch, "how": "well"})
        await raw.until_status("running")

    asyncio.run(with_broker(short, story))


def test_a_holder_that_is_not_understood_hears_of_both_versions(short: Path) -> None:
    """A field that cannot be is named, and so are the two versions: one of the two is to be updated."""
    wrong = OLDER_HELLO | {"version": "9.9.0", "claim": {**OLDER_HELLO["claim"], "kind": "quantum"}}

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        await raw.say(json.dumps(wrong))
        said = await raw.hear()
        assert isinstance(said, wire.RefusedMessage)
        assert "quantum" in said.error.text
        assert "it is of version 9.9.0, and the broker of " in said.error.text
        other = await bench.raw()
        await other.say('{"type": "mood"}')
        refused = await other.hear()
        assert "the first message must be hello" in refused.error.text

    asyncio.run(with_broker(short, story))


def test_our_hello_says_our_version(short: Path) -> None:
    """An older broker leaves it alone; a newer one knows whom it has before it."""

    async def story(bench: Bench) -> None:
        said: list[Any] = []
        holding = bench.hold(SESSION)
        await asyncio.wait_for(holding.granted(), 60)
        said.append(holding._hello())
        assert said[0].version == bench.broker.model().version
        older = msgspec.json.decode(msgspec.json.encode(said[0]), type=dict[str, Any])
        assert older.keys() - {"version", "pid_namespace"} == OLDER_HELLO.keys()
        assert older["claim"].keys() == OLDER_HELLO["claim"].keys()

    asyncio.run(with_broker(short, story))


def test_an_older_and_a_newer_broker_are_understood(short: Path) -> None:
    """A welcome without what came later, one with what nobody here knows, and a new message between: the lease holds."""

    async def story() -> None:
        broker = ScriptedBroker(short / "broker.sock")
        broker.is_silent = True
        broker.start()
        holding = BrokerClient(broker.endpoint, 5.0, Pauses(0.01, 0.05, 60.0)).hold(SESSION, [])
        try:
            hello = (await until(lambda: broker.hellos))[0]
            lease = msgspec.to_builtins(lease_of(hello, **granted()))
            del lease["policy"]
            older = {"type": "welcome", "broker": msgspec.to_builtins(BROKER), "lease": lease, "token": "t"}
            broker.say_text(json.dumps(older))
            assert (await asyncio.wait_for(holding.granted(), 60)).epoch == 1
            broker.say_text('{"type": "mood", "is": "fine"}')
            newer = {**lease, "epoch": 2, "mood": "fine", "policy": {"pool": "default", "mood": 1}, "status": "running"}
            broker.say_text(json.dumps({"type": "lease", "lease": newer, "at": 5.0, "weather": "rain"}))
            running = await asyncio.wait_for(holding.until(lambda each: each.status == "running"), 60)
            assert running.epoch == 2
            assert broker.connections == 1
        finally:
            await holding.close()
            broker.stop()

    asyncio.run(story())


# Forty sessions, twenty of them parked


class Site:
    """A machine with ten GPUs, its one user, and his broker: of this version or of the one before."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.machine = Machine.create(directory / "machine", (DeviceSpec(total=Memory(4 << 30)),) * 10)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GPUSHARE")},
            "XDG_RUNTIME_DIR": str(directory),
            "JUPYTER_DATA_DIR": str(directory / "data"),
            "GPUSHARE_SIMULATED_MACHINE": str(self.machine.path),
        }
        self.ledger = directory / "data" / "gpushare" / "broker.sqlite"
        self.socket = user_socket(self.environ)
        self.ledger.parent.mkdir(mode=0o700, parents=True)
        (self.ledger.parent / "applied.toml").write_text('[hosts."*"]\ncopies = 64\n')

    def version(self, code: Path | None) -> dict[str, str]:
        """The environment in which the package in *code* is the one that is imported; ours for None."""
        return self.environ if code is None else {**self.environ, "PYTHONPATH": str(code)}

    @contextmanager
    def broker(self, code: Path | None) -> Iterator[None]:
        """A broker, in a process of its own."""
        command = [sys.executable, "-m", "jupyter_gpushare.app", "broker", "--on-demand"]
        log = self.directory / "broker.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, env=self.version(code), cwd=self.directory, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            wait_for(lambda: Endpoint.at_socket(self.socket).listens(), lambda: log.read_text()[-2000:])
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()[-2000:]

    @contextmanager
    def sessions(self, prefix: str, code: Path | None) -> Iterator[Sessions]:
        """Twenty sessions, in a process of their own."""
        command = [sys.executable, str(SESSIONS), str(self.socket), prefix, "20"]
        process = subprocess.Popen(
            command,
            env=self.version(code),
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        sessions = Sessions(process)
        try:
            sessions.told()
            yield sessions
        finally:
            process.stdin.close()  # type: ignore[union-attr]  # a pipe
            process.wait(60)
            process.stdout.close()  # type: ignore[union-attr]  # a pipe

    def verbs(self) -> set[str]:
        """What the audit says has happened."""
        with closing(sqlite3.connect(self.ledger)) as books:
            return {verb for (verb,) in books.execute("SELECT DISTINCT verb FROM audit")}

    def revision(self) -> str:
        """Of the ledger's tables."""
        with closing(sqlite3.connect(self.ledger)) as books:
            return str(books.execute("SELECT version_num FROM alembic_version").fetchone()[0])


class Sessions:
    """Twenty of them: see `light_sessions`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def told(self) -> dict[str, Any]:
        """The next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the sessions' process has ended"
        told: dict[str, Any] = json.loads(line)
        assert told["lost"] == {}
        return told

    def do(self, command: str) -> dict[str, Any]:
        """Have them do it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self.told()

    def settle(self, **counts: int) -> None:
        """Wait until so many are in each state, and all are connected."""
        wait_for(lambda: self.do("states")["counts"] == counts, lambda: str(self.do("states")["counts"]))


def wait_for(probe: Callable[[], bool], found: Callable[[], str], deadline_s: float = 90) -> None:
    """Wait until *probe* holds."""
    end = time.monotonic() + deadline_s
    while not probe():
        assert time.monotonic() < end, found()
        time.sleep(0.05)


def upgrade_and_roll_back(site: Site, before: Path | None, sessions_of: tuple[Path | None, Path | None]) -> None:
    """Forty sessions, twenty parked; the broker becomes a new one, some move; it becomes the old one again, all come back.

    *before* is the version before; None has this one with tables taken back in its place.
    """
    with site.sessions("one", sessions_of[0]) as one, site.sessions("two", sessions_of[1]) as two:
        both = (one, two)
        with site.broker(before):
            for each in both:
                each.settle(running=20)
                each.do("park 0 10")
            for each in both:
                each.settle(parked=10, running=10)
        if before is None:
            roll_back(f"sqlite:///{site.ledger}", PREVIOUS_REVISION)
        assert site.revision() == PREVIOUS_REVISION
        with site.broker(None):
            assert site.revision() == HEAD
            for each in both:
                each.settle(parked=10, running=10)
                each.do("resume 0 5")
                each.do("park 10 15")
            for each in both:
                each.settle(parked=10, running=10)
        roll_back(f"sqlite:///{site.ledger}", PREVIOUS_REVISION)
        with site.broker(before):
            for each in both:
                each.settle(parked=10, running=10)
                each.do("resume 5 15")
            for each in both:
                each.settle(running=20)
            for each in both:
                each.do("end")
    assert not site.verbs() & {"loss", "vanished", "failed", "not_parked", "over_committed"}
    nothing_is_left(site)


def nothing_is_left(site: Site) -> None:
    """Whoever takes us off the machine then finds nothing of us."""
    uninstall(site, "--purge")
    checked = uninstall(site, "--check", "--json")
    found = [each["what"] for each in json.loads(checked.stdout)]
    assert checked.returncode == int(bool(found)), checked.stderr
    # Other tests may run beside this one, with brokers of their own.
    ours = [str(site.directory), *(f"(process {each.pid})" for each in psutil.Process().children(recursive=True))]
    assert [what for what in found if any(each in what for each in ours)] == []


def uninstall(site: Site, *more: str) -> subprocess.CompletedProcess[str]:
    """The command, as the site's user gives it."""
    command = [sys.executable, "-m", "jupyter_gpushare.app", "uninstall", *more]
    return subprocess.run(
        command, env=site.environ, cwd=site.directory, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.timeout(600)
def test_nobody_is_lost_by_an_upgrade_and_a_rollback(short: Path) -> None:
    """The books go from the tables of the version before to ours and back, under forty sessions that live through it."""
    upgrade_and_roll_back(Site(short), None, (None, None))


@pytest.mark.matrix
@pytest.mark.timeout(600)
def test_nobody_is_lost_between_the_real_versions(short: Path) -> None:
    """The version before itself, out of this repository's history: as broker, and as half of the sessions."""
    older = previous_version(short)
    upgrade_and_roll_back(Site(short), older, (older, None))


def previous_version(directory: Path) -> Path:
    """The package as it was."""
    code = directory / "before"
    code.mkdir()
    archive = subprocess.run(
        ["git", "archive", "--format=tar", PREVIOUS, "jupyter_gpushare"], cwd=ROOT, capture_output=True, check=False
    )
    assert archive.returncode == 0, f"git fetch --unshallow: {archive.stderr.decode()}"
    subprocess.run(["tar", "-x", "-C", str(code)], input=archive.stdout, check=True)
    return code
