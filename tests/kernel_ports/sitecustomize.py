"""Gives each kernel ports that nobody else on this machine is given meanwhile.

Jupyter asks the system for a free port, gives it back, and has the kernel bind it a second later. With some test
processes side by side, an outgoing connection or another process's kernel has it by then every few hundred kernels,
and the kernel dies of ``Address already in use``. Here all test processes, and the servers that they start, count
through ports below those that the system gives to anybody. Python loads this module by its name wherever the tests'
``PYTHONPATH`` leads to it.
"""

from __future__ import annotations

import os
import sys

# Every Python that a test starts runs this: what most of them do not need is imported where it is used.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_COUNTER = "KERNEL_PORTS_COUNTER"
_FIRST, _AFTER_LAST = 10_240, 32_000
_SERVERS = ("jupyter_server", "jupyterlab", "jupyterhub.singleuser")


def count_through_all() -> None:
    """Have this process, and those that it starts, take kernels' ports in turn with all others of this user."""
    from pathlib import Path

    os.environ[_COUNTER] = str(_counter())
    here = str(Path(__file__).parent)
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each and each != here]
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *paths])
    _install()


def _install() -> None:
    from jupyter_client.connect import LocalPortCache

    LocalPortCache.find_available_port = lambda _, ip: next_port(ip)  # type: ignore[assignment,method-assign]


def next_port(ip: str) -> int:
    """The next port that nobody listens at."""
    import socket

    while True:
        port = _count()
        with socket.socket() as probe:
            try:
                probe.bind((ip, port))
            except OSError:
                continue
            return port


def _counter() -> Path:
    import tempfile
    from pathlib import Path

    # JupyterHub keeps most of the environment from its users' servers, and a test has temporary files elsewhere.
    return Path(os.environ.get(_COUNTER) or Path(tempfile.gettempdir()) / f"kernel-ports-{os.getuid()}")


def _count() -> int:
    import fcntl

    with _counter().open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        port = int(counter.read() or _FIRST) + 1
        counter.truncate(0)
        counter.write(str(port if port < _AFTER_LAST else _FIRST))
        counter.flush()
        return port - 1


if any(server in word for word in sys.orig_argv for server in _SERVERS):
    _install()
