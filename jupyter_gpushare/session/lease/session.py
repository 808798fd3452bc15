"""All of the lease in one notebook server: joins the broker's client with the session's kernels and readings."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.broker.client import BrokerAway, BrokerError
from jupyter_gpushare.broker.job_socket import jobs_directory
from jupyter_gpushare.broker.wire import ClaimModel, ProcessModel
from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.errors import PublicError
from jupyter_gpushare.session.lease import sentences as say
from jupyter_gpushare.session.lease.alone import Alone
from jupyter_gpushare.session.lease.jobs import is_of_job
from jupyter_gpushare.session.lease.joining import Joining
from jupyter_gpushare.session.lease.lease import SessionLease
from jupyter_gpushare.session.lease.neighbours import Neighbours
from jupyter_gpushare.session.lease.pool import isolation_under
from jupyter_gpushare.session.lease.surroundings import Surroundings
from jupyter_gpushare.session.lease.usage import Computed
from jupyter_gpushare.session.own_share import PICKED_NONE, OwnShare
from jupyter_gpushare.session.parking.tally import Intervals
from jupyter_gpushare.session.requests import ShareAnswer
from jupyter_gpushare.session.snapshot import message_model
from jupyter_gpushare.session.untrusted import sendable
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Mapping, Sequence

    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.devices.attribution import Owner
    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.parking.verdict import NotParkable
    from jupyter_gpushare.session.isolation.mode import Mode
    from jupyter_gpushare.session.kernels import Kernels
    from jupyter_gpushare.session.lease.settings import LeaseSettings
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.parking.record import Parking
    from jupyter_gpushare.session.parking.session import ParkingSession
    from jupyter_gpushare.session.parking.settings import ParkingSettings
    from jupyter_gpushare.session.wire import LeaseView

__all__ = ["CLAIM", "PROJECT", "LeaseHost", "LeaseSession"]

#: The environment variable that names the project where the configuration does not.
PROJECT = "GPUSHARE_PROJECT"
#: The environment variable that names the claim which a hub holds for this server.
CLAIM = "GPUSHARE_CLAIM"
_DEFAULT_PROJECT = "default"
_LONGEST_NAME = 100
_LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class LeaseHost:
    """The session that the lease is part of, as the lease sees it.

    Attributes:
        server: the Jupyter Server.
        kernels: its kernels.
        last: the newest sample; *ask* has one taken now.
        parking: parks them.
        own: the session's share as it is now; before there was a broker, as it was configured.
        take_share: called with the share that the broker gave.
        restarts: whether a kernel keeps to another share only after its restart.
        looser: kernels that are held by another isolation mode than those that start now.
        roots: pids of the processes whose descendants are the session's.
        changed: called when people should see something new.
    """

    server: Any
    kernels: Kernels
    last: Callable[[], Sample | None]
    ask: Callable[[], object]
    parking: Callable[[], ParkingSession]
    own: Callable[[], OwnShare]
    take_share: Callable[[OwnShare], None]
    restarts: Callable[[], bool]
    looser: Callable[[], list[str]]
    roots: Callable[[], Collection[int]]
    changed: Callable[[], None]


class LeaseSession:
    """Lives on the server's event loop.

    Attributes:
        lent: when training used the share.

    Args:
        settings: what the admin decided.
        host: the session.
        parking: what the admin decided about it: an idle session also gives back a share of which it holds nothing.
        log: where trouble goes.
        environ: the server's environment.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        host: LeaseHost,
        *,
        parking: ParkingSettings,
        log: logging.Logger,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self._settings = settings
        self._host = host
        self._log = log
        self._began = time.time()
        # What a hub calls the claim that it holds for this server: the same name joins it.
        self._key = environ.get(CLAIM, "").strip()[:_LONGEST_KEY] or f"session-{secrets.token_hex(12)}"
        self._project = settings.project or environ.get(PROJECT, "").strip() or _DEFAULT_PROJECT
        self._share = str(host.own().share)
        self._computed = Computed()
        self._memory: int | None = 0
        self._policy: PoolPolicy | None = None
        self.lent = Intervals()
        self._task: asyncio.Task[None] | None = None
        self._at = Surroundings(
            last=host.last,
            ask=host.ask,
            parkings=lambda: host.parking().parkings,
            kernels=lambda: [kernel.id for kernel in host.kernels.all()],
            idle_since=self._idle_since,
            mode=lambda: host.parking().mode,
            idle_timeout_s=parking.idle_timeout_s,
            is_default_timeout=not parking.says_timeout,
            notify=lambda message: host.parking().notices.add("warning", message),
            changed=host.changed,
        )
        self.joining = Joining(
            settings,
            claim=self._claim,
            processes=self._processes,
            on_lease=self._take_lease,
            on_change=lambda: self.lease.look(),  # noqa: PLW0108  # as above
            on_refused=lambda error: self.lease.take_refusal(error),  # noqa: PLW0108  # as above
            is_resident=lambda: self.lease.is_resident(),  # noqa: PLW0108  # as above
            environ=environ,
            at_once=not host.own().is_none,
            log=log,
        )
        self._alone = Alone(jobs_directory(environ), settings, changed=lambda: self.lease.woken(), log=log)  # noqa: PLW0108  # as above
        self.lease = SessionLease(
            self.joining, self._alone, settings, self._at, on_grant=self._granted, project=self._project, log=log
        )
        self._neighbours = Neighbours(lambda: self.joining.client if self._is_joined() else None)

    def start(self) -> None:
        """Begin; called on the running event loop."""
        self.joining.start()
        self._task = asyncio.get_running_loop().create_task(self._report())

    async def stop(self) -> None:
        """End with the server."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._alone.stop()
        await self.joining.stop()

    def unless_job(self, pid: int, owner: Owner | None) -> Owner | None:
        """*owner* of the process, unless that holds a lease of its own; called in the meter's thread."""
        return None if owner is not None and self._is_joined() and is_of_job(pid) else owner

    def look(self) -> None:
        """Something changed that the lease may have to follow."""
        self.lease.look()

    def policy(self) -> PoolPolicy | None:
        """See `Agreement.policy`."""
        return self.lease.policy

    def isolation_under_pool(self, own: Mode) -> Mode:
        """How kernels that start are held where the server's *own* mode is this one."""
        return isolation_under(self.lease.policy, own)

    def clause(self) -> str | None:
        """See `Agreement.clause`."""
        return self.lease.clause()

    def without_share(self) -> Message | None:
        """What there is to say where there is no share to use; None where there is one, or no broker."""
        return self.lease.without_share()

    def view(self) -> LeaseView | None:
        """How the lease is, as people see it; None without a broker."""
        return self.lease.view()

    def take(self, sample: Sample) -> None:
        """Look at a new sample."""
        self._computed.take(sample)
        self._memory = sample.attributed.memory.value
        self._note_lent()
        self.lease.look()

    def processes_changed(self) -> None:
        """A kernel or a terminal came or went."""
        if self.joining.holding is not None:
            self.joining.holding.set_processes(self._processes())

    async def foreign(self) -> Mapping[str, int] | None:
        """Bytes on each device that nobody's lease covers; None where the broker cannot say."""
        return await self._neighbours.foreign()

    async def await_devices(self) -> Message | None:
        """A kernel starts: None when it may have a GPU, else why not yet."""
        if not self.joining.is_wanted:
            return PICKED_NONE
        why = await self.lease.await_devices()
        return None if why is None else say.starts_without(why)

    async def may_park(self, parking: Parking, memory: int) -> NotParkable | None:
        """See `Agreement.may_park`."""
        return await self.lease.may_park(parking, memory)

    def may_resume(self, parking: Parking) -> str | None:
        """See `Agreement.may_resume`."""
        return self.lease.may_resume(parking)

    async def request(self, text: str) -> ShareAnswer:
        """Have another share from now on, live where the device has room.

        Raises:
            PublicError: 400: it is no share; 409: it cannot be had, with the reason.
        """
        try:
            share = str(Share.parse(text))
        except ShareError as error:
            raise PublicError(400, Message("BAD_SHARE", "{why}", {"why": str(error)})) from None
        holding = self.joining.holding
        if not self.joining.is_wanted and not self.joining.is_off:
            # The server was started without a GPU, and asks for one for the first time.
            self._share = share
            self.joining.want()
            raise PublicError(409, say.claimed_anew(share))
        if holding is None:
            raise PublicError(409, say.NO_BROKER)
        if holding.refusal is not None or holding.is_over:
            # The claim itself was refused or ended: it is made again, for that share.
            self._share = share
            self.joining.want()
            raise PublicError(409, say.claimed_anew(share))
        try:
            self._granted(await holding.want_share(share))
        except BrokerError as error:
            raise PublicError(409, say.share_refused(share, error.text, error.code)) from None
        except BrokerAway:
            raise PublicError(409, say.away(resumes_in_s=None)) from None
        self._share = share
        model = self._host.own().model(self._devices())
        restart = self._labels() if self._host.restarts() else []
        return ShareAnswer(model, message_model(say.share_changed(model.description, restart)), restart)

    def _take_lease(self, lease: LeaseModel) -> None:
        before, self._policy = self._policy, self.policy()
        if self._policy != before:
            self._log.info("The pool of this server's share decides: %s", self._policy)
            kernels = (self._host.kernels.get(kernel_id) for kernel_id in self._host.looser())
            labels = [kernel.label for kernel in kernels if kernel is not None]
            if labels and self._policy is not None and self._policy.isolation is not None:
                self._at.notify(say.isolated_by_pool(self._policy.pool, self._policy.isolation, labels))
        self.lease.take_lease(lease)
        self._note_lent()

    def _note_lent(self) -> None:
        known = self.lease.known
        self.lent.look(is_so=known is not None and known.is_lent)

    def _idle_since(self) -> float | None:
        """Since when no kernel runs a cell; None while one does."""
        kernels = self._host.kernels.all()
        if any(kernel.cells for kernel in kernels):
            return None
        return max((kernel.idle_since for kernel in kernels), default=self._began)

    def _is_joined(self) -> bool:
        holding = self.joining.holding
        return holding is not None and holding.connected

    def _claim(self) -> ClaimModel:
        root = str(getattr(self._host.server, "root_dir", "") or "")
        return ClaimModel(
            key=self._key,
            kind="interactive",
            project=self._project[:_LONGEST_NAME],
            share=self._share,
            name=sendable(Path(root).name or "notebooks", _LONGEST_NAME),
            is_parkable=self._host.parking().own_mode != "off",
        )

    def _processes(self) -> list[ProcessModel]:
        found = (identify(pid) for pid in sorted(self._host.roots()))
        return [ProcessModel(each.pid, each.start) for each in found if each is not None]

    def _granted(self, lease: LeaseModel) -> None:
        try:
            share = Share.parse(lease.share)
        except ShareError:
            self._log.exception("The broker gave a share that cannot be read")
            return
        before = {device.uuid for device in self._host.own().devices(self._devices())}
        own = OwnShare(share, "broker", tuple(grant.device for grant in lease.grants))
        self._host.take_share(own)
        if before - set(own.granted) and (labels := self._labels()):
            self._at.notify(say.other_device(labels))

    def _devices(self) -> Sequence[Device]:
        sample = self._host.last()
        return () if sample is None else sample.devices

    def _labels(self) -> list[str]:
        return [kernel.label for kernel in self._host.kernels.all()]

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self._settings.report_s)
            holding = self.joining.holding
            self.lease.look()
            if holding is not None:
                idle_since = self._at.idle_since()
                idle_s = None if idle_since is None else max(0.0, self.lease.now() - idle_since)
                self.processes_changed()
                holding.report(self._memory, self._computed.since_last(), idle_s)
