"""The broker's small parts: tokens, processes, claims, clocks, sockets."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from jupyter_gpushare.broker.claiming import lease_of_claim, remembered
from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.kinship import Kinship
from jupyter_gpushare.broker.listening import inherited
from jupyter_gpushare.broker.overuse import OverUses
from jupyter_gpushare.broker.peers import PeerTokens, TokenFileError
from jupyter_gpushare.broker.places import user_runtime, user_state
from jupyter_gpushare.broker.roster import Roster
from jupyter_gpushare.broker.sighting import Sighting
from jupyter_gpushare.broker.tokens import LeaseTokens
from jupyter_gpushare.broker.wire import ClaimModel, GrantModel, HelloMessage, LeaseModel
from jupyter_gpushare.devices.device import Driver, DriverState
from jupyter_gpushare.devices.identity import Identity, identify, myself
from jupyter_gpushare.devices.process_tree import Stat
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.lease import Grant, Kind, Status
from jupyter_gpushare.rules.snapshot import Snapshot
from tests.broker.service.bench import until

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = ClaimModel(key="k", kind="training", project="team", share="0.5", name="job")
DEVICE = GpuDevice("GPU-1", "host", "a100", "default", Memory(40 << 30))
BOOKS = Snapshot.of(hosts=[Host("host")], devices=[DEVICE])


def known(**changes: object) -> LeaseModel:
    """A lease as a holder may remember it."""
    lease = LeaseModel(
        id="abc",
        kind="training",
        project="team",
        person="ann",
        name="job",
        share="0.5",
        pool="",
        status="running",
        target="running",
        submitted=1.0,
        since=2.0,
        epoch=3,
        grants=[GrantModel("GPU-1", "host", "0.5", 1, "0")],
        bursts=[],
        lent="0",
        host_memory=0,
        turns_lost=0,
        reason=None,
        place=None,
        estimate_s=None,
        deadline=None,
        lent_to=[],
    )

    return msgspec.structs.replace(lease, **changes)


def test_a_token_is_for_one_lease_and_one_key() -> None:
    """Another lease's, another broker's, or an altered token is nobody's."""
    tokens, others = LeaseTokens(b"k" * 32), LeaseTokens(b"o" * 32)
    token = tokens.issue("abc")
    assert tokens.lease_of(token) == "abc"
    assert others.lease_of(token) is None
    for wrong in (token.replace("abc", "abd"), token[:-1], token + "0", "", "gpl_", "gpl_abc.é", token.upper()):
        assert tokens.lease_of(wrong) is None


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """Tokens work across restarts; a key that others can read, or that is too short, is refused."""
    path = tmp_path / "key"
    token = LeaseTokens.of_file(path).issue("abc")
    assert path.stat().st_mode & 0o777 == 0o600
    assert LeaseTokens.of_file(path).lease_of(token) == "abc"
    path.chmod(0o644)
    with pytest.raises(PermissionError):
        LeaseTokens.of_file(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="too few"):
        LeaseTokens.of_file(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("ann", "line 1"), ("ann short", "shorter"), ("\nann " + "t" * 30 + " boss", "line 2"), ("a b c d", "line 1")],
)
def test_a_file_of_tokens_says_which_line_is_wrong(text: str, problem: str) -> None:
    """A person without a token, a short token, or a third word that is not admin."""
    with pytest.raises(TokenFileError, match=problem):
        PeerTokens.parse(text)


def test_a_file_of_tokens_is_for_its_owner_alone(tmp_path: Path) -> None:
    """A file that others can read is refused before anything in it counts."""
    path = tmp_path / "tokens"
    path.write_text("ann " + "t" * 30)
    path.chmod(0o644)
    with pytest.raises(TokenFileError, match="chmod 600"):
        PeerTokens.of_file(path)


def test_a_roster_counts_what_lives_and_belongs_to_nobody_else(tmp_path: Path) -> None:
    """A dead process, one of another user, or one of another lease is not taken; the rest outlives the broker."""
    path = tmp_path / "roster.json"
    roster = Roster(path)
    me = myself()
    roster.put("a", [me, Identity(me.pid, me.start + 1)], uid=os.getuid())
    roster.put("b", [me])
    roster.put("c", [me], uid=os.getuid() + 1)
    assert set(roster.roots().values()) == {"a"}
    assert not roster.is_dead("a")
    assert not roster.is_dead("b")
    roster.write(roster.roots())
    assert Roster(path).roots() == roster.roots()
    path.write_text("nonsense")
    assert not Roster(path).roots()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_somebody_from_the_network_names_no_users_processes() -> None:
    """Who is no user of this machine has at most processes that run under the broker's own user."""
    code = "import os; os.setgid(4711); os.setuid(4711); print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as process:
        assert process.stdout
        process.stdout.readline()
        theirs = identify(process.pid)
        assert theirs is not None
        roster = Roster()
        roster.put("a", [theirs, myself()])
        roster.put("b", [theirs], uid=4711)
        assert dict(roster.roots()) == {myself(): "a", theirs: "b"}
        process.communicate(b"\n")


def test_a_roster_knows_the_dead_also_by_what_was_seen() -> None:
    """A lease is dead when its registered processes are, and those that were seen on a device for it."""
    processes = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    named, seen = (identify(process.pid) for process in processes)
    assert named is not None
    assert seen is not None
    roster = Roster()
    roster.put("a", [named])
    roster.saw("a", {seen})
    for process in processes:
        assert not roster.is_dead("a")
        process.kill()
        process.communicate()
    assert roster.is_dead("a")
    roster.forget("a")
    assert not roster.is_dead("a")


@pytest.mark.parametrize(
    "changes",
    [
        {"grants": [GrantModel("GPU-9", "host", "0.5", 1, "0")]},
        {"grants": [GrantModel("GPU-1", "host", "2", 1, "0")]},
        {"grants": [GrantModel("GPU-1", "host", "0.6", 1, "0")]},
        {"grants": [GrantModel("GPU-1", "host", "-1", 1, "0")]},
        {"grants": [GrantModel("GPU-1", "host", "NaN", 1, "0")]},
        {"grants": [GrantModel("GPU-1", "host", "0.5", 1, "0")] * 2},
        {"status": "ended"},
        {"id": ""},
    ],
)
def test_a_remembered_lease_that_cannot_be_is_no_lease(changes: dict[str, object]) -> None:
    """Grants of devices that are not there, of too much, of nothing, or twice are not believed."""
    assert remembered(HelloMessage(CLAIM, [], known(**changes), 3), "ann", 10.0, BOOKS) is None


def test_a_remembered_lease_keeps_its_epoch_and_belongs_to_who_asks() -> None:
    """Epochs never go back; whose it is comes from the connection, not from what is remembered."""
    lease = remembered(HelloMessage(CLAIM, [], known(person="bob"), 7), "ann", 10.0, BOOKS)
    assert lease is not None
    assert (lease.person, lease.epoch, lease.submitted, lease.status) == ("ann", 7, 1.0, Status.RUNNING)
    assert lease.kind is Kind.TRAINING


def test_a_claims_text_is_fit_for_databases_and_terminals() -> None:
    """Control characters and lone surrogates never get into the books."""
    claim = msgspec.structs.replace(CLAIM, name="a\x00b\x1b[31m\ud800")
    name = lease_of_claim(claim, "ann", 1.0).name
    assert name.isprintable()
    name.encode()


def test_inherited_sockets_are_those_meant_for_this_process() -> None:
    """LISTEN_FDS of another process, as after a fork, or nonsense, counts for nothing (sd_listen_fds(3))."""
    mine = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}
    assert inherited(mine) == (3, 4)
    assert inherited({**mine, "LISTEN_PID": "1"}) == ()
    assert inherited({**mine, "LISTEN_FDS": "-1"}) == ()
    assert inherited({}) == ()


def test_places_follow_the_environment(tmp_path: Path) -> None:
    """The socket is where the login session says, the books beside Jupyter's own data."""
    environ = {"XDG_RUNTIME_DIR": "/run/user/7", "JUPYTER_DATA_DIR": str(tmp_path)}
    assert str(user_runtime(environ)) == "/run/user/7/gpushare"
    assert user_state(environ) == tmp_path / "gpushare"
    assert str(user_state({"HOME": "/home/ann"})) == "/home/ann/.local/share/jupyter/gpushare"
    assert str(os.getuid()) in str(user_runtime({}))


def test_a_virtual_clock_wakes_in_order_and_never_goes_back() -> None:
    """Whoever waits for an earlier moment wakes first; time cannot be turned back."""

    async def story() -> None:
        clock, order = VirtualClock(0.0), []

        async def wait(at: float) -> None:
            await clock.until(at)
            order.append(at)

        waiting = [asyncio.create_task(wait(at)) for at in (3.0, 1.0, 2.0, 0.0)]
        await asyncio.sleep(0)
        clock.advance(2.5)
        await until(lambda: len(order) == 3)
        assert order == [0.0, 1.0, 2.0]
        clock.advance(1)
        await asyncio.gather(*waiting)
        for wrong in (-1.0, float("nan")):
            with pytest.raises(ValueError, match="turn time back"):
                clock.advance(wrong)

    asyncio.run(story())


def test_a_process_belongs_to_the_nearest_that_was_named() -> None:
    """A job in a session's terminal is the job's; an orphan stays whose it was; a reused number is nobody's."""
    table = {
        10: Stat(1, 10, 100.0),
        20: Stat(10, 20, 200.0),
        30: Stat(20, 20, 300.0),
        40: Stat(1, 20, 400.0),
        50: Stat(60, 50, 500.0),
        60: Stat(10, 10, 600.0),
    }
    kinship = Kinship(table.get)
    roots = {Identity(10, 100): "session", Identity(20, 200): "job"}
    assert kinship.leases_of([10, 30, 40, 50], roots) == {10: "session", 30: "job", 40: "job"}
    del table[20]
    table[30] = Stat(1, 20, 300.0)
    assert kinship.leases_of([30], roots) == {30: "job"}
    table[10] = Stat(1, 10, 999.0)
    assert kinship.leases_of([10], roots) == {}


def test_who_uses_more_than_its_bursts_allow_has_a_grace() -> None:
    """A burst that was called back is freed by the holder in time, or the rules hear of it; never of a plain share."""
    claim = msgspec.structs.replace(CLAIM, share="0.5..1")
    lease = lease_of_claim(claim, "ann", 0.0).evolve(status=Status.RUNNING, grants=(Grant("GPU-1", Fraction(500_000)),))
    plain = lease_of_claim(CLAIM, "ann", 0.0).evolve(status=Status.RUNNING, grants=lease.grants)
    books = BOOKS.with_change(Change(leases={lease.id: lease, plain.id: plain}))
    watch = OverUses()

    def told(at: float, memory: int) -> list[str]:
        held = {lease.id: {"GPU-1": memory}, plain.id: {"GPU-1": memory}}
        seen = Sighting(at, Driver("simulated", DriverState.READY), held=held)
        return [event.lease for event in watch.events(seen, books)]

    much, little = 21 << 30, 20 << 30
    assert [told(at, much) for at in (0.0, 9.0)] == [[], []]
    assert told(9.5, little) == []
    assert [told(at, much) for at in (10.0, 19.0, 20.0, 21.0)] == [[], [], [lease.id], []]
    bursting = Change(leases={lease.id: lease.evolve(bursts=lease.grants)})
    assert not list(watch.events(Sighting(99.0, Driver("simulated", DriverState.READY)), books.with_change(bursting)))
