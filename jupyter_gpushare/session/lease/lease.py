"""The session's side of its lease: moves with the kernels, and the kernels with it.

Level-triggered: `look` compares what the broker said last with what is on the devices and says or does what is missing.
It runs whenever either may have changed, and doing it twice does no harm.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client import OVER, BrokerError
from jupyter_gpushare.session.lease import sentences as say
from jupyter_gpushare.session.lease.park_wish import NOT_PARKED, ParkWish
from jupyter_gpushare.session.lease.pool import decided, timeout_under
from jupyter_gpushare.session.lease.residence import Residence, residence_of
from jupyter_gpushare.session.lease.view import Known, clause_of, sentence_of, view_of_lease

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.parking.verdict import NotParkable
    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.lease.alone import Alone
    from jupyter_gpushare.session.lease.joining import Joining
    from jupyter_gpushare.session.lease.settings import LeaseSettings
    from jupyter_gpushare.session.lease.surroundings import Surroundings
    from jupyter_gpushare.session.parking.record import Parking
    from jupyter_gpushare.session.wire import LeaseView

__all__ = ["SessionLease"]

_HELD: Final = frozenset({"granted", "running"})
# To the broker no memory at all means that it is not known.
_LEAST: Final = 1
_LOOK_S: Final = 1.0
_FRESH_S: Final = 3.0


class SessionLease:
    """Lives on the server's event loop. Without a broker it agrees to everything.

    Args:
        joining: holds the lease.
        alone: what is done in the broker's place while it is away.
        settings: times.
        at: the session.
        on_grant: called with a lease that has devices, whenever they or its share changed.
        project: whose quota it counts against.
        clock: gives the time, in seconds since the epoch.
        log: where trouble goes.
    """

    def __init__(
        self,
        joining: Joining,
        alone: Alone,
        settings: LeaseSettings,
        at: Surroundings,
        *,
        on_grant: Callable[[LeaseModel], None],
        project: str,
        log: logging.Logger,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._joining = joining
        self._alone = alone
        self._settings = settings
        self._at = at
        self._on_grant = on_grant
        self._project = project
        self._clock = clock
        self._log = log
        self._granted: tuple[str, tuple[str, ...]] | None = None
        self._parked_epoch = -1
        self._agreed_epoch: int | None = None
        self._asked_epoch: int | None = None
        self._wanted_back: float | None = None
        self._refusal: BrokerError | None = None
        self._not_before = 0.0
        self._stirred = asyncio.Event()

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        return self._clock()

    @property
    def known(self) -> Known | None:
        """What is known of the lease now; None where there is no broker."""
        holding = self._joining.holding
        if holding is None:
            return None
        return Known(
            lease=holding.lease,
            connected=holding.connected,
            since=holding.since,
            refusal=holding.refusal,
            wanted_back=self._wanted_back,
            has_parked=any(each.parked is not None for each in self._at.parkings().all()),
            grace_s=self._settings.grace_s,
            project=self._project,
            is_asking=self._alone.is_asking,
            policy=self.policy,
        )

    @property
    def policy(self) -> PoolPolicy | None:
        """What the pool of the lease decides, as it was told last; None where nothing is decided."""
        holding = self._joining.holding
        return None if holding is None or holding.lease is None else decided(holding.lease.policy)

    def view(self) -> LeaseView | None:
        """What people see; None where there is no broker."""
        known = self.known
        return None if known is None else view_of_lease(known, self._clock())

    def without_share(self) -> Message | None:
        """What there is to say where there is no share to use; None where there is one, or no broker."""
        known = self.known
        if known is None or (known.connection == "joined" and known.lease is not None and known.lease.grants):
            return None
        if known.connection == "away" and known.lease is not None:
            return None  # nothing changes for what runs
        return sentence_of(known, self._clock())

    def clause(self) -> str | None:
        """Why parked notebooks do not come back yet, as the lease has it; None where the lease is not in the way."""
        known = self.known
        if known is None or self._lets_back(known):
            return None
        return clause_of(known, self._clock())

    def residence(self) -> Residence:
        """What is on the devices now."""
        return residence_of(self._at.last(), self._at.parkings().all(), self._at.kernels())

    def is_resident(self) -> bool:
        """Whether anything is: what the broker hears first after a reconnect."""
        here = self.residence()
        return here.holds if here.is_known else self._seems_held()

    def take_lease(self, lease: LeaseModel) -> None:
        """The broker told it."""
        self._note_grant(lease)
        if lease.target == "running" and lease.status in _HELD:
            self._wanted_back = None
        self.look()

    def take_refusal(self, error: BrokerError) -> None:
        """The broker refused what was wanted last."""
        self._refusal = error
        self._log.info("The broker refused: %s", error.text)
        self._stir()

    def look(self) -> None:
        """Do and say what the lease and the devices ask for."""
        self._stir()
        if self._alone.came_back():
            self._at.notify(say.came_back_alone())
        holding = self._joining.holding
        lease = None if holding is None else holding.lease
        here = self.residence()
        if (known := self.known) is not None and self._is_alone(known) and here.holds:
            self._alone.ask(lease)  # a kernel has opened the device, which is lent
        if holding is None or lease is None or not holding.connected or holding.is_over:
            return
        self._alone.forget()
        match lease.status:
            case "granted":
                holding.did("running", lease.epoch)
            case "running":
                self._while_running(lease, here)
            case "parking" | "yielding":
                self._while_leaving(lease, here)
            case "parked":
                self._while_parked(lease, here)
            case "resuming":
                self._while_resuming(lease, here)

    def woken(self) -> None:
        """Parked kernels that are wanted back need not wait for their next look."""
        for parking in self._at.parkings().all():
            parking.stir.set()
        self._at.changed()

    async def may_park(self, parking: Parking, memory: int) -> NotParkable | None:
        """See `Agreement.may_park`: only the last kernel that holds a device hands the share back."""
        holding = self._joining.holding
        here = self.residence()
        if holding is None or here.kernels - {parking.kernel_id} or here.others:
            return None
        if not holding.connected or holding.lease is None:
            return say.BROKER_IS_AWAY
        if holding.lease.status in OVER or holding.lease.status == "queued":
            return say.NOT_ADMITTED
        return await self._agreed(parking, here.parked + memory)

    def may_resume(self, parking: Parking) -> str | None:
        """See `Agreement.may_resume`: with the share, or an epoch that gives it back; alone only after a time."""
        known = self.known
        if known is None:
            return None
        if known.connected and known.lease is not None:
            self._want_back(known.lease)
        elif known.connection == "refused":
            self._joining.want()
        if self._is_alone(known):
            self._alone.ask(known.lease)
        if self._lets_back(known):
            if known.connection == "away":
                self._alone.lets_back(parking)
            return None
        return clause_of(known, self._clock())

    async def await_devices(self) -> str | None:
        """A kernel starts: wait a moment for the share. None when it is there or none is needed, else why not yet."""
        deadline = time.monotonic() + self._settings.start_wait_s
        while True:
            known = self.known
            if known is None and not self._joining.is_sure:
                return None
            if known is not None and known.lease is not None and known.lease.grants:
                return None
            if known is not None and known.connection == "refused":
                self._joining.want()
                return sentence_of(known, self._clock()).text.rstrip(".")
            left = deadline - time.monotonic()
            if left <= 0:
                return say.BROKER_AWAY if known is None else sentence_of(known, self._clock()).text.rstrip(".")
            await self._until_stirred(left)

    def _lets_back(self, known: Known) -> bool:
        lease = known.lease
        if known.connection == "refused":
            return False
        if not known.connected:
            # Nothing changes for what runs; what is parked may use the room that it can prove, after a while.
            if lease is not None and lease.status in _HELD:
                return True
            return self._is_alone(known) and self._alone.may_look_for_room(lease)
        if lease is None:
            return False
        return lease.status in _HELD or (lease.status == "resuming" and lease.epoch > self._parked_epoch)

    def _is_alone(self, known: Known) -> bool:
        """Whether the broker has been away for so long that what is parked need not wait for it."""
        is_held = known.lease is not None and known.lease.status in _HELD
        return known.connection == "away" and not is_held and self._clock() - known.since >= self._settings.grace_s

    def _want_back(self, lease: LeaseModel) -> None:
        holding = self._joining.holding
        if holding is None or lease.status in OVER:
            return
        if self._wanted_back is None and lease.status not in _HELD:
            self._wanted_back = self._clock()
        if lease.target != "running":
            holding.want("running")

    def _while_running(self, lease: LeaseModel, here: Residence) -> None:
        if lease.target != "running" or here.holds or here.wanted:
            return
        if self._has_nothing_to_do(here):
            self._hand_back(here.parked)

    def _has_nothing_to_do(self, here: Residence) -> bool:
        """Whether to hand the share back though no kernel is being parked: all are, or nothing is held for long."""
        idle_since = self._at.idle_since()
        timeout_s = timeout_under(self.policy, self._at.idle_timeout_s, is_default=self._at.is_default_timeout)
        is_idle = idle_since is not None and timeout_s is not None and self._clock() - idle_since >= timeout_s
        if self._clock() < self._not_before or not (here.parked or is_idle):
            return False
        sample = self._at.last()
        if sample is None or time.monotonic() - sample.taken > _FRESH_S:
            self._at.ask()  # while nothing is held nobody reads the devices; what comes is looked at again
            return False
        return self._at.mode() == "park" or (bool(here.parked) and self._at.mode() != "off")

    def _hand_back(self, memory: int) -> None:
        holding = self._joining.holding
        if holding is not None:
            # One that is refused is not asked for again at every look.
            self._not_before = self._clock() + self._settings.retry_s
            holding.want("parked", max(memory, _LEAST))

    def _while_leaving(self, lease: LeaseModel, here: Residence) -> None:
        holding = self._joining.holding
        assert holding is not None  # noqa: S101  # `look` looked
        if not here.holds and here.is_known:
            self._parked_epoch = lease.epoch
            holding.did("released", lease.epoch)
            return
        if not here.is_known:
            self._at.ask()
            return
        if here.moving or holding.has_given_up:
            return
        if self._agreed_epoch == lease.epoch:
            # It was our own wish, and the kernel was not parked after all: the broker must not ask for it anew.
            self._agreed_epoch, self._asked_epoch = None, lease.epoch
        if self._asked_epoch != lease.epoch:
            self._ask_kernels(lease, here)
        elif lease.status == "parking" and not self._is_under_way(here):
            self._give_up(lease, here)

    def _ask_kernels(self, lease: LeaseModel, here: Residence) -> None:
        """Somebody else wants it parked: with the usual warning, and not before the cells are done."""
        self._asked_epoch = lease.epoch
        if not here.kernels:
            self._give_up(lease, here)
            return
        reason = None if lease.reason is None else say.of_broker(lease.reason)
        self._at.notify(say.asked_to_park(reason))
        for kernel_id in here.kernels:
            self._at.parkings().park(kernel_id, asked_by="policy", when_idle=True)

    def _is_under_way(self, here: Residence) -> bool:
        return any(self._at.parkings().of(kernel_id).status in ("asked", "parking") for kernel_id in here.kernels)

    def _give_up(self, lease: LeaseModel, here: Residence) -> None:
        """It stays on its devices, for a reason that the broker hears."""
        holding = self._joining.holding
        assert holding is not None  # noqa: S101  # `look` looked
        refusals = [self._at.parkings().of(kernel_id).refusal for kernel_id in here.kernels]
        why = next((each.reason for each in refusals if each is not None), None)
        code = why.code if why is not None and why.code in NOT_PARKED else "NOT_PARKABLE"
        text = why.text if why is not None else f"held by {', '.join(here.others) or 'a notebook'}"
        holding.could_not(lease.epoch, code, text)
        if lease.target == "parked":
            holding.want("running")

    def _while_parked(self, lease: LeaseModel, here: Residence) -> None:
        self._agreed_epoch, self._not_before = None, 0.0
        self._parked_epoch = max(self._parked_epoch, lease.epoch)
        if here.holds or here.wanted:
            self._want_back(lease)
        self.woken()

    def _while_resuming(self, lease: LeaseModel, here: Residence) -> None:
        holding = self._joining.holding
        assert holding is not None  # noqa: S101  # `look` looked
        # Where nobody here asked for it, an admin has stopped all parking.
        comes = here.wanted or (self._wanted_back is None and self._bring_back())
        if here.kernels or not comes:
            holding.did("running", lease.epoch)
        self.woken()

    def _bring_back(self) -> bool:
        """Whether there is a kernel to bring back."""
        self._wanted_back = self._clock()
        parked = [parking.kernel_id for parking in self._at.parkings().all() if parking.parked is not None]
        for kernel_id in parked:
            self._at.parkings().resume(kernel_id, asked_by="policy")
        return bool(parked)

    async def _agreed(self, parking: Parking, memory: int) -> NotParkable | None:
        """Have the broker book host memory and let it go; None when it agreed."""
        holding = self._joining.holding
        assert holding is not None  # noqa: S101  # the caller looked
        self._refusal = None
        asked = ParkWish(time.monotonic() + self._settings.agree_s)
        while (lease := holding.lease) is not None and holding.connected:
            if lease.status in ("parking", "yielding") and not holding.has_given_up:
                self._agreed_epoch = lease.epoch
                return None
            if (error := self._refusal or asked.refusal(lease)) is not None:
                return say.not_agreed(error)
            if parking.target != "parked" or asked.is_over:
                break
            if asked.of is None and lease.status == "running":
                holding.want("parked", max(memory, _LEAST))
                asked.said(lease)
            await self._until_stirred(_LOOK_S)
        if asked.of is not None and holding.lease is not None:
            holding.want("running")
        return say.BROKER_SILENT if holding.connected else say.BROKER_IS_AWAY

    def _note_grant(self, lease: LeaseModel) -> None:
        grant = lease.share, tuple(each.device for each in lease.grants)
        if lease.grants and grant != self._granted:
            self._granted = grant
            self._on_grant(lease)

    def _seems_held(self) -> bool:
        holding = self._joining.holding
        return holding is not None and holding.lease is not None and holding.lease.status in _HELD

    def _stir(self) -> None:
        """Wake whoever waits for the lease to change."""
        self._stirred.set()
        self._stirred = asyncio.Event()
        self._at.changed()

    async def _until_stirred(self, at_most_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), at_most_s)
