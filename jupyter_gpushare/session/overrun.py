"""The guard of the isolation mode ``caps``: ends the one program of this session that outgrew the share.

Nothing here can reach a neighbour. What may be ended comes from the attribution of this session's own processes only,
carries its start time beside its process id, and both it and its owner are looked up once more through a handle to
that very process (pidfd_open(2)) right before.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.device import Attribution
from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.session.overrun_sentences import cannot_end, ended, warning

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.devices.attribution import Owner
    from jupyter_gpushare.devices.device import Device, ProcessUse
    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.meter import Sample

__all__ = ["GRACE_S", "Fine", "Held", "Look", "Over", "Overrun", "decide"]

#: How long, in seconds, a session may stay above its limit after the warning.
GRACE_S: Final = 3.0
_WHY: Final = "its session held more GPU memory than its share allows"
_MOST_LOOKS: Final = 64


@dataclass(frozen=True, slots=True)
class Held:
    """What one process of this session holds on one device, in bytes."""

    process: Identity
    owner: Owner
    memory: int


@dataclass(frozen=True, slots=True)
class Look:
    """One device at one moment, in seconds of a clock that only goes forward: this session's processes on it."""

    at: float
    held: tuple[Held, ...]

    @property
    def memory(self) -> int:
        """What the session holds there."""
        return sum(one.memory for one in self.held)


@dataclass(frozen=True, slots=True)
class Fine:
    """The session is within its share."""


@dataclass(frozen=True, slots=True)
class Over:
    """It is not, for *over_s* seconds. *offender* is whom that is due to, None where only the server itself grew."""

    memory: int
    over_s: float
    offender: Held | None


def decide(looks: Sequence[Look], limit: int) -> Fine | Over:
    """What *looks*, oldest first, say of a session that may hold *limit* bytes on the device.

    The offender is the process that has grown most since the last look within the limit. Where several have grown
    alike it is the one that grew last, then the one that started last. The notebook server is never the offender.
    """
    within = [at for at, look in enumerate(looks) if look.memory <= limit]
    over = looks[within[-1] + 1 :] if within else looks
    if not over:
        return Fine()
    before = {one.process: one.memory for one in looks[within[-1]].held} if within else {}
    growth = {one.process: one.memory - before.get(one.process, 0) for one in over[-1].held}
    grown = [one for one in over[-1].held if growth[one.process] > 0 and one.owner.kind != "server"]
    last = _last_growth(looks[within[-1] :] if within else looks)
    offender = max(grown, key=lambda one: (growth[one.process], last[one.process], one.process[::-1]), default=None)
    return Over(over[-1].memory, over[-1].at - over[0].at, offender)


def _last_growth(looks: Sequence[Look]) -> dict[Identity, float]:
    """When each process last took more than it had."""
    grew: dict[Identity, float] = {}
    known: dict[Identity, int] = {}
    for look in looks:
        for one in look.held:
            if one.memory > known.get(one.process, 0):
                grew[one.process] = look.at
            known[one.process] = one.memory
    return grew


@dataclass(slots=True)
class _Watch:
    """One device: what was seen since the last look within the limit, and whom we have ended or could not end."""

    looks: list[Look] = field(default_factory=list)
    warned: bool = False
    ending: Identity | None = None
    gave_up: bool = False

    def add(self, look: Look, limit: int) -> None:
        if look.memory <= limit:
            self.begin([look])
        else:
            self.looks.append(look)
            # The first two say since when, and from what it grew.
            del self.looks[2 : len(self.looks) - _MOST_LOOKS]

    def begin(self, looks: list[Look]) -> None:
        self.looks, self.warned, self.ending, self.gave_up = looks, False, None, False


class Overrun:
    """Warns, waits for *grace_s* seconds, and ends the offender: looks at every sample, on the event loop.

    Args:
        limit_of: what this session may hold, in bytes by the UUID of its devices.
        owner_of: whose a process is now, None for one that is not of this session.
        kernel_pid: a kernel's own process.
        label: what people call an owner.
        announce: called with the loss before it happens, with the kernels' ids and who wanted it.
        notify: tells people, in the notebook of a kernel where it has to do with one.
        log: where trouble goes.
        grace_s: seconds between the warning and the end.
    """

    def __init__(
        self,
        limit_of: Callable[[Sequence[Device]], Mapping[str, int]],
        *,
        owner_of: Callable[[int], Owner | None],
        kernel_pid: Callable[[str], int | None],
        label: Callable[[Owner], str],
        announce: Callable[[Loss, Sequence[str], str], None],
        notify: Callable[[str | None, Message], None],
        log: logging.Logger,
        grace_s: float = GRACE_S,
    ) -> None:
        self._limit_of = limit_of
        self._owner_of = owner_of
        self._kernel_pid = kernel_pid
        self._label = label
        self._announce = announce
        self._notify = notify
        self._log = log
        self._grace_s = grace_s
        self._watches: dict[str, _Watch] = {}

    def look(self, sample: Sample) -> None:
        """Look at a new sample. One that does not say exactly who holds what ends nobody."""
        for uuid, limit in self._limit_of(sample.devices).items():
            held = _held(sample, uuid)
            if held is not None:
                watch = self._watches.setdefault(uuid, _Watch())
                watch.add(Look(sample.taken, held), limit)
                self._act(watch, limit)

    def _act(self, watch: _Watch, limit: int) -> None:
        if watch.gave_up or (watch.ending is not None and not _has_left(watch, limit)):
            return
        verdict = decide(watch.looks, limit)
        if isinstance(verdict, Fine) or verdict.offender is None:
            return
        if not watch.warned:
            watch.warned = True
            offender = verdict.offender.owner
            self._notify(_kernel(offender), warning(verdict.memory, limit, self._grace_s, self._label(offender)))
        if verdict.over_s >= self._grace_s:
            self._end(verdict.offender, watch, limit)

    def _end(self, offender: Held, watch: _Watch, limit: int) -> None:
        owner, label = offender.owner, self._label(offender.owner)
        memory = watch.looks[-1].memory
        try:
            handle = os.pidfd_open(offender.process.pid)
        except OSError as error:
            # It has ended by itself, which the next sample shows; or the system is too old for safe endings.
            self._log.info("Process %s was not ended for its overrun: %s", offender.process.pid, error)
            return
        try:
            if identify(offender.process.pid) != offender.process or self._owner_of(offender.process.pid) != owner:
                self._log.warning("Process %s is another one by now: it was not ended", offender.process.pid)
                return
            self._announce(Loss.OVERRUN_OF_ITS_OWN, _kernels(owner), _WHY)
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError as error:
            self._log.warning("Process %s could not be ended: %s", offender.process.pid, error)
            self._notify(_kernel(owner), cannot_end(memory, limit, label))
            watch.gave_up = True
            return
        finally:
            os.close(handle)
        watch.ending = offender.process
        is_kernel = self._kernel_pid(owner.key) == offender.process.pid if owner.kind == "kernel" else False
        self._notify(_kernel(owner), ended(memory, limit, label, of_kernel=_kernel(owner), is_kernel=is_kernel))


def _has_left(watch: _Watch, limit: int) -> bool:
    """Whether the process that we ended is off the device; as long as it is not, nobody else has to go for it.

    If the session is above its limit even so, there is a new offender, with a grace of its own.
    """
    newest = watch.looks[-1]
    if any(one.process == watch.ending for one in newest.held):
        return False
    watch.begin([look for look in watch.looks[:1] if look.memory <= limit] + [newest])
    return True


def _held(sample: Sample, uuid: str) -> tuple[Held, ...] | None:
    """This session's processes on one device; None when it cannot be said exactly."""
    if not sample.attributed.trusted:
        return None
    owners = {pid: use.owner for use in sample.attributed.owners for pid in use.pids}
    listed = next((use.processes for use in sample.uses if use.uuid == uuid), None)
    if listed is None:
        return None
    mine = [process for process in listed if process.pid in owners]
    if any(_unknown(process) for process in mine):
        return None
    found = [(identify(process.pid), process) for process in mine]
    return tuple(
        Held(identity, owners[process.pid], process.memory.value or 0)
        for identity, process in found
        if identity is not None
    )


def _unknown(process: ProcessUse) -> bool:
    """Only what the driver itself says counts: a kernel's own word could put the blame on another."""
    return process.memory.value is None or process.memory.attribution is not Attribution.EXACT


def _kernel(owner: Owner) -> str | None:
    return owner.key if owner.kind == "kernel" else None


def _kernels(owner: Owner) -> list[str]:
    return [owner.key] if owner.kind == "kernel" else []
