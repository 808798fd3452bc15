"""Starts a user's own broker when the first holder needs one: race-safe, detached, and answering when it returns."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker import places
from jupyter_gpushare.devices.identity import identify, is_alive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import IO

    from jupyter_gpushare.devices.identity import Identity

__all__ = ["StartError", "start"]

_DEADLINE_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.05
_LAST_WORDS: Final = 1000


class StartError(OSError):
    """The broker did not start. Says what it said, and where its log is."""


def start(environ: Mapping[str, str], deadline_s: float = _DEADLINE_S) -> Path:
    """The socket of this user's own broker, which is started if none answers. Blocking: call it in a thread.

    Of several that start one at the same moment one does, and the others wait for it.

    Raises:
        StartError: it does not come up.
        PlaceError: its directory cannot be used.
    """
    runtime = places.private_directory(places.user_runtime(environ))
    path = places.check_socket_path(places.user_socket(environ))
    deadline = time.monotonic() + deadline_s
    with _alone(runtime, deadline):
        if not _answers(path):
            _run(environ, runtime, path, deadline)
    return path


@contextmanager
def _alone(runtime: Path, deadline: float) -> Iterator[None]:
    file = os.open(places.lock_file(runtime), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while not _is_locked(file):
            if time.monotonic() > deadline:
                raise StartError(f"Another program is starting the broker for too long; see {places.log_file(runtime)}")
            time.sleep(_LOOK_EVERY_S)
        yield
    finally:
        os.close(file)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _run(environ: Mapping[str, str], runtime: Path, path: Path, deadline: float) -> None:
    log = places.log_file(runtime)
    with log.open("ab") as output:
        begin = output.tell()
        broker = _detach([sys.executable, "-m", "jupyter_gpushare.app", "broker", "--on-demand"], environ, output)
    while not _answers(path):
        if broker is None or not is_alive(broker):
            raise StartError(f"The broker did not start: {_last_words(log, begin)} (all of it: {log})")
        if time.monotonic() > deadline:
            raise StartError(f"The broker takes too long to start; its log is {log}")
        time.sleep(_LOOK_EVERY_S)


def _detach(command: list[str], environ: Mapping[str, str], output: IO[bytes]) -> Identity | None:
    """Start *command* as nobody's child: it outlives whoever started it, and its memory counts as nobody's."""
    shell = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *command],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=output,
        env=dict(environ),
        cwd="/",
        start_new_session=True,  # it hears none of the signals that are meant for that one's terminal
    )
    return identify(int(shell.stdout))


def _answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(str(path))
    except OSError:
        return False
    return True


def _last_words(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        text = file.read().decode(errors="replace").strip()
    return text[-_LAST_WORDS:] or "it said nothing"
