"""What goes on in this kernel besides its cells, for the server's ``gpushare_probe_request``.

Threads, tasks and timers need no message to run, so no gate holds them: a kernel that has some of the user's is not
parked. They are told apart by where their code comes from, never by name:

- ours, and not reported: ipykernel, IPython's history, debugpy, tornado, pyzmq, this package with its simulated
  driver; and tqdm's monitor, which only redraws progress bars.
- a worker of a `concurrent.futures` pool that waits for work is not reported; one that works is.
- everything else is the user's, also when a library started it: a data loader's thread may well touch the GPU.

Threads that have never run Python cannot be seen here.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["PROBE_REPLY", "PROBE_REQUEST", "Probe", "alarms", "features", "frameworks", "tasks", "threads"]

PROBE_REQUEST: Final = "gpushare_probe_request"
PROBE_REPLY: Final = "gpushare_probe_reply"

_OWN: Final = (
    "ipykernel",
    "IPython.core.history",
    "debugpy",
    "_debugpy",
    "pydevd",
    "_pydevd_bundle",
    "_pydev_bundle",
    "tornado",
    "zmq",
    "jupyter_client",
    "jupyter_gpushare",
    "tqdm._monitor",
)
_OWN_TIMERS: Final = (*_OWN, "asyncio")
# What asyncio itself runs when a loop closes, such as those of our own requests; it ends by itself.
_CLOSING: Final = {"BaseEventLoop.shutdown_asyncgens", "BaseEventLoop.shutdown_default_executor"}
_POOL: Final = "concurrent.futures.thread"
_FRAMEWORKS: Final = (
    "torch",
    "jax",
    "tensorflow",
    "cupy",
    "numba.cuda",
    "cudf",
    "jupyter_gpushare.devices.simulated.cuda",
)
_LONGEST: Final = 80
_MOST: Final = 50

Found = list[dict[str, str]]


class Probe:
    """Answers the request in *kernel*, in its control thread, beside a running cell if need be.

    Args:
        kernel: the kernel.
        gated: whether messages that do not come through the server are held in this kernel too.
    """

    def __init__(self, kernel: Any, *, gated: bool) -> None:
        self._kernel = kernel
        self._gated = gated

    def answer(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Send the reply."""
        content: dict[str, Any] = {"status": "ok", "gated": self._gated}
        try:
            content |= {"threads": threads(), "tasks": [*tasks(self._kernel), *alarms()]}
            content |= {"frameworks": frameworks(), "features": features()}
        except Exception as error:  # noqa: BLE001  # a user's object may raise anything when looked at
            content |= {"status": "error", "evalue": _short(f"{type(error).__name__}: {error}")}
        self._kernel.session.send(stream, PROBE_REPLY, content, parent, ident)


def threads() -> Found:
    """The user's threads of this process: *name*, and *origin*, the module that their code comes from."""
    running = sys._current_frames()  # noqa: SLF001  # CPython's way to see whether a pool's worker waits
    found = (
        {"name": _short(thread.name), "origin": _short(_origin_of_thread(thread))}
        for thread in threading.enumerate()
        if thread is not threading.main_thread()
        and not _is_from(_origin_of_thread(thread), _OWN)
        and not _rests(thread, running.get(thread.ident or 0))
    )
    return list(_first(found))


def tasks(kernel: Any = None) -> Found:
    """The user's pending asyncio tasks and timers, of every event loop: *name* and *origin*, a module."""
    pending = [task for task in _all_tasks() if not task.done()]
    loops = {task.get_loop() for task in pending}
    main = getattr(getattr(kernel, "io_loop", None), "asyncio_loop", None)
    found = [*_user_tasks(pending), *_user_timers(loops | ({main} if main else set()))]
    if (gui := getattr(kernel, "eventloop", None)) is not None:
        found.append({"name": "%gui", "origin": _short(getattr(gui, "__module__", "") or "")})
    return found[:_MOST]


def alarms() -> Found:
    """What the user has the system call later: no message is needed for that, either."""
    return [{"name": "alarm", "origin": "signal"}] if signal.getitimer(signal.ITIMER_REAL)[0] else []


def frameworks() -> list[str]:
    """The GPU frameworks that this process has imported."""
    return [name for name in _FRAMEWORKS if name in sys.modules]


def features() -> list[str]:
    """What is in use here that some drivers cannot park: ``nccl``."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return []
    return ["nccl"] if "nccl" in str(distributed.get_backend()) else []


def _origin_of_thread(thread: threading.Thread) -> str:
    """The module of what it runs: its own class, or else the function that it was given."""
    kind = type(thread)
    if kind.__module__ != "threading":
        return kind.__module__
    function = getattr(thread, "function", None) or getattr(thread, "_target", None)
    return _module(function) or kind.__module__


def _rests(thread: threading.Thread, frame: Any) -> bool:
    """Whether it does nothing: a pool's worker without work, or a stand-in for a native thread that has left Python."""
    if isinstance(thread, threading._DummyThread):  # noqa: SLF001  # no public name
        return frame is None
    # A worker that waits is in its own function, inside the queue's `get`, which is C.
    waits = frame is not None and frame.f_globals.get("__name__") == _POOL
    return waits and _origin_of_thread(thread) == _POOL


def _all_tasks() -> list[asyncio.Task[Any]]:
    """The tasks of every event loop, also of those that nobody here knows."""
    found: set[asyncio.Task[Any]] = set()
    for name in ("_all_tasks", "_scheduled_tasks", "_eager_tasks"):  # CPython 3.11; 3.12 and later
        found.update(_snapshot(getattr(asyncio.tasks, name, ())))
    return list(found)


def _snapshot(changing: Iterable[Any]) -> list[Any]:
    """What is in a set that other threads change meanwhile."""
    for _ in range(100):
        try:
            return list(changing)
        except RuntimeError:
            continue
    raise RuntimeError("the tasks of this kernel change too fast to be listed")


def _user_tasks(pending: Iterable[asyncio.Task[Any]]) -> Iterator[dict[str, str]]:
    for task in pending:
        coroutine = task.get_coro()
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is None and inspect.iscoroutine(coroutine):
            continue  # it has run to its end, and its loop will find out
        origin = frame.f_globals.get("__name__", "") if frame is not None else type(coroutine).__module__
        name = getattr(coroutine, "__qualname__", None) or task.get_name()
        if not _is_from(str(origin), _OWN) and name not in _CLOSING:
            yield {"name": _short(str(name)), "origin": _short(str(origin))}


def _user_timers(loops: Iterable[Any]) -> Iterator[dict[str, str]]:
    """What is to be called later: a timer needs no message either."""
    for loop in loops:
        for handle in _snapshot(getattr(loop, "_scheduled", ())):
            if handle.cancelled():
                continue
            function = _innermost(handle._callback, handle._args)  # noqa: SLF001  # no public way
            if not _is_from(_module(function), _OWN_TIMERS):
                name = getattr(function, "__qualname__", None) or type(function).__qualname__
                yield {"name": _short(str(name)), "origin": _short(_module(function))}


def _innermost(function: Any, args: Any) -> Any:
    """What a timer calls in the end: tornado wraps it, and so does a periodic callback."""
    while True:
        owner: Any = getattr(function, "__self__", None)
        if isinstance(function, partial):
            function, args = function.func, (*function.args, *(args or ()))
        elif _is_from(_module(function), ("tornado",)) and args and callable(args[0]):
            function, args = args[0], args[1:]
        elif _is_from(type(owner).__module__, ("tornado",)) and callable(getattr(owner, "callback", None)):
            function = owner.callback
        else:
            return function


def _module(function: Any) -> str:
    return str(getattr(function, "__module__", "") or "")


def _is_from(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _first(found: Iterator[dict[str, str]]) -> Iterator[dict[str, str]]:
    for _, each in zip(range(_MOST), found, strict=False):
        yield each


def _short(text: str) -> str:
    """*text* from the user's objects, fit to be sent and shown."""
    return text.encode("utf-8", "replace").decode()[:_LONGEST]
