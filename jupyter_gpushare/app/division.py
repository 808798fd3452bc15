"""How one device's books come to the parts of its bar. The parts are exact and never more than one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.broker.wire import DeviceModel

__all__ = ["division"]


def division(device: DeviceModel) -> Mapping[str, Fraction]:
    """What notebooks compute with, what training has of its own and on loan, what is parked, others', and free."""
    held, promised, parked, lent, foreign = (
        Fraction.parse(text) for text in (device.held, device.promised, device.parked, device.lent, device.foreign)
    )
    notebooks = _less(promised, parked)
    training = _less(_less(held, notebooks), lent)
    kept = _less(parked, lent)
    taken = Fraction.total((notebooks, training, lent, kept, foreign))
    return {
        "notebook": notebooks,
        "training": training,
        "lent": lent,
        "parked": kept,
        "others": foreign,
        "free": _less(Fraction.ONE, taken),
    }


def _less(whole: Fraction, part: Fraction) -> Fraction:
    """What is left; nothing where the books of one moment do not add up, as while a loan is called back."""
    return whole - part if part < whole else Fraction.ZERO
