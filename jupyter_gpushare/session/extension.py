"""The Jupyter Server extension: configuration and wiring, nothing else."""

from __future__ import annotations

import math
import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Callable, Enum, Float, Integer, TraitError, Unicode, validate

from jupyter_gpushare.broker.client import Endpoint, NotAnEndpointError
from jupyter_gpushare.devices.discovery import open_source
from jupyter_gpushare.quantity import Memory, QuantityError
from jupyter_gpushare.session import handlers, stream
from jupyter_gpushare.session.isolation.choose import IsolationSettings
from jupyter_gpushare.session.lease.settings import LeaseSettings
from jupyter_gpushare.session.meter import Cadence
from jupyter_gpushare.session.metrics import SessionCollector, count_loss
from jupyter_gpushare.session.own_share import OwnShare, choose_share
from jupyter_gpushare.session.parking.settings import ParkingSettings
from jupyter_gpushare.session.provisioner import PROVISIONER_NAME
from jupyter_gpushare.session.session import Session
from jupyter_gpushare.session.settings import Settings
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.session.isolation.mode import Mode

__all__ = ["GpuShare"]

LOSS_SCHEMA_ID = "https://jupyter-gpushare.readthedocs.io/events/loss/v1"


class GpuShare(ExtensionApp):
    """See the GPU share of this server live, per notebook, and give it back."""

    name = "jupyter_gpushare"
    load_other_extensions = True

    #: None until it was built, and for good when the configuration kept it from being built.
    session: Session | None = None

    #: What was wrong with the configuration.
    _wrong: TraitError | None = None

    share = Unicode(
        "",
        help="""The share of this server, such as "0.5", "0.25..0.8", "16GiB" or "2x0.5@a100": what is guaranteed,
        and after ".." how far it may burst. When empty: the environment variable GPUSHARE_SHARE, else one whole GPU.
        """,
    ).tag(config=True)

    broker = Unicode(
        "",
        help="""Who divides the GPUs among everybody: "off" for nobody, "auto" for the broker of this machine or of this
        user where one runs, "start" to start one where none runs, or its address, such as
        "unix:/run/gpushare/broker.sock" or "https://hub.example.org". When empty: the environment variable
        GPUSHARE_BROKER, else "auto".""",
    ).tag(config=True)

    project = Unicode(
        "",
        help="""Whose quota this server's share counts against, at the broker. When empty: the environment variable
        GPUSHARE_PROJECT, else "default".""",
    ).tag(config=True)

    broker_grace_s = Float(
        30.0,
        min=0.0,
        help="""Seconds without the broker after which parked notebooks may come back by themselves, where their GPU has
        room.""",
    ).tag(config=True)

    interval_s = Float(
        1.0,
        min=0.05,
        help="Seconds between two readings of the GPUs while somebody looks. Drivers lock: not below 1 s.",
    ).tag(config=True)

    background_interval_s = Float(
        10.0, min=0.05, help="Seconds between two readings while nobody looks and GPU memory is held."
    ).tag(config=True)

    open_source = Callable(
        open_source,
        help="""What gives the devices: called with the environment, returns a `jupyter_gpushare.devices.device.Source`.
        For GPUs that the built-in sources do not know.""",
    ).tag(config=True)

    history_s = Float(3600.0, min=60.0, help="Seconds of the session's use to remember for the chart.").tag(config=True)

    release_deadline_s = Float(
        15.0, min=1.0, help="Seconds in which the device must show that an ended kernel's memory is free."
    ).tag(config=True)

    driver_deadline_s = Float(
        15.0, min=1.0, help="Seconds after which a driver that has not answered is shown as lost."
    ).tag(config=True)

    parking = Enum(
        ["auto", "off", "observe", "park"],
        "auto",
        help="""Whether idle kernels give their GPU back by themselves. "off" parks nothing, not even when asked to.
        "observe" parks only when asked to, and reports what it would have parked. "park" parks what is idle. "auto" is
        "park" on simulated devices and where `jupyter gpushare doctor --qualify` has passed, else "observe".""",
    ).tag(config=True)

    idle_timeout_s = Float(
        600.0,
        min=1.0,
        allow_none=True,
        help="Seconds a kernel must be idle before it is parked by itself; None for never.",
    ).tag(config=True)

    warning_s = Float(300.0, min=0.0, help="Seconds before that in which people are warned.").tag(config=True)

    keep_limit_s = Float(
        28800.0, min=0.0, help="The longest, in seconds, that an owner may keep a kernel from being parked by itself."
    ).tag(config=True)

    allow_foreign = Bool(
        default_value=False,
        help="""Whether to park although processes that are not of this server use the same GPU. The way back is then
        not guaranteed: it may have to wait for them.""",
    ).tag(config=True)

    freeze_parked = Bool(
        default_value=False,
        help="Stop the processes of parked kernels, so that not even a thread of theirs can touch the GPU.",
    ).tag(config=True)

    host_memory_budget = Unicode(
        "", help='Host memory for everything that is parked on this host, such as "64GiB". Empty: half of it all.'
    ).tag(config=True)

    isolation = Enum(
        ["none", "caps", "hami-core", "mps", "mig"],
        "none",
        help="""How this server's kernels are held to its share. "caps" asks the frameworks and ends what outgrows it,
        "hami-core", "mps" and "mig" refuse memory beyond it; see the table in the documentation.""",
    ).tag(config=True)

    mps_kernels = Integer(
        2, min=1, help='With isolation "mps": into how many equal parts the share is divided, one for each kernel.'
    ).tag(config=True)

    hami_library = Unicode(
        "", help='With isolation "hami-core": the path of libvgpu.so; empty for the usual places.'
    ).tag(config=True)

    park_under_hami = Bool(
        default_value=False,
        help='With isolation "hami-core": park its kernels; only where that was measured to work.',
    ).tag(config=True)

    hold_parked_s = Float(
        12 * 3600.0,
        min=0.0,
        help="Seconds for which a parked kernel keeps this server from looking idle to a hub that culls servers.",
    ).tag(config=True)

    state_directory = Unicode(
        "", help="A directory on this host, of this user alone, for what must survive a server. Empty: below /tmp."
    ).tag(config=True)

    lock_directory = Unicode(
        "", help="A directory on this host that all users' servers share, for device tokens. Empty: /run/lock or /tmp."
    ).tag(config=True)

    @validate(
        "interval_s",
        "background_interval_s",
        "history_s",
        "release_deadline_s",
        "driver_deadline_s",
        "idle_timeout_s",
        "warning_s",
        "keep_limit_s",
        "hold_parked_s",
        "broker_grace_s",
    )
    def _check_seconds(self, proposal: Any) -> float:
        seconds: float = proposal["value"]
        if seconds is not None and not math.isfinite(seconds):
            raise TraitError(
                f"c.GpuShare.{proposal['trait'].name}: {seconds} is no number of seconds; write for example 10"
            )
        return seconds

    @validate("share")
    def _check_share(self, proposal: Any) -> str:
        text: str = proposal["value"]
        try:
            return text if not text else str(Share.parse(text))
        except ShareError as error:
            raise TraitError(f"c.GpuShare.share: {error}") from None

    @validate("broker")
    def _check_broker(self, proposal: Any) -> str:
        text: str = proposal["value"].strip()
        try:
            if text not in ("", "off", "auto", "start"):
                Endpoint.parse(text)
        except NotAnEndpointError as error:
            raise TraitError(f"c.GpuShare.broker: {error}") from None
        return text

    @validate("host_memory_budget")
    def _check_budget(self, proposal: Any) -> str:
        text: str = proposal["value"]
        try:
            return text if not text else str(Memory.parse(text))
        except QuantityError as error:
            raise TraitError(f"c.GpuShare.host_memory_budget: {error}") from None

    def _link_jupyter_server_extension(self, serverapp: Any) -> None:
        """Take the configuration. After a wrong value Jupyter Server goes on, with defaults in place of all of it."""
        try:
            super()._link_jupyter_server_extension(serverapp)
        except TraitError as error:
            self._wrong = error
            raise

    def initialize_settings(self) -> None:
        """Build the session before any kernel can start.

        Raises:
            TraitError: a value of the configuration is wrong. To go on would undo all others, ``parking = "off"`` too.
        """
        if self._wrong is not None:
            raise self._wrong
        app: Any = self.serverapp
        app.event_logger.register_event_schema(Path(__file__).parent / "events" / "loss.yaml")
        self.session = Session(
            app,
            source=self.open_source(os.environ),
            own=self._own_share(),
            settings=Settings(
                cadence=self._cadence(),
                history_s=self.history_s,
                release_deadline_s=self.release_deadline_s,
                hangs_after_s=self.driver_deadline_s,
                parking=self._parking_settings(),
                lease=LeaseSettings(broker=self.broker, project=self.project, grace_s=self.broker_grace_s),
                isolation=IsolationSettings(
                    mode=cast("Mode", self.isolation),
                    mps_kernels=self.mps_kernels,
                    hami_library=self.hami_library,
                    park_under_hami=self.park_under_hami,
                ),
            ),
            open_source=lambda: self.open_source(os.environ),
            announce=self._announce,
            log=self.log,
        )
        self._collector = SessionCollector(self.session.fresh_snapshot)
        self._use_provisioner()

    def initialize_handlers(self) -> None:
        """Add the routes."""
        self.handlers.extend([*handlers.ROUTES, stream.ROUTE])

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:  # noqa: ARG002  # the hook's signature
        """Begin once the event loop runs."""
        assert self.session is not None  # noqa: S101  # a failed extension is not started
        self.session.start()
        self._collector.register()

    async def stop_extension(self) -> None:
        """End with the server, which may have failed before it began."""
        if self.session is not None and self.session.is_running:
            self._collector.unregister()
            await self.session.stop()

    def _cadence(self) -> Cadence:
        """How often to read; a guard must see an overrun within seconds, whether somebody looks or not."""
        background = self.interval_s if self.isolation == "caps" else self.background_interval_s
        return Cadence(self.interval_s, background, background)

    def _parking_settings(self) -> ParkingSettings:
        return ParkingSettings(
            mode=cast("Literal['auto', 'off', 'observe', 'park']", self.parking),
            idle_timeout_s=self.idle_timeout_s,
            says_timeout="idle_timeout_s" in self.config.get(type(self).__name__, {}),
            warning_s=self.warning_s,
            keep_limit_s=self.keep_limit_s,
            allow_foreign=self.allow_foreign,
            freeze=self.freeze_parked,
            budget=Memory.parse(self.host_memory_budget).bytes if self.host_memory_budget else None,
            hold_parked_s=self.hold_parked_s,
            state_directory=self.state_directory,
            shared_directory=self.lock_directory or None,
        )

    def _own_share(self) -> OwnShare:
        """The share; a wrong one in the environment must not keep the notebooks from starting."""
        try:
            return choose_share(self.share, os.environ)
        except ShareError as error:
            self.log.error(  # noqa: TRY400  # the text says all; a traceback would hide it
                "%s. This server goes on with one whole GPU as its share.", error
            )
            return choose_share("", {})

    def _use_provisioner(self) -> None:
        """Start kernels with our provisioner, unless an admin has chosen one."""
        factory = KernelProvisionerFactory.instance(parent=self.serverapp)
        if factory.default_provisioner_name != "local-provisioner":
            self.log.info("Kernels are started by %s, as configured", factory.default_provisioner_name)
        elif entry_points(group=KernelProvisionerFactory.GROUP_NAME, name=PROVISIONER_NAME):
            factory.default_provisioner_name = PROVISIONER_NAME
        else:
            self.log.warning("jupyter_gpushare is not installed as a package: kernels start without %%gpushare")

    def _announce(self, loss: Loss, kernel_ids: Sequence[str], why: str) -> None:
        """Audit and count a loss before it happens."""
        count_loss(loss)
        self.log.warning("Loss %s, %s: kernels %s", loss, why, list(kernel_ids))
        data = {"loss": loss.value, "kernel_ids": list(kernel_ids)}
        app: Any = self.serverapp
        app.event_logger.emit(schema_id=LOSS_SCHEMA_ID, data=data)
