"""The configuration put in force: at the start, when an admin applies another one, and when its file has changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.public_error import printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_gpushare.broker import admin_wire
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.event import Event

__all__ = ["Governing"]


@dataclass(frozen=True, slots=True)
class Governing:
    """Puts configurations in force in *broker*."""

    broker: Broker

    def events(self, *, keeps_quotas: bool = True) -> list[Event]:
        """What puts the one that was read in force, with everybody's groups. A file's quotas always hold."""
        configured = self.broker.configured
        is_kept = keeps_quotas and configured.source != "file"
        return [*configured.now.events(self.broker.books, keeps_quotas=is_kept), *self.broker.people.events()]

    async def apply(
        self, request: admin_wire.ApplyRequest, submit: Callable[..., Awaitable[Change]], by: str = "admin"
    ) -> admin_wire.ApplyAnswer:
        """Put a configuration in force, or only say what it would change."""
        configured, books = self.broker.configured, self.broker.books
        wished, answer = configured.plan(request.text, books)
        if not request.dry_run:
            configured.check_may_apply()
            await submit(*wished.events(books, by=by, why=printable(request.why)), *self.broker.people.events())
            configured.keep(request.text, wished)
            self.take_over()
        return answer

    async def reload(self) -> None:
        """Read the file again.

        Raises:
            ConfigurationError: it is wrong; the one before stays in force.
            OSError: it cannot be read; as above.
        """
        self.broker.configured.read()
        await self.broker.reconciler.submit(self.events())
        self.take_over()

    def take_over(self) -> None:
        """What is in force now is what everybody goes by."""
        broker = self.broker
        now = broker.configured.now
        broker.evidence.configure(now)
        broker.holders.grace_s = now.holder_grace_s
        broker.show_anew()
        broker.holders.tell_all()
        broker.peers = replace(broker.peers, admins=now.admins)
