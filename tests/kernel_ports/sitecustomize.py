"""Gives each kernel ports that nobody else on this machine is given meanwhile.

Jupyter asks the system for a free port, gives it back, and has the kernel bind it a second later. With some test
processes side by side, an outgoing connection or another process's kernel has it by then every few hundred kernels,
and the kernel dies of ``Address already in use``. Here all test processes, and the servers that they start, count
through ports below those that the system gives to anybody. Python loads this module by its name wherever the tests'
``PYTHONPATH`` leads to it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from pathlib import Path

_COUNTER = "KERNEL_PORTS_COUNTER"
_FIRST, _AFTER_LAST = 10_240, 32_000
_SERVERS = ("jupyter_server", "jupyterlab", "jupyterhub.singleuser")


def count_through(counter: Path) -> None:
    """Have this process, and those that it starts, take kernels' ports in turn; *counter* keeps the last one."""
    os.environ[_COUNTER] = str(counter)
    here = str(Path(__file__).parent)
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each and each != here]
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *paths])
    _install()


def _install() -> None:
    from jupyter_client.connect import LocalPortCache

    LocalPortCache.find_available_port = lambda _, ip: next_port(ip)  # type: ignore[assignment,method-assign]


def next_port(ip: str) -> int:
    """The next port that nobody listens at."""
    while True:
        port = _count()
        with socket.socket() as probe:
            try:
                probe.bind((ip, port))
            except OSError:
                continue
            return port


def _count() -> int:
    with Path(os.environ[_COUNTER]).open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        port = int(counter.read() or _FIRST) + 1
        counter.truncate(0)
        counter.write(str(port if port < _AFTER_LAST else _FIRST))
        counter.flush()
        return port - 1


if os.environ.get(_COUNTER) and any(server in word for word in sys.orig_argv for server in _SERVERS):
    _install()
