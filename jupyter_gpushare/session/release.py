"""Giving GPU memory back, in levels that people understand, each attested by the device (DESIGN 7).

A release reports what the device shows afterwards, not what was attempted. Where nothing fell, it says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.errors import (
    PublicError,
    bad_request,
    needs_confirmation,
    unknown_kernel,
    unknown_release,
)
from jupyter_gpushare.session.release_sentences import (
    CHANGED_MEANWHILE,
    FAILED,
    NO_CACHE_ANYWHERE,
    NO_CACHE_HERE,
    NOTHING_TO_END,
    NOTHING_TO_PARK,
    STOPPED,
    Verdict,
    announcement,
    judge_end,
    judge_free,
    judge_gone,
    starting,
)
from jupyter_gpushare.session.snapshot import message_model
from jupyter_gpushare.session.state import Told
from jupyter_gpushare.session.wire import ReleaseModel

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Sequence

    from jupyter_gpushare.session.kernels import Kernel, Kernels
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.parking.release import ParkRelease
    from jupyter_gpushare.session.requests import ReleaseRequest

__all__ = ["Release", "Releases", "held_by"]

_REMEMBERED = 50
_TOLD_FOR_S = 30.0


@dataclass(slots=True)
class Release:
    """One release, from its start to what the device attested. *announced* are the running cells the owner knows of."""

    id: str
    request: ReleaseRequest
    kernels: Sequence[Kernel]
    started: float
    message: Message
    loss: Loss | None = None
    announced: frozenset[str] = frozenset()
    status: Literal["running", "released", "failed"] = "running"
    ended: float | None = None
    freed: int | None = None

    def finish(self, verdict: Verdict) -> None:
        """Note how it went."""
        self.status, self.message, self.freed = verdict
        self.ended = time.time()

    def model(self) -> ReleaseModel:
        """The release as it travels."""
        return ReleaseModel(
            id=self.id,
            level=self.request.level,
            kernel_id=self.request.kernel_id,
            status=self.status,
            started=self.started,
            ended=self.ended,
            freed=self.freed,
            loss=self.loss,
            message=message_model(self.message),
        )


class Releases:
    """Carries out releases, one at a time, and remembers the newest.

    Args:
        kernels: this server's kernels.
        ask: a fresh sample of the devices.
        last: the newest sample, None before the first.
        free_cache: asks one kernel to free cached memory; an error text per framework that failed.
            Raises TimeoutError when the kernel does not answer.
        parks: parks kernels, for the level that loses nothing.
        announce: called with each loss before it happens, for audit and metrics.
        changed: called whenever a release moved on.
        deadline_s: how long the device may take to show that processes are gone.
        log: where trouble goes.
    """

    def __init__(
        self,
        *,
        kernels: Kernels,
        ask: Callable[[], Awaitable[Sample]],
        last: Callable[[], Sample | None],
        free_cache: Callable[[Kernel], Awaitable[Sequence[str]]],
        parks: ParkRelease,
        announce: Callable[[Loss, Sequence[Kernel]], None],
        changed: Callable[[], None],
        deadline_s: float,
        log: logging.Logger,
    ) -> None:
        self._kernels = kernels
        self._ask = ask
        self._last = last
        self._free_cache = free_cache
        self._parks = parks
        self._announce = announce
        self._changed = changed
        self._deadline_s = deadline_s
        self._log = log
        self._known: OrderedDict[str, Release] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    def all(self) -> list[Release]:
        """The remembered releases, oldest first."""
        return list(self._known.values())

    def get(self, release_id: str) -> Release:
        """One release.

        Raises:
            PublicError: there is none with that id.
        """
        if release_id not in self._known:
            raise unknown_release(release_id)
        return self._known[release_id]

    def recent(self) -> list[Release]:
        """Those under way or just ended, oldest first: what every frame carries."""
        oldest = time.time() - _TOLD_FOR_S
        return [release for release in self._known.values() if release.ended is None or release.ended >= oldest]

    def told(self) -> Told | None:
        """What the state box should say of releases now: one under way, or one that has just ended."""
        newest = next(reversed([release for release in self.recent() if _is_told(release)]), None)
        if newest is None:
            return None
        if newest.request.level == "park":
            return Told(newest.message, is_running=False)
        code = {"running": "RELEASING", "released": "RELEASED", "failed": "CANNOT_RELEASE"}[newest.status]
        return Told(Message(code, newest.message.template, newest.message.values), newest.ended is None)

    async def start(self, request: ReleaseRequest) -> Release:
        """Begin a release; it goes on by itself.

        Raises:
            PublicError: the kernel is unknown, nothing can be released that way, or the owner has yet to
                confirm what the error announces.
        """
        await self._refresh_paths()
        if request.level == "park":
            await self._parks.freshen()
        kernels = self._chosen(request)
        if request.level == "park":
            await self._parks.check(kernels, when_idle=request.when == "idle")
        else:
            self._check_confirmed(request, kernels)
        release = Release(secrets.token_hex(8), request, kernels, time.time(), starting(request, kernels))
        release.loss, release.announced = _loss_of(request), _cells(kernels)
        self._known[release.id] = release
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        task = asyncio.get_running_loop().create_task(self._carry_out(release))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._changed()
        return release

    async def stop(self) -> None:
        """Wait for nothing and leave nothing behind: used when the server ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _chosen(self, request: ReleaseRequest) -> list[Kernel]:
        if request.when == "idle" and request.level != "park":
            raise bad_request(f"'when' does not go with level '{request.level}'; leave it out")
        if request.level == "end_all":
            if request.kernel_id is not None:
                raise bad_request("'kernel_id' does not go with level 'end_all'; leave it out")
            return self._holding() or _refuse(NOTHING_TO_END)
        if request.kernel_id is None:
            if request.level == "park":
                return self._holding() or _refuse(NOTHING_TO_PARK)
            if request.level == "end_kernel":
                raise bad_request("'kernel_id' is missing; level 'end_kernel' ends one kernel")
            return [k for k in self._kernels.all() if k.releases_cache] or _refuse(NO_CACHE_ANYWHERE)
        kernel = self._kernels.get(request.kernel_id)
        if kernel is None:
            raise unknown_kernel(request.kernel_id)
        if request.level == "free_cache" and not kernel.releases_cache:
            _refuse(Message("NO_CACHE_HERE", NO_CACHE_HERE, {"notebook": kernel.label}))
        return [kernel]

    def _holding(self) -> list[Kernel]:
        sample = self._last()
        if sample is None:
            return []
        held = {use.owner.key for use in sample.attributed.owners if use.owner.kind == "kernel"}
        return [kernel for kernel in self._kernels.all() if kernel.id in held]

    def _check_confirmed(self, request: ReleaseRequest, kernels: Sequence[Kernel]) -> None:
        """The owner's word is for exactly the kernels and cells that were announced, not for what came after."""
        if _loss_of(request) is None and not _cells(kernels):
            return
        confirm = _digest(request, kernels)
        if not hmac.compare_digest(request.confirm.encode(), confirm.encode()):
            raise needs_confirmation(announcement(request, kernels), confirm)

    async def _carry_out(self, release: Release) -> None:
        try:
            release.finish(await self._in_turn(release))
        except asyncio.CancelledError:
            release.finish(Verdict("failed", STOPPED, None))
            raise
        except Exception:  # noqa: BLE001  # a fault of ours must end the release, not hang it
            self._log.exception("The release %s failed", release.id)
            release.finish(Verdict("failed", FAILED, None))
        self._changed()

    async def _in_turn(self, release: Release) -> Verdict:
        """One release at a time; but one that parks may wait for a cell's end, and nobody else for it."""
        if release.request.level == "park":
            return await self._parks.carry_out(release.kernels, when_idle=release.request.when == "idle")
        async with self._turn:
            return await self._verdict(release)

    async def _verdict(self, release: Release) -> Verdict:
        living = [kernel for kernel in release.kernels if self._kernels.get(kernel.id) is not None]
        if not living:
            release.loss = None
            return judge_gone(release.kernels)
        if _cells(living) - release.announced:
            release.loss = None
            return Verdict("failed", CHANGED_MEANWHILE, None)
        return await (self._free(living) if release.loss is None else self._end(release.loss, living))

    async def _free(self, kernels: Sequence[Kernel]) -> Verdict:
        before = await self._sample()
        troubles: list[str] = []
        for kernel in kernels:
            try:
                troubles += await self._free_cache(kernel)
            except (TimeoutError, KeyError):
                troubles.append(f"{kernel.label} did not answer")
        gone = [kernel for kernel in kernels if self._kernels.get(kernel.id) is None]
        if gone:
            return judge_gone(gone)
        return judge_free(held_by(before, kernels), held_by(await self._sample(), kernels), troubles)

    async def _end(self, loss: Loss, kernels: Sequence[Kernel]) -> Verdict:
        before = await self._sample()
        self._announce(loss, kernels)
        for kernel in kernels:
            await self._kernels.end(kernel.id)
        return judge_end(held_by(before, kernels), await self._await_gone(_pids(before, kernels)), kernels)

    async def _await_gone(self, pids: set[int]) -> dict[int, int | None] | None:
        """What the processes still hold, asked of the device until it is nothing or the deadline has passed.

        None when the device's lists could not be read: that is no proof of anything.
        """
        deadline = time.monotonic() + self._deadline_s
        while True:
            sample = await self._sample()
            left = None if sample is None or not sample.attributed.trusted else _memory_by_pid(sample, pids)
            if left == {} or time.monotonic() >= deadline:
                return left

    async def _sample(self) -> Sample | None:
        """A fresh sample; None when the driver does not give one in time, which must not hold up a release."""
        try:
            return await asyncio.wait_for(self._ask(), self._deadline_s)
        except (TimeoutError, RuntimeError):
            return None

    async def _refresh_paths(self) -> None:
        try:
            await self._kernels.refresh_paths()
        except Exception:  # noqa: BLE001  # names are a courtesy; the release is not
            self._log.debug("The notebooks' names could not be read", exc_info=True)


def _is_told(release: Release) -> bool:
    """A park that goes on or went well is told by the parking itself, for as long as it is true."""
    return release.request.level != "park" or release.status == "failed"


def _refuse(message: Message) -> list[Kernel]:
    raise PublicError(409, Message("CANNOT_RELEASE", message.template, message.values))


def _loss_of(request: ReleaseRequest) -> Loss | None:
    losses = {"end_kernel": Loss.KERNEL_ENDED_BY_OWNER, "end_all": Loss.ALL_KERNELS_ENDED_BY_OWNER}
    return losses.get(request.level)


def _cells(kernels: Sequence[Kernel]) -> frozenset[str]:
    """The cells that run in *kernels*, by their requests."""
    return frozenset(request for kernel in kernels for request in kernel.cells)


def _digest(request: ReleaseRequest, kernels: Sequence[Kernel]) -> str:
    """Stands for what would be released and disturbed just now."""
    what = [request.level, *sorted(kernel.id for kernel in kernels), "", *sorted(_cells(kernels))]
    return hashlib.sha256("\n".join(what).encode()).hexdigest()[:32]


def held_by(sample: Sample | None, kernels: Sequence[Kernel]) -> int | None:
    """Bytes these kernels hold, None when it cannot be told."""
    if sample is None or not sample.attributed.trusted:
        return None
    ids = {kernel.id for kernel in kernels}
    parts = [
        use.memory.value for use in sample.attributed.owners if use.owner.kind == "kernel" and use.owner.key in ids
    ]
    return None if None in parts else sum(part or 0 for part in parts)


def _pids(sample: Sample | None, kernels: Sequence[Kernel]) -> set[int]:
    if sample is None:
        return set()
    ids = {kernel.id for kernel in kernels}
    owners = sample.attributed.owners
    return {pid for use in owners if use.owner.kind == "kernel" and use.owner.key in ids for pid in use.pids}


def _memory_by_pid(sample: Sample, pids: set[int]) -> dict[int, int | None]:
    listed: dict[int, int | None] = {}
    for use in sample.uses:
        for process in use.processes or ():
            if process.pid in pids:
                listed[process.pid] = process.memory.value
    return listed
