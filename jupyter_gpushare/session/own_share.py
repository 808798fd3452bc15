"""Which share this session has, and what it is on its devices: as configured, or as the broker gave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.wire import ShareModel
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.devices.device import Device

__all__ = ["ENVIRONMENT_VARIABLE", "NO_SHARE", "PICKED_NONE", "OwnShare", "choose_share"]

ENVIRONMENT_VARIABLE = "GPUSHARE_SHARE"
#: What a hub says in a share's place for who picked no GPU.
NO_SHARE = "none"
PICKED_NONE = Message(
    "NO_GPU", "No GPU here: this server was started without one. To have a share: %gpushare request 0.5"
)
_WHOLE = Share(Fraction.ONE, Fraction.ONE)


@dataclass(frozen=True, slots=True)
class OwnShare:
    """A share, who said so, and where a broker granted it: UUIDs of devices, none while it has not.

    *is_none* is so of a server that was started without a GPU; its *share* then means nothing.
    """

    share: Share
    source: Literal["configuration", "environment", "default", "broker"]
    granted: tuple[str, ...] = ()
    is_none: bool = False

    def devices(self, visible: Sequence[Device]) -> list[Device]:
        """The devices the share lies on: the granted ones, else the first *count* visible ones of its kind.

        Empty when none fits.
        """
        if self.is_none:
            return []
        if self.source == "broker":
            by_uuid = {device.uuid: device for device in visible}
            return [by_uuid[uuid] for uuid in self.granted if uuid in by_uuid]
        fitting = [device for device in visible if self.share.kind in ("", device.kind)]
        return fitting[: self.share.count]

    def problem(self, visible: Sequence[Device]) -> Message | None:
        """Why the share cannot be kept on the *visible* devices, None when it can."""
        if self.is_none:
            return PICKED_NONE
        values = {"share": self.share.describe(), "kinds": ", ".join(sorted({device.kind for device in visible}))}
        devices = self.devices(visible)
        if self.source == "broker":
            return self._misses(devices, values)
        if not devices:
            template = "No GPU of this share's kind is here: {share}; there is {kinds}."
            return Message("NO_GPU", template, values)
        if len(devices) < self.share.count:
            template = "Your share does not fit here: {share}; this server sees {visible} such GPUs."
            return Message("SHARE_DOES_NOT_FIT", template, values | {"visible": str(len(devices))})
        smallest = min(device.usable for device in devices)
        if isinstance(self.share.request, Memory) and self.share.request > smallest:
            template = "Your share does not fit here: {share}; the GPU has {usable} usable."
            return Message("SHARE_DOES_NOT_FIT", template, values | {"usable": smallest.human})
        return None

    def _misses(self, devices: Sequence[Device], values: dict[str, str]) -> Message | None:
        """What the broker has not granted yet is told by the lease; what it has must be visible."""
        if len(devices) == len(self.granted):
            return None
        template = "Your share lies on a GPU that this server cannot see: {share}. Ask your admin."
        return Message("SHARE_DOES_NOT_FIT", template, values)

    def model(self, visible: Sequence[Device]) -> ShareModel:
        """The share with its amounts in bytes, summed over its devices; null while there is no device for it."""
        devices = self.devices(visible)
        request, limit = _amounts(self.share, devices)
        return ShareModel(
            text=NO_SHARE if self.is_none else str(self.share),
            description="no GPU" if self.is_none else self.share.describe(),
            source=self.source,
            devices=[device.uuid for device in devices],
            request=request,
            limit=limit,
            compute="shared",
        )


def choose_share(configured: str, environ: Mapping[str, str]) -> OwnShare:
    """The share from the configuration, else from the environment, else one whole device.

    Raises:
        ShareError: the text is not a share; the message says where it came from.
    """
    if configured:
        return OwnShare(_parse(configured, "c.GpuShare.share"), "configuration")
    text = environ.get(ENVIRONMENT_VARIABLE, "")
    if text.strip() == NO_SHARE:
        return OwnShare(_WHOLE, "environment", is_none=True)
    if text:
        return OwnShare(_parse(text, ENVIRONMENT_VARIABLE), "environment")
    return OwnShare(_WHOLE, "default")


def _parse(text: str, origin: str) -> Share:
    try:
        return Share.parse(text)
    except ShareError as error:
        raise ShareError(f"{origin}, {error.part}", error.problem, error.example) from None


def _amounts(share: Share, devices: Sequence[Device]) -> tuple[int | None, int | None]:
    if not devices:
        return None, None
    try:
        resolved = [share.resolve(device.usable) for device in devices]
    except ShareError:
        return None, None
    return sum(part.request.bytes for part in resolved), sum(part.limit.bytes for part in resolved)
