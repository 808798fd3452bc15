"""Giving GPU memory back, in levels that people understand, each attested by the device (DESIGN 7).

A release reports what the device shows afterwards, not what was attempted. Where nothing fell, it says so.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    FAILED,
    NO_CACHE_ANYWHERE,
    NO_CACHE_HERE,
    NOTHING_TO_END,
    Verdict,
    announcement,
    judge_end,
    judge_free,
    starting,
)
from jupyter_gpushare.session.snapshot import message_model
from jupyter_gpushare.session.wire import ReleaseModel, ReleaseRequest

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Sequence

    from jupyter_gpushare.session.kernels import Kernel, Kernels
    from jupyter_gpushare.session.meter import Sample

__all__ = ["Release", "Releases"]

_REMEMBERED = 50
_TOLD_FOR_S = 30.0


@dataclass(slots=True)
class Release:
    """One release, from its start to what the device attested."""

    id: str
    request: ReleaseRequest
    kernels: Sequence[Kernel]
    started: float
    message: Message
    loss: Loss | None = None
    status: str = "running"
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
            status=self.status,  # type: ignore[arg-type]  # only the three words of the wire are ever set
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
        announce: Callable[[Loss, Sequence[Kernel]], None],
        changed: Callable[[], None],
        deadline_s: float,
        log: logging.Logger,
    ) -> None:
        self._kernels = kernels
        self._ask = ask
        self._last = last
        self._free_cache = free_cache
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

    def told(self) -> Message | None:
        """What the state box should say of releases now: one under way, or one that has just ended."""
        newest = next(reversed(self._known.values()), None)
        if newest is None or (newest.ended is not None and time.time() - newest.ended > _TOLD_FOR_S):
            return None
        code = {"running": "RELEASING", "released": "RELEASED"}.get(newest.status, "CANNOT_RELEASE")
        return Message(code, newest.message.template, newest.message.values)

    async def start(self, request: ReleaseRequest) -> Release:
        """Begin a release; it goes on by itself.

        Raises:
            PublicError: the kernel is unknown, nothing can be released that way, or the owner has yet to
                confirm what the error announces.
        """
        await self._kernels.refresh_paths()
        kernels = self._chosen(request)
        self._check_confirmed(request, kernels)
        release = Release(secrets.token_hex(8), request, kernels, time.time(), starting(request, kernels))
        release.loss = _loss_of(request)
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
        if request.level == "end_all":
            if request.kernel_id is not None:
                raise bad_request("'kernel_id' does not go with level 'end_all'; leave it out")
            return self._holding() or _refuse(NOTHING_TO_END)
        if request.kernel_id is None:
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
        busy = [kernel for kernel in kernels if kernel.busy_since is not None]
        if request.confirm or (request.level == "free_cache" and not busy):
            return
        raise needs_confirmation(announcement(request, kernels, busy))

    async def _carry_out(self, release: Release) -> None:
        async with self._turn:
            try:
                before = await self._ask()
                if release.loss is None:
                    await self._free(release, before)
                else:
                    await self._end(release, before)
            except Exception:  # noqa: BLE001  # a fault of ours must end the release, not hang it
                self._log.exception("The release %s failed", release.id)
                release.finish(Verdict("failed", FAILED, None))
        self._changed()

    async def _free(self, release: Release, before: Sample) -> None:
        troubles: list[str] = []
        for kernel in release.kernels:
            try:
                troubles += await self._free_cache(kernel)
            except TimeoutError:
                troubles.append(f"{kernel.label} did not answer")
        after = await self._ask()
        release.finish(judge_free(_held(before, release.kernels), _held(after, release.kernels), troubles))

    async def _end(self, release: Release, before: Sample) -> None:
        assert release.loss is not None  # noqa: S101  # narrows the type; only endings come here
        self._announce(release.loss, release.kernels)
        pids = _pids(before, release.kernels)
        for kernel in release.kernels:
            await self._kernels.end(kernel.id)
        left = await self._await_gone(pids)
        held = _held(before, release.kernels)
        release.finish(judge_end(held, left, release.kernels))

    async def _await_gone(self, pids: set[int]) -> dict[int, int | None]:
        """What the processes still hold: asked of the device until it is nothing or the deadline has passed."""
        deadline = time.monotonic() + self._deadline_s
        while True:
            left = _memory_by_pid(await self._ask(), pids)
            if not left or time.monotonic() >= deadline:
                return left


def _refuse(message: Message) -> list[Kernel]:
    raise PublicError(409, Message("CANNOT_RELEASE", message.template, message.values))


def _loss_of(request: ReleaseRequest) -> Loss | None:
    losses = {"end_kernel": Loss.KERNEL_ENDED_BY_OWNER, "end_all": Loss.ALL_KERNELS_ENDED_BY_OWNER}
    return losses.get(request.level)


def _held(sample: Sample, kernels: Sequence[Kernel]) -> int | None:
    """Bytes these kernels hold, None when it cannot be told."""
    if not sample.attributed.trusted:
        return None
    ids = {kernel.id for kernel in kernels}
    parts = [
        use.memory.value for use in sample.attributed.owners if use.owner.kind == "kernel" and use.owner.key in ids
    ]
    return None if None in parts else sum(part or 0 for part in parts)


def _pids(sample: Sample, kernels: Sequence[Kernel]) -> set[int]:
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
