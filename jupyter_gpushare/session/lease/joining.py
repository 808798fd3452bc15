"""Finds the broker, claims a lease and holds it, for as long as the server lives."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.client import BROKER, TOKEN, BrokerClient, Endpoint, NotAnEndpointError, Pauses

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.broker.client import BrokerError, Holding
    from jupyter_gpushare.broker.wire import ClaimModel, LeaseModel, ProcessModel
    from jupyter_gpushare.session.lease.settings import LeaseSettings

__all__ = ["Joining"]

_END_S = 3.0
#: By which a hub knows a server that it started (JupyterHub, "Environment variables to communicate with the Hub").
_HUBS_TOKEN = "JUPYTERHUB_API_TOKEN"  # noqa: S105  # the variable's name


class Joining:
    """Lives on the server's event loop.

    Args:
        settings: where the broker is, and times.
        claim: what is asked for, each time anew.
        processes: whose memory it is.
        on_lease: called with the lease whenever the broker tells it.
        on_change: called when the connection came or went, or there is another holding.
        on_refused: called with a refusal of what was wanted last.
        is_resident: whether GPU memory of the session is on a device now.
        at_once: whether a share is wanted from the beginning; else when `want` is called.
        environ: where the broker is, for what the settings leave open.
        pauses: of the connection.
        log: where trouble goes.

    Attributes:
        holding: the lease held, or the last one that was refused or is over; None before a broker was found.
        client: asks the broker; None before.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        *,
        claim: Callable[[], ClaimModel],
        processes: Callable[[], Sequence[ProcessModel]],
        on_lease: Callable[[LeaseModel], None],
        on_change: Callable[[], None],
        on_refused: Callable[[BrokerError], None],
        is_resident: Callable[[], bool],
        log: logging.Logger,
        at_once: bool = True,
        environ: Mapping[str, str] | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self._settings = settings
        self._claim = claim
        self._processes = processes
        self._on_lease = on_lease
        self._on_change = on_change
        self._on_refused = on_refused
        self._is_resident = is_resident
        self._log = log
        environ = os.environ if environ is None else environ
        self._environ = {**environ, **({BROKER: settings.broker} if settings.broker else {})}
        # A hub's token for one lease is first; who that is when the lease is over, the server's own token says.
        self._own_token = environ.get(_HUBS_TOKEN, "").strip()
        if not self._environ.get(TOKEN, "").strip():
            self._environ[TOKEN] = self._own_token
        self._pauses = pauses or Pauses()
        self._wanted = asyncio.Event()
        if at_once:
            self._wanted.set()
        self._task: asyncio.Task[None] | None = None
        self.holding: Holding | None = None
        self.client: BrokerClient | None = None

    @property
    def is_off(self) -> bool:
        """Whether there is to be no broker, whatever runs here."""
        return self._environ.get(BROKER, "").strip() == "off"

    @property
    def is_sure(self) -> bool:
        """Whether there must be a broker, so that a share without one is none."""
        return self._environ.get(BROKER, "").strip() not in ("", "auto", "off")

    @property
    def is_wanted(self) -> bool:
        """Whether a share was ever wanted: from the beginning, or since somebody asked for one."""
        return self.holding is not None or self._wanted.is_set()

    def start(self) -> None:
        """Begin to look; called on the running event loop."""
        if not self.is_off:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """The server ends: give the lease back. The broker sees on the devices when its kernels are gone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.holding is not None:
            await self.holding.end(_END_S)

    def want(self) -> None:
        """The share is wanted: claim it anew where it was refused or ended."""
        self._wanted.set()

    async def _run(self) -> None:
        await self._wanted.wait()
        while True:
            endpoint = await self._find()
            if endpoint is None:
                await asyncio.sleep(self._settings.look_s)
                continue
            await self._hold(endpoint)
            self._environ[TOKEN] = self._own_token or self._environ[TOKEN]
            refused = self.holding is not None and self.holding.refusal is not None
            await self._until_wanted(self._settings.retry_s if refused else None)

    async def _find(self) -> Endpoint | None:
        """The broker if one is there; a wrong address is told once, and there is no broker then."""
        try:
            return await asyncio.to_thread(Endpoint.discover, self._environ)
        except NotAnEndpointError as error:
            self._log.error("%s. This server goes on without a broker.", error)  # the text says all
            self._environ[BROKER] = "off"
            await asyncio.Event().wait()
        except OSError as error:
            self._log.warning("The broker could not be started, which is tried again: %s", error)
        return None

    async def _hold(self, endpoint: Endpoint) -> None:
        """Hold a lease until it is over."""
        self.client = BrokerClient(endpoint, pauses=self._pauses)
        self._wanted.clear()
        holding = self.holding = self.client.hold(
            self._claim(),
            self._processes(),
            on_lease=self._on_lease,
            on_change=self._on_change,
            on_refused=self._on_refused,
            is_resident=self._is_resident,
        )
        self._log.info("This server's share is kept by the broker at %s", endpoint.label)
        self._on_change()
        await holding.over()
        if holding.refusal is not None:
            self._log.warning("The broker gives no share: %s", holding.refusal.text)
        self._on_change()

    async def _until_wanted(self, at_most_s: float | None) -> None:
        try:
            await asyncio.wait_for(self._wanted.wait(), at_most_s)
        except TimeoutError:
            return
