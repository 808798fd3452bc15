"""The Jupyter Server extension: configuration and wiring, nothing else."""

from __future__ import annotations

import math
import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_server.extension.application import ExtensionApp
from traitlets import Callable, Float, TraitError, Unicode, validate

from jupyter_gpushare.devices.discovery import open_source
from jupyter_gpushare.session import handlers, stream
from jupyter_gpushare.session.meter import Cadence
from jupyter_gpushare.session.metrics import SessionCollector, count_loss
from jupyter_gpushare.session.own_share import OwnShare, choose_share
from jupyter_gpushare.session.provisioner import PROVISIONER_NAME
from jupyter_gpushare.session.session import Session, Settings
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.session.kernels import Kernel

__all__ = ["GpuShare"]

LOSS_SCHEMA_ID = "https://jupyter-gpushare.readthedocs.io/events/loss/v1"


class GpuShare(ExtensionApp):
    """See the GPU share of this server live, per notebook, and give it back."""

    name = "jupyter_gpushare"
    load_other_extensions = True

    #: None until it was built, and for good when the configuration kept it from being built.
    session: Session | None = None

    share = Unicode(
        "",
        help="""The share of this server, such as "0.5", "0.25..0.8", "16GiB" or "2x0.5@a100": what is guaranteed,
        and after ".." how far it may burst. When empty: the environment variable GPUSHARE_SHARE, else one whole GPU.
        """,
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

    @validate("interval_s", "background_interval_s", "history_s", "release_deadline_s", "driver_deadline_s")
    def _check_seconds(self, proposal: Any) -> float:
        seconds: float = proposal["value"]
        if not math.isfinite(seconds):
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

    def initialize_settings(self) -> None:
        """Build the session before any kernel can start."""
        app: Any = self.serverapp
        app.event_logger.register_event_schema(Path(__file__).parent / "events" / "loss.yaml")
        self.session = Session(
            app,
            source=self.open_source(os.environ),
            own=self._own_share(),
            settings=Settings(
                cadence=Cadence(self.interval_s, self.background_interval_s, self.background_interval_s),
                history_s=self.history_s,
                release_deadline_s=self.release_deadline_s,
                hangs_after_s=self.driver_deadline_s,
            ),
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

    def _announce(self, loss: Loss, kernels: Sequence[Kernel]) -> None:
        """Audit and count a loss before it happens."""
        count_loss(loss)
        self.log.warning("Loss %s, asked for and confirmed by the owner: kernels %s", loss, [k.id for k in kernels])
        data = {"loss": loss.value, "kernel_ids": [kernel.id for kernel in kernels]}
        app: Any = self.serverapp
        app.event_logger.emit(schema_id=LOSS_SCHEMA_ID, data=data)
