"""The broker as the system runs it: under its own account, on a socket that it was given, for several real users."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

ANA, BO = 4711, 4712
needs_users = pytest.mark.skipif(os.getuid() != 0, reason="only root can become other users")
#: Becomes the broker's account, and gets its socket the way of sd_listen_fds(3). What it needs it has loaded by then.
SERVE = """
import os, sys
from jupyter_gpushare.app import broker, main
import jupyter_gpushare.devices.simulated.source
os.environ["LISTEN_PID"] = str(os.getpid())
uid, given = int(sys.argv.pop(1)), int(sys.argv.pop(1))
os.dup2(given, 3)
os.setgroups([]); os.setgid(uid); os.setuid(uid)
main()
"""
#: A user who asks the broker, holding a lease meanwhile if told so.
ASK = """
import asyncio, json, os, sys
from jupyter_gpushare.broker import client_holding, wire
from jupyter_gpushare.broker.client import BrokerClient, BrokerError, Endpoint
from jupyter_gpushare.devices.identity import myself
uid = int(sys.argv[1]); os.setgroups([]); os.setgid(uid); os.setuid(uid)
client = BrokerClient(Endpoint.at_socket(sys.argv[2]))
async def hold():
    claim = wire.ClaimModel(key="lab", kind="interactive", project="default", share="0.5", name="lab")
    me = myself()
    holding = client.hold(claim, [wire.ProcessModel(me.pid, me.start)])
    lease = await holding.granted()
    print(json.dumps([lease.id, lease.person]), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await holding.close()
async def ask(verb, path):
    try:
        answer = await client.request(verb, path)
    except BrokerError as error:
        answer = {"status": error.status, "code": error.code}
    print(json.dumps(answer))
asyncio.run(hold() if sys.argv[3] == "hold" else ask(*sys.argv[3:]))
"""


class Town:
    """A broker under its own account, and users. Its books are in memory: it may not read where Python lies here."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "broker.sock"
        self._machine = Machine.create(directory / "machine", [DeviceSpec(total=Memory(4 << 30))])
        for each in (directory, *directory.rglob("*")):
            each.chmod(0o777 if each.is_dir() else 0o666)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.path))
        self.path.chmod(0o666)
        self._listening.listen()
        account = pwd.getpwuid(1)
        environ = {**os.environ, "GPUSHARE_SIMULATED_MACHINE": str(self._machine.path), "LISTEN_FDS": "1"}
        environ |= {"HOME": str(directory), "JUPYTER_CONFIG_DIR": str(directory), "TMPDIR": str(directory)}
        given = self._listening.fileno()
        arguments = [
            "broker",
            "--multi-user",
            f"--socket={self.path}",
            "--ledger=memory",
            f"--state={directory / 'state'}",
        ]
        command = [sys.executable, "-c", SERVE, str(account.pw_uid), str(given), *arguments]
        self._log = (directory / "log").open("w+")
        self.broker = subprocess.Popen(command, env=environ, pass_fds=[given], stdout=self._log, stderr=self._log)
        self._holders: list[subprocess.Popen[str]] = []

    def ask(self, uid: int, verb: str, path: str) -> Any:
        """What *uid* is answered."""
        command = [sys.executable, "-c", ASK, str(uid), str(self.path), verb, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{done.stderr}\n{self.said}"
        return json.loads(done.stdout)

    def hold(self, uid: int) -> tuple[str, str]:
        """A lease of *uid*'s, until the test ends: its id, and whose it is."""
        command = [sys.executable, "-c", ASK, str(uid), str(self.path), "hold"]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._holders.append(holder)
        assert holder.stdout is not None
        line = holder.stdout.readline()
        assert line, self.said
        lease, person = json.loads(line)
        return lease, person

    @property
    def said(self) -> str:
        """The broker's log."""
        return Path(self._log.name).read_text()

    def close(self) -> None:
        """End everything."""
        for holder in self._holders:
            holder.kill()
            holder.communicate()
        self.broker.terminate()
        self.broker.wait(60)
        self._log.close()
        self._listening.close()
        self._machine.close()


@pytest.fixture(name="town")
def _town() -> Iterator[Town]:
    """A broker for everybody."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    town = Town(directory)
    yield town
    town.close()
    shutil.rmtree(directory)


@needs_users
def test_two_real_users_share_a_broker_and_cannot_touch_each_other(town: Town) -> None:
    """The broker, itself a third user, knows each by the socket: own leases show, others' do not exist."""
    anas, ana = town.hold(ANA)
    bos, bo = town.hold(BO)
    assert (ana, bo) == (str(ANA), str(BO))
    assert anas != bos
    assert [each["id"] for each in town.ask(BO, "GET", "leases")["leases"]] == [bos]
    assert town.ask(BO, "DELETE", f"leases/{anas}")["status"] == 404
    assert town.ask(BO, "POST", "admin/reclaim")["status"] == 403
    assert [each["id"] for each in town.ask(ANA, "GET", "leases")["leases"]] == [anas]
    assert town.ask(ANA, "DELETE", f"leases/{anas}")["id"] == anas
    assert len(town.ask(0, "GET", "leases")["leases"]) == 2
    assert "multi_user" in json.dumps(town.ask(BO, "GET", ""))
