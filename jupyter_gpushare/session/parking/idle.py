"""How the idle policy sees parking: what it may ask, and how it has a kernel parked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.parking.verdict import NotParkable

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.parking.parkings import Parkings
    from jupyter_gpushare.session.parking.previews import Previews

__all__ = ["PolicyParking"]


class PolicyParking:
    """Parks for the idle policy; see `idle.surroundings.Parking`.

    Args:
        parkings: park.
        previews: know what speaks against it.
        held: how many messages wait for a kernel.
    """

    def __init__(self, parkings: Parkings, previews: Previews, held: Callable[[str], int]) -> None:
        self._parkings = parkings
        self._previews = previews
        self._held = held

    def held(self, kernel_id: str) -> int:
        """How many messages wait at the kernel's gate that would wake it."""
        return self._held(kernel_id)

    def is_running(self, kernel_id: str) -> bool:
        """Whether its GPU state is where it was, and nobody has asked for anything else."""
        return self._parkings.of(kernel_id).status == "running"

    def refusal(self, kernel_id: str) -> Message | None:
        """Why it could not be parked, by the newest look; a running cell is the policy's own affair."""
        examined = self._previews.of(kernel_id)
        verdict = None if examined is None else examined.verdict
        if not isinstance(verdict, NotParkable) or verdict.reason.code == "CELL_RUNNING":
            return None
        return verdict.reason

    async def park(self, kernel_id: str) -> Message | None:
        """Park it; why it was refused, None when it was not."""
        refusal = (await self._parkings.park(kernel_id, asked_by="policy")).refusal
        return None if refusal is None else refusal.reason
