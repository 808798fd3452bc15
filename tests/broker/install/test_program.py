"""The privileged program ends exactly the process that is meant, and nothing for anybody but the broker."""

from __future__ import annotations

import ast
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.broker.install.units import EXAMPLE
from jupyter_gpushare.broker.privileged import program
from jupyter_gpushare.broker.privileged.asking import Answer, ask
from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.rules.loss import Loss
from tests.devices.simulated.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PERSON, STRANGER = 4711, 4712
#: An interpreter as the service manager starts it: without an environment, and quick.
BARE = [sys.executable, "-I", "-S"]
LOSS = "job_stopped_after_grace"
TURNED_ON = f'[broker]\nlosses = ["{LOSS}"]\n'
needs_users = pytest.mark.skipif(os.getuid() != 0, reason="only root can become other users")


@dataclass
class Victim:
    """A process of another user."""

    process: subprocess.Popen[str]
    identity: Identity

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def request(self, **other: Any) -> dict[str, Any]:
        """A right request to end it, but for *other*."""
        right = {"pid": self.identity.pid, "start": self.identity.start, "uid": PERSON, "loss": LOSS, "lease": "job-1"}
        return right | other


class Activator:
    """What a service manager does for the program: one of it for each connection, which is its standard input."""

    def __init__(self, directory: Path, account: str) -> None:
        self.path = directory / "ending.sock"
        self.configuration = directory / "gpushare.toml"
        self.configuration.write_text(TURNED_ON)
        self.configuration.chmod(0o644)
        self.journal: list[str] = []
        copy = directory / "end-process.py"
        copy.write_bytes(Path(program.__file__).read_bytes())
        arguments = [f"--account={account}", f"--config={self.configuration}"]
        self._command = [*BARE, str(copy), *arguments]
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(str(self.path))
        self.path.chmod(0o666)
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(60)

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                with self._listening.accept()[0] as connection:
                    done = subprocess.run(
                        self._command, stdin=connection.fileno(), stderr=subprocess.PIPE, text=True, check=False
                    )
                    self.journal.append(done.stderr)


@pytest.fixture(name="broker")
def _broker() -> pwd.struct_passwd:
    """Some account of the system's, as the broker has one."""
    return pwd.getpwuid(1)


@pytest.fixture(name="activator")
def _activator(broker: pwd.struct_passwd) -> Iterator[Activator]:
    """The program, ready to be asked."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    directory.chmod(0o755)
    activator = Activator(directory, broker.pw_name)
    yield activator
    activator.close()
    shutil.rmtree(directory)


@pytest.fixture(name="victim")
def _victim() -> Iterator[Callable[..., Victim]]:
    """Starts processes of a user."""
    begun: list[subprocess.Popen[str]] = []

    def begin(uid: int = PERSON, before: str = "") -> Victim:
        code = (
            f"import os, signal; os.setgroups([]); os.setgid({uid}); os.setuid({uid}); {before}\nprint(1, flush=True)"
        )
        process = subprocess.Popen([*BARE, "-c", f"{code}\nwhile True: signal.pause()"], stdout=-1, text=True)
        begun.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        identity = identify(process.pid)
        assert identity is not None
        return Victim(process, identity)

    yield begin
    for process in begun:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def send(activator: Activator, packet: bytes, uid: int) -> Answer:
    """What the program answers to *packet*, sent by a process of *uid*."""
    code = (
        "import os, socket, sys; os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1])\n"
        "s.send(sys.stdin.buffer.read()); sys.stdout.buffer.write(s.recv(4096))\n"
    )
    command = [*BARE, "-c", code, str(activator.path), str(uid)]
    done = subprocess.run(command, input=packet, capture_output=True, check=True, timeout=60)
    return Answer(**json.loads(done.stdout))


def asked(activator: Activator, request: Any, uid: int = 1) -> Answer:
    """As `send`, with JSON."""
    return send(activator, json.dumps(request).encode(), uid)


@needs_users
def test_a_registered_process_of_another_user_is_ended(activator: Activator, victim: Callable[..., Victim]) -> None:
    """The broker's account names pid, start time and user; the process is asked first, and the journal has a line."""
    job = victim()
    answer = asked(activator, job.request())
    assert (answer.code, answer.has_ended) == ("ENDED", True)
    assert job.process.wait(60) == -signal.SIGTERM
    wait_until(lambda: bool(activator.journal), "the journal's line, which is read a moment after the answer")
    assert f'ended by SIGTERM; asked: b\'{{"pid": {job.identity.pid}' in activator.journal[0]


@needs_users
def test_one_that_ignores_the_first_signal_is_ended_all_the_same(
    activator: Activator, victim: Callable[..., Victim]
) -> None:
    """After SIGTERM and its time comes SIGKILL."""
    job = victim(before="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    assert "SIGKILL" in asked(activator, job.request()).text
    assert job.process.wait(60) == -signal.SIGKILL


@needs_users
@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"start": 1}, "ANOTHER_PROCESS"),
        ({"uid": STRANGER}, "ANOTHER_USER"),
        ({"uid": 0}, "NOT_A_PERSON"),
        ({"uid": 1}, "NOT_A_PERSON"),
        ({"uid": 999}, "NOT_A_PERSON"),
        ({"uid": 65534}, "NOT_A_PERSON"),
        ({"pid": 1}, "PROTECTED"),
        ({"pid": 0}, "PROTECTED"),
        ({"pid": -1}, "NO_REQUEST"),
        ({"pid": True}, "NO_REQUEST"),
        ({"pid": 1e3}, "NO_REQUEST"),
        ({"pid": "4711"}, "NO_REQUEST"),
        ({"pid": 4194304}, "GONE"),
        ({"start": None}, "NO_REQUEST"),
        ({"lease": "a\nb"}, "NO_REQUEST"),
        ({"lease": "x" * 65}, "NO_REQUEST"),
        ({"loss": "overrun_of_its_own"}, "UNKNOWN_LOSS"),
        ({"loss": ["job_stopped_after_grace"]}, "UNKNOWN_LOSS"),
        ({"signal": 9}, "NO_REQUEST"),
    ],
)
def test_what_is_not_exactly_right_ends_nothing(
    activator: Activator, victim: Callable[..., Victim], other: dict[str, Any], code: str
) -> None:
    """One wrong value, and the process goes on; the answer says which."""
    job = victim()
    assert asked(activator, job.request(**other)).code == code
    assert job.lives


@needs_users
@pytest.mark.parametrize("uid", [0, PERSON, STRANGER])
def test_nobody_but_the_broker_may_ask(activator: Activator, victim: Callable[..., Victim], uid: int) -> None:
    """Not even root, nor the owner: the system says who is at the other end."""
    job = victim()
    assert asked(activator, job.request(), uid).code == "NOT_THE_BROKER"
    assert job.lives


@needs_users
@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (EXAMPLE, 0o644),
        ("", 0o644),
        ("[broker]\nlosses = []", 0o644),
        ("[broker]\nlosses = 'job_stopped_after_grace'", 0o644),
        ("broker = 1", 0o644),
        ("this is no TOML", 0o644),
        (TURNED_ON, 0o666),
        (TURNED_ON, 0o664),
    ],
)
def test_it_is_off_until_the_admins_own_file_turns_it_on(
    activator: Activator, victim: Callable[..., Victim], text: str, mode: int
) -> None:
    """Without the loss in the file, or with a file that others can change, nothing ends: the broker's word is not enough."""
    activator.configuration.write_text(text)
    activator.configuration.chmod(mode)
    job = victim()
    assert asked(activator, job.request()).code == "TURNED_OFF"
    assert job.lives


@needs_users
def test_a_file_of_the_brokers_own_turns_nothing_on(activator: Activator, victim: Callable[..., Victim]) -> None:
    """A broker that was taken over cannot give itself the right."""
    os.chown(activator.configuration, 1, 1)
    job = victim()
    assert asked(activator, job.request()).code == "TURNED_OFF"
    assert job.lives


@needs_users
def test_a_process_that_is_two_users_is_left_alone(activator: Activator, victim: Callable[..., Victim]) -> None:
    """A program that changed one of its uids is in part somebody else's: a set-user-id program of root's, say."""
    job = victim(uid=0, before=f"os.setresuid({PERSON}, {PERSON}, 0)")
    assert asked(activator, job.request()).code == "ANOTHER_USER"
    assert job.lives


@needs_users
@pytest.mark.parametrize("packet", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 1000, b"{}" + b" " * 5000])
def test_nonsense_is_answered_and_ends_nothing(activator: Activator, packet: bytes) -> None:
    """Whatever is sent, there is an answer that names the fault."""
    assert send(activator, packet, 1).code == "NO_REQUEST"


def test_without_the_program_the_broker_is_told_what_to_do(tmp_path: Path) -> None:
    """The broker goes on, and its log names the command."""
    answer = ask(Identity(4711, 1), PERSON, Loss.JOB_STOPPED_AFTER_GRACE, "job", tmp_path / "no.sock")
    assert (answer.code, answer.has_ended) == ("NOT_INSTALLED", False)
    assert "install-service" in answer.text


def test_a_program_that_says_nonsense_is_not_believed(tmp_path: Path) -> None:
    """Only a right answer counts as an end."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            with listening.accept()[0] as connection:
                connection.recv(4096)
                connection.send(b"ENDED")

        thread = threading.Thread(target=answer)
        thread.start()
        found = ask(Identity(4711, 1), PERSON, Loss.JOB_STOPPED_AFTER_GRACE, "job", path)
        thread.join(60)
    assert (found.code, found.has_ended) == ("NO_ANSWER", False)


def test_it_stands_alone() -> None:
    """One file that imports the standard library alone can be copied to where only root can change it."""
    tree = ast.parse(Path(program.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_it_knows_no_loss_that_the_rules_do_not() -> None:
    """Its list is of declared losses, and the same that the admin's file can turn on."""
    assert set(map(Loss, program.LOSSES)) == Configuration.parse(TURNED_ON).losses
