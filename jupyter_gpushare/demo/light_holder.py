"""A holder without a program: it holds a lease as a session or a job does, and uses no GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.wire import ClaimModel

if TYPE_CHECKING:
    from jupyter_gpushare.broker.client import BrokerClient, Holding
    from jupyter_gpushare.broker.wire import LeaseKind, LeaseModel

__all__ = ["LightHolder"]

_BEGINS: Final = frozenset({"granted", "resuming"})
_LEAVES: Final = frozenset({"yielding", "parking"})


@dataclass
class LightHolder:
    """Does at once what its lease asks for, over a connection of its own. Lives on the event loop.

    It has no process on a device, so the broker finds it gone as soon as it says so.
    """

    name: str
    kind: LeaseKind
    project: str
    share: str
    _holding: Holding | None = field(default=None, repr=False)

    def claim(self, client: BrokerClient) -> Holding:
        """Claim and hold."""
        wish = ClaimModel(key=self.name, kind=self.kind, project=self.project, share=self.share, name=self.name)
        self._holding = client.hold(wish, [], on_lease=self._act, is_resident=lambda: False)
        return self._holding

    async def end(self) -> None:
        """Give the lease back for good."""
        if self._holding is not None:
            await self._holding.end()

    def _act(self, lease: LeaseModel) -> None:
        assert self._holding is not None  # noqa: S101  # it tells of its lease
        if lease.status in _BEGINS:
            self._holding.did("running", lease.epoch)
        elif lease.status in _LEAVES:
            self._holding.did("released", lease.epoch)
