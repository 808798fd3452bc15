"""Which memory on the devices is nobody's: with a broker, what no lease of it holds (DESIGN 2, foreign)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.client import BrokerAway, BrokerError
from jupyter_gpushare.broker.wire import DevicesAnswer
from jupyter_gpushare.quantity import Fraction, Memory, QuantityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.broker.client import BrokerClient

__all__ = ["Neighbours"]

_FRESH_S = 2.0


class Neighbours:
    """Asks the broker, not more often than every few seconds.

    Args:
        client: asks it; None where there is none.
    """

    def __init__(self, client: Callable[[], BrokerClient | None]) -> None:
        self._client = client
        self._known: Mapping[str, int] | None = None
        self._asked_at = -_FRESH_S

    async def foreign(self) -> Mapping[str, int] | None:
        """Bytes that nobody's lease covers, by device UUID; None without a broker, or one that does not answer."""
        client = self._client()
        if client is None:
            return None
        if time.monotonic() - self._asked_at >= _FRESH_S:
            self._asked_at = time.monotonic()
            try:
                self._known = _foreign(await client.request("GET", "devices", type=DevicesAnswer))
            except (BrokerAway, BrokerError):
                self._known = None
        return self._known


def _foreign(answer: DevicesAnswer) -> Mapping[str, int] | None:
    try:
        return {each.uuid: Fraction.parse(each.foreign).of(Memory(each.usable)).bytes for each in answer.devices}
    except QuantityError:
        return None
